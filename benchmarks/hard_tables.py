"""Hard tables, ours beside peers' ``SVC`` cell by cell: ``python -m benchmarks.hard_tables``.

CPU seconds on one core, so that other programs on the machine do not count.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from benchmarks.tables.tables import TABLES
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.hard_tables"
FIGURE = "docs/images/hard_tables.png"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add = parser.add_argument
    add("--table", action="append", choices=tuple(TABLES), help="several times; default: all")
    add_count(parser, "--rows", None, "of each table, in place of the public one's number")
    add_count(parser, "--sample", 6, "of 24 C, and of 24 gamma, for the peer")
    add_count(parser, "--cap", 60, "CPU seconds after which the peer's cell is ended")
    add_count(parser, "--folds", 5)
    add("--along-c", action="store_true", help="one gamma from C to C instead, with a figure")
    add("--before", metavar="DIR", type=Path, help="of --along-c: an earlier version's checkout")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    if options.along_c:
        return _run_along_c(options)
    from threadpoolctl import threadpool_limits

    from benchmarks.tables.measure import measure_table, warm_up

    names = options.table or tuple(TABLES)
    lines = []
    with threadpool_limits(1):
        warm_up(names)
        for name in names:
            line = measure_table(name, options.rows, options.sample, options.cap, options.folds)
            lines.append(line)
            print(_cells(line), flush=True)
    record = stamped(
        "hard_tables", folds=options.folds, cap=options.cap, sample=options.sample, lines=lines
    )
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'hard-tables', record, text)}")


def _run_along_c(options: argparse.Namespace) -> None:
    from benchmarks.machine import in_words
    from benchmarks.tables.along_c import draw, measure_along_c

    with tempfile.TemporaryDirectory() as folder:
        measured = measure_along_c(options.before, options.cap, Path(folder))
    record = stamped("hard_tables_along_c", cap=options.cap, **measured)
    names = [name for name in ("now", "before", "SVC") if name in record]
    table = markdown_table(
        ["C", *(f"{name}, {what}" for name in names for what in ("iterations", "s"))],
        [
            [f"{C:.2g}", *(_value(record[name][what][i]) for name in names for what in
                           ("iterations", "seconds"))]
            for i, C in enumerate(record["C"])
        ],
    )  # fmt: skip
    text = (
        f"# From one C to the next, {record['date']}\n\n{record['table']}, gamma = "
        f"{record['gamma']}, one fold; iterations of each C, and CPU seconds on one core "
        f"up to it; a cell of `SVC` was ended after {options.cap} s.\n\n{table}\n\n"
        f"{in_words(record['machine'])}. "
        f"Repeat it: `python -m {COMMAND} --along-c --before CHECKOUT`.\n"
    )
    draw(record, Path(FIGURE))
    kept = keep(Path(options.results), "hard-tables-along-c", record, text)
    print(f"{text}\nkept in {kept} and {FIGURE}")


def _value(value: float | None) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _cells(line: dict[str, Any]) -> list[str]:
    cells = [
        line["table"],
        f"{line['rows']:,}",
        str(line["features"]),
        f"{line['ours_seconds']:.1f}",
        f"{line['ours_unconverged']} of {line['ours_cells']:,}",
    ]
    for peer in line["peers"].values():
        ratio = peer["seconds"] / line["ours_seconds"]
        cells += [
            f"{peer['seconds']:,.0f}",
            f"{ratio:.0f} ×",
            f"{peer['capped']} of {len(peer['cells'])}",
            f"{peer['cells_that_differ']}, at most {peer['largest_difference_rows']} rows",
        ]
    return cells


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    lines, peers = record["lines"], list(record["lines"][0]["peers"])
    header = ["table", "rows", "features", "ours, CPU s", "unconverged"]
    for peer in peers:
        header += [f"{peer}, CPU s", "ratio", "capped", "cells that differ"]
    table = markdown_table(header, [_cells(line) for line in lines])
    means = ", ".join(
        f"{_mean([line['peers'][peer]['seconds'] / line['ours_seconds'] for line in lines]):.0f} × "
        f"({peer})"
        for peer in peers
    )
    return (
        f"# Hard tables, {record['date']}\n\n"
        f"24 C (2^-5 to 2^15) × 24 gamma (2^-15 to 2^3) × {record['folds']} folds on generated "
        "tables, each described in `benchmarks/tables/tables.py`. CPU seconds on one core, "
        f"projected to the whole grid: ours from {record['sample']} gammas with all C and folds, "
        "the peers, `SVC(cache_size=1000)` of scikit-learn and of scikit-learn-intelex, fit and "
        f"prediction, from {record['sample']} × {record['sample']} cells of the first fold, each "
        f"ended after {record['cap']} s and then counted as so long.\n\n"
        f"{table}\n\nGeometric means of the ratios: {means}.\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


if __name__ == "__main__":
    sys.exit(main())
