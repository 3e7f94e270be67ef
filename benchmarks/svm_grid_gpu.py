"""The study's whole grid on one GPU: ``python -m benchmarks.svm_grid_gpu``.

The path solver from host arrays to fold errors, one-vs-one and one-vs-rest; then
``cuml.svm.SVC`` on a sample of the cells, same card, same run, from which its time
for the whole grid is projected.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.command import add_grid, add_limit, base_parser, exit_status
from benchmarks.gpu.device import gpus
from benchmarks.keep import keep, markdown_table, slug
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.svm_grid_gpu"
N_SAMPLED = 6  # cells of cuml's that are timed


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _run(options: argparse.Namespace) -> None:
    if not gpus():
        raise InputError("needs a GPU, and CUDA sees none here; run it on a machine that has one")
    record = measure(options)
    text = page(record)
    card = slug(record["gpu"])
    print(f"{text}\nkept in {keep(Path(options.results), f'svm_grid_gpu-{card}', record, text)}")


def _parser() -> OneLineParser:
    parser = base_parser(COMMAND, __doc__, dataset="mnist", folds=5)
    add_limit(parser)
    add_grid(parser, 24)
    parser.add_argument("--decision", nargs="+", choices=("ovo", "ovr"), default=["ovo", "ovr"])
    return parser


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds, traffic and memory of the path solver; cuml's sample and its projection."""
    import numpy as np

    from benchmarks.grid_search.lines import make_problem
    from benchmarks.machine import describe_machine
    from pipelines.run.environment import commit, versions

    problem = make_problem(
        options.dataset,
        Cs=np.logspace(-3, 6, options.n_c).tolist(),
        gammas=np.logspace(-6, -2, options.n_gamma).tolist(),
        n_folds=options.folds,
        limit=options.limit,
        data_dir=options.data_dir,
    )
    warm_up = make_problem(
        options.dataset,
        Cs=(1.0, 10.0),
        gammas=(1e-3,),
        n_folds=2,
        limit=500,
        data_dir=options.data_dir,
    )
    return {
        "benchmark": "svm_grid_gpu",
        "date": date.today().isoformat(),
        "gpu": gpus()[0].name,
        "dataset": options.dataset,
        "n_train": len(problem.dataset.y_train),
        "fits": problem.n_fits,
        "lines": [_line(problem, warm_up, decision) for decision in options.decision],
        "machine": describe_machine(),
        "versions": versions(),
        "commit": commit(),
    }


def _line(problem: Any, warm_up: Any, decision: str) -> dict[str, Any]:
    cold = _path(warm_up, decision)["seconds"]
    line = _path(problem, decision) | {"decision": decision, "warm_up_seconds": cold}
    _cuml(warm_up, decision, 1)
    return line | _cuml(problem, decision, N_SAMPLED)


def _path(problem: Any, decision: str) -> dict[str, Any]:
    from pipelines.svm.cuda.path import measure_path_cuda

    data = problem.data()
    started = time.perf_counter()
    result, traffic = measure_path_cuda(
        data.scaled("gpu"), data.y, problem.gammas, problem.Cs, data.folds, decision=decision
    )
    seconds = time.perf_counter() - started
    smo = traffic.phases.get("solve", seconds)
    return {
        "seconds": seconds,
        "phases": traffic.phases,
        "smo_bytes": traffic.smo_bytes,
        "smo_bytes_per_second": traffic.smo_bytes / smo,
        "peak_bytes": traffic.peak_bytes,
        "n_iterations": int(result.n_iterations.sum()),
        "least_mean_error": float((result.n_errors.sum(axis=2) / len(data.y)).min()),
    }


def _cuml(problem: Any, decision: str, n_cells: int) -> dict[str, Any]:
    """Fit and score cells spread evenly over the grid with cuml's own multi-class SVC."""
    import numpy as np

    try:
        from cuml.svm import SVC
    except ImportError:
        return {"cuml": "not installed"}
    data = problem.data()
    X, y = data.scaled("cpu"), data.y
    cells = [
        (C, gamma, fold) for gamma in problem.gammas for C in problem.Cs for fold in data.folds
    ]
    sample = [cells[at] for at in np.linspace(0, len(cells) - 1, n_cells).astype(int)]
    started = time.perf_counter()
    for gamma, C, (train, validation) in sample:
        svc = SVC(C=C, gamma=gamma, decision_function_shape=decision, output_type="numpy")
        svc.fit(X[train], y[train]).predict(X[validation])
    seconds = (time.perf_counter() - started) / n_cells
    return {
        "cuml_cells_timed": n_cells,
        "cuml_seconds_per_cell": seconds,
        "cuml_projected_seconds": seconds * len(cells),
    }


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    rows = []
    for line in record["lines"]:
        projected = line.get("cuml_projected_seconds")
        rows.append(
            [
                line["decision"],
                f"{line['seconds']:.1f} s",
                ", ".join(f"{name} {spent:.1f}" for name, spent in line["phases"].items()),
                f"{line['smo_bytes'] / 1e12:.2f} TB at "
                f"{line['smo_bytes_per_second'] / 1e12:.2f} TB/s",
                f"{line['peak_bytes'] / 2**30:.1f} GiB",
                f"{projected:.0f} s" if projected else line.get("cuml", "-"),
                f"{projected / line['seconds']:.0f} ×" if projected else "-",
            ]
        )
    table = markdown_table(
        ["decision", "path", "seconds by phase", "SMO's reads", "peak memory",
         "cuml.svm.SVC, projected", "ratio"],
        rows,
    )  # fmt: skip
    return (
        f"# The whole grid on one GPU, {record['date']}\n\n{record['dataset']}, "
        f"{record['n_train']:,} rows, {record['fits']:,} fits; {record['gpu']}. Compiled before "
        f"(a run of 500 rows). cuml's time is a projection from {N_SAMPLED} cells of the grid.\n\n"
        f"{table}\n\n{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
