"""Our grid search against ``GridSearchCV``: ``python -m benchmarks.svm_grid``.

Every line gets the same scaled rows, folds and grid, and the same number of
cores. The lines run in turn, in one process tree: A B C, A B C, ... The cluster
is opened, pools are filled and code is compiled before, apart from the timing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from benchmarks.command import add_grid, add_limit, add_turns, base_parser, exit_status
from benchmarks.keep import keep, slug
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.svm_grid"
WARM_UP_ROWS = 300
WARM_UP_GAMMAS = 8  # enough cells to reach every process of a pool


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _run(options: argparse.Namespace) -> None:
    from benchmarks.grid_search.lines import make_problem
    from benchmarks.grid_search.measure import measure
    from benchmarks.grid_search.page import describe, page

    problem = make_problem(
        options.dataset,
        Cs=_log_spaced(options.log_c, options.n_c),
        gammas=_log_spaced(options.log_gamma, options.n_gamma),
        n_folds=options.folds,
        limit=options.limit,
        data_dir=options.data_dir,
        seed=options.seed,
    )
    warm_up = make_problem(
        options.dataset,
        Cs=(1.0, 10.0),
        gammas=_log_spaced((-4.0, -2.0), WARM_UP_GAMMAS),
        n_folds=2,
        limit=WARM_UP_ROWS,
        data_dir=options.data_dir,
    )
    solvers = options.solver or ("auto",)
    measured = measure(problem, warm_up, solvers, options.runner, options.repeat)
    record = describe(problem, measured, date.today().isoformat())
    text = page(record)
    size = f"-{options.limit}" if options.limit else ""
    folder, name = Path(options.results), f"svm_grid-{slug(options.dataset)}{size}"
    path = keep(folder, name, record, text)
    print(f"\n{text}\nkept in {path}")


def _log_spaced(bounds: Sequence[float], n: int) -> tuple[float, ...]:
    import numpy as np

    low, high = bounds
    return tuple(np.logspace(low, high, n).tolist())


def _parser() -> OneLineParser:
    parser = base_parser(COMMAND, __doc__, dataset="digits", folds=5)
    add_limit(parser)
    add_grid(parser, 8)
    add, pair = parser.add_argument, ("FROM", "TO")
    add("--log-c", type=float, nargs=2, default=(-3, 6), metavar=pair, help="default: -3 6")
    add("--log-gamma", type=float, nargs=2, default=(-6, -2), metavar=pair, help="default: -6 -2")
    add_turns(parser, repeat=3)
    add(
        "--solver",
        action="append",
        metavar="NAME",
        help="of our line; given several times, each is a line of its own (default: auto)",
    )
    add(
        "--runner",
        default="cluster",
        choices=("cluster", "threads"),
        help="ours on worker processes or on threads, one for each core (default: cluster)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
