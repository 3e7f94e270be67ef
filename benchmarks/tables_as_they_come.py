"""Public tables as they come, one command each: ``python -m benchmarks.tables_as_they_come``.

Beside each a GridSearchCV of a pipeline with SVC, on the same rows, folds, C and gamma. The
tables are whatever lies in a folder: docs/tables.md says which packages ship the sixteen.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_grid, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.tables_as_they_come"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="where the tables lie")
    add_grid(parser, 6)
    add_count(parser, "--folds", 5)
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:

    from benchmarks.tables.as_they_come import known_options, measure
    from pipelines.data.tables import SUFFIXES

    paths = [path for path in sorted(options.folder.glob("*")) if path.suffix in SUFFIXES]
    if not paths:
        raise InputError(f"DIR must hold tables, got {options.folder}, which has none")
    grid = [f"--{name}={getattr(options, name.replace('-', '_'))}" for name in
            ("n-c", "n-gamma", "folds")]  # fmt: skip
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        # Starting Python, compiling and loading are not what differs from table to table.
        first = min(paths, key=lambda path: path.stat().st_size)
        with suppress(InputError):
            measure(first, known_options(first.name), grid, Path(folder) / "warm")
        for path in paths:
            try:
                line = measure(path, known_options(path.name), grid, Path(folder))
            except InputError as error:
                line = {"table": path.name, "refused": str(error)}
            lines.append(line)
            print(" | ".join(_cells(line)), flush=True)
    record = stamped(
        "tables_as_they_come",
        grid={"n_c": options.n_c, "n_gamma": options.n_gamma, "folds": options.folds},
        lines=lines,
    )
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'tables-as-they-come', record, text)}")


def _cells(line: dict[str, Any]) -> list[str]:
    if "refused" in line:
        return [line["table"], line["refused"], *[""] * 9]
    peer = line["peer"]
    return [
        line["table"],
        " ".join(line["options"]) or "–",
        f"{line['n_train']:,} × {line['n_inputs']}",
        str(line["n_classes"]),
        f"{line['seconds']:.1f}",
        f"{line['search_seconds']:.2f}",
        f"{peer['seconds']:.1f}",
        _percent(line["cv_error"], peer["cv_error"]),
        _percent(line["test_error"], peer["test_error"]),
        f"{line['cells_that_differ']} of {line['n_cells']}",
        str(line["most_rows_different"]),
    ]


def _percent(ours: float, peers: float) -> str:
    return f"{ours * 100:.2f}, {peers * 100:.2f}"


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    header = ["table", "options", "rows × inputs", "classes", "command, s", "its fits, s",
              "GridSearchCV, s", "cv error, %: ours, peer", "test error, %: ours, peer",
              "cells that differ", "by rows at most"]  # fmt: skip
    table = markdown_table(header, [_cells(line) for line in record["lines"]])
    through = [line for line in record["lines"] if "refused" not in line]
    understood = "\n".join(line for one in through for line in one["understood"])
    grid = record["grid"]
    return (
        f"# Tables as they come, {record['date']}\n\n{len(through)} of {len(record['lines'])} "
        f"tables run through by one command each: {grid['n_c']} C × {grid['n_gamma']} gamma × "
        f'{grid["folds"]} folds. "Command" is everything, from starting Python to the page of '
        'the run; "its fits" what the solver took; the peer\'s time is `GridSearchCV.fit` with '
        "`n_jobs=-1` of a pipeline with the same preparation and `SVC`, in a process that runs "
        f"already.\n\n{table}\n\n## What was understood\n\n```\n{understood}\n```\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND} DIR`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
