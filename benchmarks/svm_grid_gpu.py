"""The study's whole grid on one GPU: ``python -m benchmarks.svm_grid_gpu``.

The path solver from host arrays to fold errors, one-vs-one and one-vs-rest; then
``cuml.svm.SVC`` on a sample of the cells, same card, same run, from which its time
for the whole grid is projected. A cell of cuml's that takes too long is ended; the
projection is then a lower bound.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.command import add_count, add_grid, add_limit, base_parser, exit_status
from benchmarks.gpu.cuml_cells import Cell, is_installed, sample_cells, time_cells
from benchmarks.gpu.device import gpus
from benchmarks.keep import keep, markdown_table, slug, stamped
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

if TYPE_CHECKING:
    from benchmarks.grid_search.lines import Errors, Problem

COMMAND = "benchmarks.svm_grid_gpu"
N_SAMPLED = 6  # cells of cuml's that are timed
CELL_SECONDS = 60.0  # after which one is ended


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
    add_count(parser, "--cells", N_SAMPLED, "of cuml's that are timed")
    return parser


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds, traffic and memory of the path solver; cuml's sample and its projection."""
    import numpy as np

    from benchmarks.grid_search.lines import make_problem

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
    return stamped(
        "svm_grid_gpu",
        gpu=gpus()[0].name,
        dataset=options.dataset,
        n_train=len(problem.dataset.y_train),
        fits=problem.n_fits,
        lines=_lines(problem, warm_up, options.decision, options.cells),
    )


def _lines(
    problem: Problem, warm_up: Problem, decisions: Sequence[str], n_cells: int
) -> list[dict[str, Any]]:
    """Ours first, as long as nothing else holds memory of the card."""
    ours = []
    for decision in decisions:
        cold = _path(warm_up, decision)[0]["seconds"]
        line, errors = _path(problem, decision)
        ours.append((line | {"decision": decision, "warm_up_seconds": cold}, errors))
    return [
        line | _cuml(problem, line["decision"], sample_cells(problem, n_cells), errors)
        for line, errors in ours
    ]


def _path(problem: Problem, decision: str) -> tuple[dict[str, Any], Errors]:
    """A line of ours, and the errors of every cell."""
    from pipelines.svm.cuda.path import measure_path_cuda

    data = problem.data()
    started = time.perf_counter()
    result, traffic = measure_path_cuda(
        data.scaled("gpu"), data.y, problem.gammas, problem.Cs, data.folds, decision=decision
    )
    seconds = time.perf_counter() - started
    smo = traffic.phases.get("solve", seconds)
    errors: Errors = {
        (C, gamma, fold): int(result.n_errors[g, c, fold])
        for g, gamma in enumerate(problem.gammas)
        for c, C in enumerate(problem.Cs)
        for fold in range(len(problem.folds))
    }
    line: dict[str, Any] = {
        "seconds": seconds,
        "phases": traffic.phases,
        "smo_bytes": traffic.smo_bytes,
        "smo_bytes_per_second": traffic.smo_bytes / smo,
        "peak_bytes": traffic.peak_bytes,
        "n_iterations": int(result.n_iterations.sum()),
        "least_mean_error": float((result.n_errors.sum(axis=2) / len(data.y)).min()),
    }
    return line, errors


def _cuml(problem: Problem, decision: str, cells: Sequence[Cell], ours: Errors) -> dict[str, Any]:
    """What cuml takes for some cells, what that makes for all, and whether it finds the same."""
    from benchmarks.grid_search.lines import compare

    if not is_installed():
        return {"cuml": "not installed"}
    timed = list(time_cells(problem.data(), cells, decision, CELL_SECONDS))
    seconds = sum(one.seconds for one in timed) / len(timed)
    found: Errors = {(one.cell.C, one.cell.gamma, one.cell.fold): one.n_errors for one in timed}
    differ = compare({cell: ours[cell] for cell in found}, found)
    return {
        "cuml_cells_timed": len(timed),
        "cuml_cells_ended": sum(one.n_errors is None for one in timed),
        "cuml_seconds_per_cell": seconds,
        "cuml_projected_seconds": seconds * problem.n_fits,
        "cuml_largest_difference_rows": differ["largest_difference_rows"],
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
                f"{_least(line)}{projected:.0f} s" if projected else line.get("cuml", "-"),
                f"{_least(line)}{projected / line['seconds']:.0f} ×" if projected else "-",
                _rows(line),
            ]
        )
    table = markdown_table(
        ["decision", "path", "seconds by phase", "SMO's reads", "peak memory",
         "cuml.svm.SVC, projected", "ratio", "errors differ by at most"],
        rows,
    )  # fmt: skip
    return (
        f"# The whole grid on one GPU, {record['date']}\n\n{record['dataset']}, "
        f"{record['n_train']:,} rows, {record['fits']:,} fits; {record['gpu']}. Compiled before "
        f"(a run of 500 rows). cuml's time is a projection from {_cells(record)} cells of the "
        f"grid; one that takes {CELL_SECONDS:.0f} s is ended, and counts as so long.\n\n"
        f"{table}\n\n{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


def _cells(record: dict[str, Any]) -> int:
    return max(line.get("cuml_cells_timed", 0) for line in record["lines"])


def _least(line: dict[str, Any]) -> str:
    return "at least " if line["cuml_cells_ended"] else ""


def _rows(line: dict[str, Any]) -> str:
    differ = line.get("cuml_largest_difference_rows")
    return "-" if differ is None else f"{differ} rows"


if __name__ == "__main__":
    sys.exit(main())
