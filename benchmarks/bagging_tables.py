"""BaggedNets on ten public tables beside two ensembles: ``python -m benchmarks.bagging_tables``.

Beside it ``BaggingClassifier`` of a pipeline with ``MLPClassifier``, and a random forest, each
with its defaults, in turn on the same folds. Four tables come with scikit-learn; docs/tables.md
says which packages ship the six that are read from DIR.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.bagging_tables"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add = parser.add_argument
    add("folder", type=Path, nargs="?", metavar="DIR", help="where the tables lie")
    add("--only", nargs="+", metavar="TABLE", help="some of the ten")
    add_count(parser, "--folds", 5)
    add_count(parser, "--repeat", 2, "times the folds are dealt anew")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    from benchmarks.bagging.tables import IN_FOLDER, IN_SKLEARN, measure, splits, warm_up
    from pipelines.errors import InputError

    known = [*IN_SKLEARN, *IN_FOLDER]
    if others := sorted(set(options.only or ()) - set(known)):
        raise InputError(f"--only takes {', '.join(known)}, got {others[0]!r}")
    names = [name for name in known if name in (options.only or known)]
    parts = {name: list(splits(name, options.folder, options.folds, options.repeat))
             for name in names}  # fmt: skip
    warm_up()
    lines = []
    for name in names:
        X, y, X_test, _ = parts[name][0]
        found = measure(parts[name])
        lines.append({"table": name, "rows": len(X) + len(X_test), "inputs": X.shape[1],
                      "classes": len(np.unique(y)), "ensembles": found})  # fmt: skip
        print(" | ".join(_cells(lines[-1])), flush=True)
    record = stamped("bagging_tables", folds=options.folds, repeat=options.repeat, lines=lines)
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'bagging-tables', record, text)}")


def _cells(line: dict[str, Any]) -> list[str]:
    each = line["ensembles"].values()
    (referred,) = (one["referred"] for one in each if "referred" in one)
    kept = [share for one in each for share in one.get("accuracy_of_kept", ()) if share is not None]
    return [
        line["table"],
        f"{line['rows']:,} × {line['inputs']}",
        str(line["classes"]),
        *(_percent(one["accuracy"]) for one in each),
        *(f"{np.mean(one['seconds']):.2f}" for one in each),
        f"{np.mean(referred) * 100:.1f}",
        f"{np.mean(kept) * 100:.1f}" if kept else "–",
    ]


def _percent(values: Sequence[float]) -> str:
    """Mean and its standard error, in per cent."""
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return f"{np.mean(values) * 100:.2f} ± {error * 100:.2f}"


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    lines = record["lines"]
    names = list(lines[0]["ensembles"])
    header = ["table", "rows × inputs", "classes", *(f"{name}, %" for name in names),
              *(f"{name}, s" for name in names), "referred, %", "right of the rest, %"]  # fmt: skip
    table = markdown_table(header, [_cells(line) for line in lines])
    ours, *peers = names
    said = [_beside(lines, ours, peer) for peer in peers]
    n = record["folds"] * record["repeat"]
    return (
        f"# Bagged networks on tables, {record['date']}\n\nAccuracy on {n} test folds of each "
        f"table ({record['folds']} folds, dealt {record['repeat']} times), mean ± standard error; "
        "seconds of wall time of one fit and its prediction. Each ensemble with its defaults, in "
        f"turn on the same folds.\n\n{table}\n\n" + "\n".join(said) + "\n\n"
        '"Referred" is the share of test rows that `BaggedNets.answers` defers to a human. The '
        "standard errors take folds for independent, which they are not quite.\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND} DIR`.\n"
    )


def _beside(lines: Sequence[dict[str, Any]], ours: str, peer: str) -> str:
    """Means over the tables, the difference fold by fold, and the ratio of times."""

    def of(name: str, what: str) -> np.ndarray:
        return np.array([line["ensembles"][name][what] for line in lines])

    difference = of(ours, "accuracy") - of(peer, "accuracy")
    by_table = difference.mean(axis=1)
    n = difference.shape[1]
    spread = difference.var(axis=1, ddof=1) / n if n > 1 else np.full(len(lines), np.nan)
    error = spread.sum() ** 0.5 / len(lines)
    seconds, cpu = (of(ours, what).mean(1) / of(peer, what).mean(1)
                    for what in ("seconds", "cpu_seconds"))  # fmt: skip
    total = of(ours, "seconds").mean(1).sum() / of(peer, "seconds").mean(1).sum()
    return (
        f"- Mean over the tables: {ours} {of(ours, 'accuracy').mean() * 100:.2f} %, {peer} "
        f"{of(peer, 'accuracy').mean() * 100:.2f} %; difference {by_table.mean() * 100:+.2f} ± "
        f"{error * 100:.2f} points, better on {int((by_table > 0).sum())} of {len(lines)} tables. "
        f"{ours} takes {total:.2f} of its time over all tables, {seconds.min():.2f} to "
        f"{seconds.max():.2f} by table; of its CPU time {cpu.min():.2f} to {cpu.max():.2f}."
    )


if __name__ == "__main__":
    sys.exit(main())
