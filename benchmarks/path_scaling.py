"""How time grows with rows: ``python -m benchmarks.path_scaling``.

The path solver and ``GridSearchCV(SVC(), n_jobs=-1)`` on growing parts of one data
set, the same grid and folds, one after the other at each size, in one process tree.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.command import base_parser, count, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.path_scaling"
CS = (1e-3, 1e-1, 1e1, 1e3, 1e5)
GAMMA = 1e-3
FIGURE = "docs/images/path_scaling.png"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _run(options: argparse.Namespace) -> None:
    record = measure(options.dataset, options.data_dir, options.sizes, options.folds)
    text = page(record)
    kept = keep(Path(options.results), f"path-scaling-{options.dataset}", record, text)
    draw(record, Path(options.figure))
    print(f"{text}\nkept in {kept} and {options.figure}")


def _parser() -> OneLineParser:
    parser = base_parser(COMMAND, __doc__, dataset="mnist", folds=2)
    add, sizes = parser.add_argument, [1000, 2000, 5000, 10000, 20000]
    add("--sizes", type=count, nargs="+", default=sizes, metavar="ROWS")
    add("--figure", default=FIGURE, metavar="PATH.png", help=f"default: {FIGURE}")
    return parser


def measure(dataset: str, data_dir: str, sizes: Sequence[int], n_folds: int) -> dict[str, Any]:
    """Seconds of both at every size, and in how many cells they differ."""
    from joblib import effective_n_jobs
    from sklearn.svm import SVC

    from benchmarks.grid_search.lines import (
        compare,
        make_problem,
        search_with_peer,
        search_with_us,
    )
    from benchmarks.timing import in_turn

    cores = effective_n_jobs(-1)
    make = partial(
        make_problem, dataset, Cs=CS, gammas=(GAMMA,), n_folds=n_folds, data_dir=data_dir
    )
    warm_up = make(limit=300)
    search_with_us(warm_up, "path", cores)
    search_with_peer(warm_up, warm_up.data().scaled("cpu"), SVC)
    lines = []
    for size in sizes:
        problem = make(limit=size)
        X = problem.data().scaled("cpu")
        ours, peer = in_turn(
            {
                f"path, {size} rows": partial(search_with_us, problem, "path", cores),
                f"GridSearchCV, {size} rows": partial(search_with_peer, problem, X, SVC),
            },
            repeats=1,
        )
        lines.append(
            {
                "n_rows": size,
                "path": ours.median,
                "grid_search_cv": peer.median,
                **compare(ours.result, peer.result),
            }
        )
    return stamped(
        "path_scaling", dataset=dataset, C=list(CS), gamma=GAMMA, folds=n_folds, lines=lines
    )


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    table = markdown_table(
        ["rows", "path", "GridSearchCV(SVC())", "ratio", "cells that differ", "by at most rows"],
        [
            [
                f"{line['n_rows']:,}",
                f"{line['path']:.2f} s",
                f"{line['grid_search_cv']:.1f} s",
                f"{line['grid_search_cv'] / line['path']:.0f} ×",
                f"{line['n_cells_that_differ']} of {line['n_cells']}",
                str(line["largest_difference_rows"]),
            ]
            for line in record["lines"]
        ],
    )
    return (
        f"# Time against rows, {record['date']}\n\n{record['dataset']}, {len(record['C'])} C × "
        f"1 gamma × {record['folds']} folds, one turn at each size; compiled before.\n\n{table}\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND} --data-dir DIR`.\n"
    )


def draw(record: dict[str, Any], path: Path) -> None:
    """Both lines on logarithmic axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = [line["n_rows"] for line in record["lines"]]
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for key, label in (("grid_search_cv", "GridSearchCV(SVC(), n_jobs=-1)"), ("path", "path")):
        seconds = [line[key] for line in record["lines"]]
        axes.loglog(rows, seconds, marker="o", label=label)
        axes.annotate(
            f"{seconds[-1]:.3g} s", (rows[-1], seconds[-1]), xytext=(-6, 8),
            textcoords="offset points", ha="right",
        )  # fmt: skip
    axes.set_xticks(rows, [f"{size:,}" for size in rows], minor=False)
    axes.set_xticks([], minor=True)
    axes.set(
        xlabel="training rows",
        ylabel="seconds",
        title=f"{len(record['C'])} C × 1 gamma × {record['folds']} folds, {record['dataset']}",
    )
    axes.margins(y=0.15)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
