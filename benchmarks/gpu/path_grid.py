"""Seconds of the study's grid by the path solver; ``benchmarks.svm_grid_gpu`` tells more."""

from __future__ import annotations

import os
import time

import numpy as np

from benchmarks.gpu.compiling import warming_up
from benchmarks.gpu.figures import note
from benchmarks.grid_search.lines import make_problem


def time_grid() -> None:
    """24 C × 24 gamma × 5 folds, one-vs-one: all of MNIST where it is at hand, else the digits."""
    from pipelines.svm.cuda.path import measure_path_cuda

    data_dir = os.environ.get("PLEASINGLY_DATA_DIR")
    name, where = ("mnist", data_dir) if data_dir else ("digits", "data")
    problem = make_problem(
        name,
        Cs=np.logspace(-3, 6, 24).tolist(),
        gammas=np.logspace(-6, -2, 24).tolist(),
        n_folds=5,
        data_dir=where,
    )
    data = problem.data()
    few = np.arange(500)
    halves = [(few[:250], few[250:])]
    with warming_up():
        measure_path_cuda(data.X[few] / 255.0, data.y[few], [1e-3], [1.0], halves)
    started = time.perf_counter()
    result, traffic = measure_path_cuda(
        data.scaled("gpu"), data.y, problem.gammas, problem.Cs, data.folds
    )
    seconds = time.perf_counter() - started
    phases = ", ".join(f"{phase} {spent:.2f}" for phase, spent in traffic.phases.items())
    best = (result.n_errors.sum(axis=2) / len(data.y)).min()
    note(
        f"{name}, {len(data.y)} rows, {problem.n_fits} fits: {seconds:.1f} s ({phases}), "
        f"{traffic.smo_bytes / 1e12:.2f} TB read by SMO, peak {traffic.peak_bytes / 2**30:.1f} "
        f"GiB, least cv error {best:.2%}"
    )
