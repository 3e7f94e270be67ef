"""Probes: what tasks take, measured on few rows of the search or by the first steps of a task.

They run the very functions of tasks, in the process that asks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from pipelines.data.dataset import rows_of
from pipelines.data.fits import Progress
from pipelines.data.folds import stratified_subset
from pipelines.search.shared.base import Split
from pipelines.search.tasks import Problem, Task, run_task

FEWEST_ROWS, ROWS_OF_A_CLASS = 256, 20
WORST = 2.2  # power of the rows with which a fit's time grows; three would have no way out anyway
LARGEST_STEP, SMALLEST_STEP = 8.0, 1.5  # from one number of rows to the next
# The path solver's seconds go about as n (n + this), see ``benchmarks/forecast.py``.
LINEAR_ROWS_OF_PATH = 1800

Clock = Callable[[], float]


def with_rows(problem: Problem, stage: str, share: float, n_rows: int) -> Problem:
    """The search on so many of its rows, classes in proportion, with its splits of these.

    What a solver may hold of a kernel shrinks as the kernel does, so that it goes the same way.
    """
    part, data = problem.of(stage), problem.data
    y, n = np.asarray(data.y), len(data.y)
    if n_rows >= n:
        return problem
    if y.dtype.kind in "iu":
        rows = stratified_subset(np.unique(y, return_inverse=True)[1], n_rows, 0)
    else:
        rows = np.sort(np.random.default_rng(0).permutation(n)[:n_rows])
    places = np.full(n, -1, np.int64)
    places[rows] = np.arange(len(rows))

    def within(some: np.ndarray) -> np.ndarray:
        found = places[np.asarray(some)]
        return found[found >= 0]

    splits: list[Split] = [(within(a), within(b)) for a, b in part.splits[stage, share]]
    few = replace(data, X=rows_of(data.X, rows), y=data.y[rows], folds=(), weights=None)
    room = (len(rows) / n) ** 2
    candidates = tuple(
        replace(one, estimator=_with_memory(one.estimator, room)) for one in part.candidates
    )
    return replace(part, data=few, candidates=candidates, splits={(stage, share): splits})


def _with_memory(estimator: Any, room: float) -> Any:
    """A candidate of ``svm_grid`` with a share of its memory; any other as it is."""
    settings = getattr(estimator, "settings", None)
    if settings is None:
        return estimator
    memory = max(1 << 20, int(room * settings.memory_bytes))
    return replace(estimator, settings=replace(settings, memory_bytes=memory))


def measure(
    problem: Problem, task: Task, n_threads: int, patience: float, now: Clock = time.perf_counter
) -> list[tuple[int, float]]:
    """The seconds of a task on growing numbers of rows, as long as the patience lasts.

    Returns
    -------
    pairs of rows and seconds; the first, which may compile or import, is left out where others
    follow
    """
    data = problem.data
    n, n_classes = len(data.y), 1
    if np.asarray(data.y).dtype.kind in "iu":
        n_classes = len(np.unique(data.y))
    rows, measured, left = min(n, max(FEWEST_ROWS, ROWS_OF_A_CLASS * n_classes)), [], patience

    def seconds(rows: int) -> float:
        few = with_rows(problem, task.stage, task.share, rows)
        began = now()
        for _ in run_task(few, task, n_threads):
            pass
        return now() - began

    seconds(rows)  # compiles and imports
    while True:
        measured.append((rows, max(1e-6, seconds(rows))))
        left -= measured[-1][1]
        power = WORST if len(measured) == 1 else min(WORST, max(1.0, _power(*measured[-2:])))
        step = min(LARGEST_STEP, (max(0.0, left) / measured[-1][1]) ** (1 / power))
        if rows == n or step < SMALLEST_STEP:
            return measured
        rows = min(n, math.ceil(rows * step))


def extrapolate(measured: Sequence[tuple[int, float]], n: int, linear_rows: int = 0) -> float:
    """Predict the seconds on ``n`` rows.

    By the last two measurements: the mean of a power of the rows and of the polynomial through
    both, a n + b n² or a + b n, in their logarithms; of a power the polynomial may be less, of
    small numbers of rows what is fixed is more.

    Parameters
    ----------
    linear_rows : where the seconds are known to go as n (n + linear_rows), that; it takes the place
        of the power
    """
    rows, seconds = measured[-1]
    if rows >= n:
        return seconds
    expected = seconds * n * (n + linear_rows) / (rows * (rows + linear_rows))
    if len(measured) == 1:
        return expected if linear_rows else seconds * n / rows
    power = _power(*measured[-2:])
    few, of_few = measured[-2]
    if power >= 2:
        polynomial = seconds * (n / rows) ** min(power, WORST)
    elif power >= 1:  # a n + b n²
        b = (seconds / rows - of_few / few) / (rows - few)
        polynomial = n * (seconds / rows + b * (n - rows))
    else:  # a + b n
        b = max(0.0, (seconds - of_few) / (rows - few))
        polynomial = seconds + b * (n - rows)
    by_power = seconds * (n / rows) ** min(WORST, max(0.8, power))
    return math.sqrt(polynomial * (expected if linear_rows else by_power))


def _power(few: tuple[int, float], many: tuple[int, float]) -> float:
    """The power of the rows with which seconds grow from one measurement to the next."""
    return math.log(many[1] / few[1]) / math.log(many[0] / few[0])


def measure_steps(
    items: Iterable[Any], patience: float, epochs: float, now: Clock = time.perf_counter
) -> float:
    """Predict the seconds of a task that trains networks, by its first steps.

    Parameters
    ----------
    items : what the task yields; it is left when the patience is over
    patience : seconds, from when it first tells how far it is
    epochs : share of the most epochs after which a network typically ends
    """
    began = now()
    first: tuple[float, float] | None = None
    with closing(iter(items)) as left:  # type: ignore[type-var]
        for item in left:
            if not isinstance(item, Progress):
                continue
            at, fraction = now(), item.fraction
            if first is None:
                first = at, fraction
            elif fraction > first[1] and at - first[0] >= patience:
                slope = (at - first[0]) / (fraction - first[1])
                return first[0] - began + slope * max(0.0, epochs - first[1])
    return now() - began
