"""Grids of any estimator against their peers: ``python -m benchmarks.cross_validate``.

A grid of 50 k of nearest neighbours, one of 50 alphas of ridge, one of five sizes of a forest,
and one of fits that share nothing. Every line has the same folds and arrays, and every core;
the lines of a grid run in turn: A B C, A B C, ...
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.command import add_limit, add_turns, base_parser, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.cross_validate"
GRIDS = ("plain", "knn", "ridge", "forest")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _run(options: argparse.Namespace) -> None:
    record = measure(options)
    text = page(record)
    path = keep(Path(options.results), f"cross_validate-{options.dataset}", record, text)
    print(f"\n{text}\nkept in {path}")


def _parser() -> OneLineParser:
    parser = base_parser(COMMAND, __doc__, dataset="digits", folds=5)
    add_limit(parser)
    add_turns(parser, 3)
    parser.add_argument(
        "--grids", nargs="+", choices=GRIDS, default=GRIDS, help=f"default: {' '.join(GRIDS)}"
    )
    return parser


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds and scores of every line of every grid."""
    import numpy as np

    from benchmarks.machine import installed
    from benchmarks.searches.lines import JOBLIB, WORKLOADS, lines_of
    from benchmarks.timing import in_turn, ratios
    from cluster_setup import open_cluster
    from cluster_setup.on_this_machine.devices import available_cores
    from pipelines.data.folds import make_folds
    from pipelines.data.load import load_dataset
    from pipelines.run.environment import versions

    data = load_dataset(
        options.dataset, data_dir=options.data_dir, limit=options.limit, seed=options.seed
    )
    X = np.asarray(data.scaling.fit(data.X_train).transform(data.X_train), np.float64)
    y, folds = data.y_train, make_folds(data.y_train, options.folds, options.seed)
    grids, missing = [], list[str]()
    with open_cluster("local") as client:
        # Processes start, and import what they need, before any clock runs.
        first = replace(WORKLOADS["knn"], grid={"n_neighbors": [1, 2]})
        for line in lines_of(first, X, y, folds, client)[0].values():
            line()
        for name in options.grids:
            workload = WORKLOADS[name]
            lines, missing = lines_of(workload, X, y, folds, client)
            print(f"{name}: {len(lines)} lines")
            timed = in_turn(lines, options.repeat)
            by_name = {timed_line.name: timed_line for timed_line in timed}
            plain = by_name[JOBLIB]
            n_fits = plain.result.scores.size
            grids.append(
                {
                    "grid": name,
                    "wanted": workload.wanted,
                    "n_candidates": len(plain.result.scores),
                    "n_fits": n_fits,
                    # What one takes, where each core has one.
                    "plain_fit_ms": 1000 * plain.median * available_cores() / n_fits,
                    "lines": [
                        {
                            "line": timed_line.name,
                            "seconds": list(timed_line.seconds),
                            "n_fits_made": timed_line.result.n_fits,
                            "times_faster": ratios(plain, timed_line),
                            "cells_apart": int(
                                (
                                    np.abs(timed_line.result.scores - plain.result.scores) > 1e-12
                                ).sum()
                            ),
                            "furthest_apart": float(
                                np.abs(timed_line.result.scores - plain.result.scores).max()
                            ),
                        }
                        for timed_line in timed
                    ],
                }
            )
    return stamped(
        "cross_validate",
        dataset=options.dataset,
        n_rows=len(y),
        n_features=X.shape[1],
        folds=options.folds,
        grids=grids,
        missing=missing,
        versions=versions() | installed(("joblib", "dask-ml")),
    )


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    parts = []
    for grid in record["grids"]:
        table = markdown_table(
            [
                "line",
                "seconds",
                "fastest and slowest",
                "times as fast as GridSearchCV",
                "fits made",
                "cells that differ",
            ],
            [
                [
                    line["line"],
                    f"{median(line['seconds']):.2f}",
                    f"{min(line['seconds']):.2f} to {max(line['seconds']):.2f}",
                    f"{line['times_faster'][0]:.2f} ×",
                    str(grid["n_fits"] if line["n_fits_made"] is None else line["n_fits_made"]),
                    f"{line['cells_apart']}"
                    + (f", by {line['furthest_apart']:.1e}" if line["cells_apart"] else ""),
                ]
                for line in grid["lines"]
            ],
        )
        wanted = f"wanted at least {grid['wanted']:.2f} ×"
        parts.append(
            f"## {grid['grid']}: {grid['n_candidates']} candidates, {grid['n_fits']} fits of "
            f"{grid['plain_fit_ms']:.0f} ms, {wanted}"
            f"\n\n{table}"
        )
    missing = f" Missing: {'; '.join(record['missing'])}." if record["missing"] else ""
    sections = "\n\n".join(parts)
    return (
        f"# Grids of any estimator beside their peers, {record['date']}\n\n"
        f"{record['dataset']}, {record['n_rows']:,} rows, {record['n_features']} features, "
        f"{record['folds']} folds, {len(record['grids'][0]['lines'][0]['seconds'])} turns, no "
        f"refit.{missing}\n\n{sections}\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
