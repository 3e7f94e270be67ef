"""Seconds of the study's grid by the path solver, by phase."""

from __future__ import annotations

import os
import time
from functools import partial
from unittest import SkipTest

import numpy as np

from benchmarks.gpu.compiling import warming_up
from benchmarks.gpu.figures import note
from benchmarks.grid_search.lines import make_problem

MOST_ROWS_OF_WHOLE_OVR = 20_000  # beyond, a part of the grid: the longest chain takes a minute


def time_grid(decision: str, n_rows: int) -> None:
    """Time 24 C × 24 gamma × 5 folds of so many rows of MNIST.

    Raises
    ------
    SkipTest
        MNIST is not at hand.
    """
    from pipelines.svm.cuda.launches import Launching
    from pipelines.svm.cuda.path import cross_validate_path_cuda

    data_dir = os.environ.get("PLEASINGLY_DATA_DIR")
    if not data_dir:
        raise SkipTest("needs MNIST; name its folder with --data-dir")
    Cs, gammas = np.logspace(-3, 6, 24), np.logspace(-6, -2, 24)
    if decision == "ovr" and n_rows > MOST_ROWS_OF_WHOLE_OVR:
        Cs, gammas = Cs[:16:2], gammas[::4]
    problem = make_problem(
        "mnist", Cs=Cs.tolist(), gammas=gammas.tolist(), n_folds=5, limit=n_rows, data_dir=data_dir
    )
    data = problem.data()
    few = np.arange(500)
    halves = [(few[:250], few[250:])]
    of_classes = np.sort(np.bincount(data.y))
    largest = of_classes[-2:].sum() if decision == "ovo" else len(data.y)
    with warming_up():  # for so few rows alone other kernels would be compiled
        cross_validate_path_cuda(
            data.X[few] / 255.0,
            data.y[few],
            [1e-3],
            [1.0],
            halves,
            decision=decision,
            launching=Launching.for_rows(largest),
        )
    started, phases = time.perf_counter(), dict[str, float]()
    result = cross_validate_path_cuda(
        data.scaled("gpu"),
        data.y,
        problem.gammas,
        problem.Cs,
        data.folds,
        decision=decision,
        phases=phases,
    )
    seconds = time.perf_counter() - started
    times = ", ".join(f"{phase} {spent:.2f}" for phase, spent in phases.items())
    best = (result.n_errors.sum(axis=2) / len(data.y)).min()
    note(
        f"mnist, {len(data.y)} rows, {problem.n_fits} fits {decision}: {seconds:.1f} s ({times}), "
        f"least cv error {best:.2%}"
    )


ovo_6000, ovo_20000, ovo_60000 = (partial(time_grid, "ovo", n) for n in (6_000, 20_000, 60_000))
ovr_6000, ovr_20000, ovr_60000 = (partial(time_grid, "ovr", n) for n in (6_000, 20_000, 60_000))
