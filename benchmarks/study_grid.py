"""The study's whole grid on many rows: ``python -m benchmarks.study_grid --data-dir DIR``.

Every cell of 24 C × 24 gamma × 5 folds by the path solver, and some of scikit-learn's ``SVC``,
drawn so that every C and gamma has its turn: ``GridSearchCV`` fits such cells, one after the other
on each core. CPU seconds are compared, as neither leaves a core idle; what a peer's whole grid
would take is projected from the mean of its cells.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.command import add_count, add_grid, base_parser, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

if TYPE_CHECKING:
    from benchmarks.grid_search.lines import Problem

COMMAND = "benchmarks.study_grid"
LOG_C, LOG_GAMMA = (-3, 6), (-6, -2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = base_parser(COMMAND, __doc__, dataset="mnist", folds=5)
    add_grid(parser, 24)
    add_count(parser, "--limit", 20_000, "training rows")
    add_count(parser, "--sample", 24, "cells of the peer")
    return parser


def _run(options: argparse.Namespace) -> None:
    record = measure(options)
    text = page(record)
    name = f"study-grid-{options.dataset}-{record['n_rows']}"
    print(f"\n{text}\nkept in {keep(Path(options.results), name, record, text)}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """CPU and wall seconds of both, and in how many of the peer's cells they differ."""
    from sklearn.svm import SVC

    from benchmarks.grid_search.lines import make_problem, search_with_us
    from cluster_setup.on_this_machine.devices import available_cores

    problem = make_problem(
        options.dataset,
        Cs=np.logspace(*LOG_C, options.n_c).tolist(),
        gammas=np.logspace(*LOG_GAMMA, options.n_gamma).tolist(),
        n_folds=options.folds,
        limit=options.limit,
        data_dir=options.data_dir,
    )
    cores, y = available_cores(), problem.dataset.y_train
    warm_up = make_problem(
        options.dataset,
        Cs=(1.0, 1e5),
        gammas=(1e-3,),
        n_folds=2,
        limit=300,
        data_dir=options.data_dir,
    )
    search_with_us(warm_up, "path", cores)
    began, cpu = time.perf_counter(), time.process_time()
    ours = search_with_us(problem, "path", cores)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(f"path, {problem.n_fits} cells: {wall:.1f} s, {cpu:.1f} CPU s", flush=True)
    X = problem.data().scaled("cpu")
    cells = []
    for C, gamma, fold in drawn(problem, options.sample):
        train, validation = problem.folds[fold]
        began = time.process_time()
        fitted = SVC(C=C, gamma=gamma).fit(X[train], y[train])
        wrong = int((fitted.predict(X[validation]) != y[validation]).sum())
        cells.append(
            {
                "C": C,
                "gamma": gamma,
                "fold": fold,
                "seconds": time.process_time() - began,
                "n_errors": wrong,
                "n_errors_ours": ours[C, gamma, fold],
            }
        )
        print(cells[-1], flush=True)
    return stamped(
        "study_grid",
        dataset=options.dataset,
        n_rows=len(y),
        n_c=len(problem.Cs),
        n_gamma=len(problem.gammas),
        folds=len(problem.folds),
        n_cells=problem.n_fits,
        cores=cores,
        wall_seconds=wall,
        cpu_seconds=cpu,
        ratio=float(np.mean([cell["seconds"] for cell in cells])) * problem.n_fits / cpu,
        cells=cells,
    )


def drawn(problem: Problem, count: int) -> list[tuple[float, float, int]]:
    """``count`` cells (C, gamma, fold): no value twice before all have had a turn."""
    generator = np.random.default_rng(0)

    def turns(n: int) -> np.ndarray:
        return np.concatenate([generator.permutation(n) for _ in range(-(-count // n))])[:count]

    at = [turns(len(values)) for values in (problem.Cs, problem.gammas, problem.folds)]
    return [(problem.Cs[c], problem.gammas[g], int(k)) for c, g, k in zip(*at, strict=True)]


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    cells, ours = record["cells"], record["cpu_seconds"]
    seconds = np.array([cell["seconds"] for cell in cells])
    peer = seconds.mean() * record["n_cells"]
    error = seconds.std(ddof=1) / len(cells) ** 0.5 / seconds.mean() if len(cells) > 1 else np.nan
    apart = [abs(cell["n_errors"] - cell["n_errors_ours"]) for cell in cells]
    table = markdown_table(
        ["", "cells", "CPU seconds", "of the whole grid", "ratio"],
        [
            ["path", f"{record['n_cells']:,}", f"{ours:,.0f}", f"{ours:,.0f}", "–"],
            [
                "SVC",
                str(len(cells)),
                f"{seconds.sum():,.0f}",
                f"{peer:,.0f} projected, ± {error:.0%}",
                f"{peer / ours:.0f} ×",
            ],
        ],
    )
    return (
        f"# The study's grid, {record['date']}\n\n{record['dataset']}, {record['n_rows']:,} rows, "
        f"{record['n_c']} C × {record['n_gamma']} gamma × {record['folds']} folds. CPU seconds of "
        "all cores; the path solver took "
        f"{record['wall_seconds']:,.0f} seconds on {record['cores']} threads.\n\n{table}\n\n"
        f"{sum(n_rows > 0 for n_rows in apart)} of the {len(cells)} cells differ, by at most "
        f"{max(apart)} of {record['n_rows'] // record['folds']:,} rows.\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND} --data-dir DIR "
        f"--limit {record['n_rows']} --n-c {record['n_c']} --n-gamma {record['n_gamma']} "
        f"--sample {len(cells)}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
