"""Probes: measure the time of tasks on few rows of the search, or by the first steps of a task.

They run the same functions as tasks do, in the calling process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.data.fits import Progress
from pipelines.data.folds import stratified_subset
from pipelines.run.outcomes import report_compilation
from pipelines.search.shared.base import renumbered
from pipelines.search.tasks import Problem, Task, run_task

FEWEST_ROWS, ROWS_OF_A_CLASS = 256, 20
LEAST_POWER, WORST_POWER = (
    0.8,
    2.2,
)  # exponents of the number of rows with which a fit's time may grow
MOST_TRIES = 3  # runs of a task on the same rows, while something is compiled
# A first run above this many seconds, imports included, is not repeated; the second value is used
# if the time budget is short.
SLOW, LEAST_SLOW = 15.0, 0.5
LARGEST_STEP, SECOND_STEP, SMALLEST_STEP = (
    8.0,
    3.0,
    1.5,
)  # factors from one number of rows to the next

Clock = Callable[[], float]


def with_rows(problem: Problem, stage: str, fraction: float, n_rows: int) -> Problem:
    """The search restricted to ``n_rows`` rows, classes in proportion, and to its splits of them.

    Parameters
    ----------
    problem : Problem
    stage : str
    fraction : float
        The splits are those of this fraction of the rows.
    n_rows : int

    Returns
    -------
    Problem
        The same object if it has no more than ``n_rows`` rows.
    """
    part, data = problem.of(stage), problem.data
    y, n = np.asarray(data.y), len(data.y)
    if n_rows >= n:
        return problem
    if y.dtype.kind in "iu":
        rows = stratified_subset(np.unique(y, return_inverse=True)[1], n_rows, 0)
    else:
        rows = np.sort(np.random.default_rng(0).permutation(n)[:n_rows])
    splits = renumbered(part.splits[stage, fraction], rows, n)
    return replace(part, data=data.taking(rows), splits={(stage, fraction): splits})


@dataclass(frozen=True)
class Measurement:
    """Times of a task on growing numbers of rows.

    Attributes
    ----------
    rows : tuple of int
        Numbers of rows, ascending.
    seconds : tuple of float
        CPU seconds of all threads, which other load on the machine changes little.
    wall : float
        Wall-clock seconds on the most rows.
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    wall: float

    @property
    def power(self) -> float:
        """The power of the row count by which CPU time grew between the last two measurements."""
        if len(self.rows) == 1:
            return WORST_POWER
        return math.log(self.seconds[-1] / self.seconds[-2]) / math.log(
            self.rows[-1] / self.rows[-2]
        )

    @property
    def stretch(self) -> float:
        """Wall-clock seconds per CPU second: below 1 if threads share the work."""
        return self.wall / self.seconds[-1]

    def on(self, n: int, linear_rows: int | None = None) -> float:
        """Predict the wall-clock seconds on ``n`` rows.

        The geometric mean of two extrapolations from the last two measurements: a polynomial, a n
        + b n² or a + b n, and a power of the rows. The polynomial is mostly too high where the time
        is a power; the power is too low for few rows, where much of the time is constant.

        Parameters
        ----------
        n : int
        linear_rows : int, optional
            If the time is known to grow as n (n + linear_rows), this replaces the power, with a
            weight of two thirds.
        """
        rows, seconds = self.rows[-1], self.seconds[-1]
        known_growth = None
        if linear_rows is not None:
            known_growth = n * (n + linear_rows) / (rows * (rows + linear_rows))
        if rows >= n or len(self.rows) == 1:
            return self.stretch * seconds * (known_growth or n / rows)
        fewer_rows, fewer_seconds, power = self.rows[-2], self.seconds[-2], self.power
        by_power = (n / rows) ** min(WORST_POWER, max(LEAST_POWER, power))
        if power >= 2:
            polynomial = by_power
        elif power >= 1:
            b = (seconds / rows - fewer_seconds / fewer_rows) / (rows - fewer_rows)
            polynomial = n * (seconds / rows + b * (n - rows)) / seconds
        else:
            polynomial = 1 + max(0.0, 1 - fewer_seconds / seconds) * (n - rows) / (
                rows - fewer_rows
            )
        growth = math.sqrt(polynomial * by_power)
        if known_growth is not None:
            growth = polynomial ** (1 / 3) * known_growth ** (2 / 3)
        return self.stretch * seconds * growth


def measure(
    problem: Problem, task: Task, n_threads: int, patience: float, slow: float = SLOW
) -> Measurement:
    """Measure a task on growing numbers of rows.

    A first run, not counted, compiles and imports what the task needs. If that alone takes longer
    than ``patience`` and ``slow``, its time is the measurement.

    Parameters
    ----------
    problem : Problem
    task : Task
    n_threads : int
    patience : float
        Seconds to spend on the measurements.
    slow : float
        Seconds of a first run that is not followed by others.

    Returns
    -------
    Measurement
    """
    y = np.asarray(problem.data.y)
    n = len(y)
    n_classes = len(np.unique(y)) if y.dtype.kind in "iu" else 1
    rows, patience_left = [min(n, max(FEWEST_ROWS, ROWS_OF_A_CLASS * n_classes))], patience
    seconds = list[float]()
    cpu_seconds, wall = run_on(problem, task, rows[0], n_threads)
    if wall > max(patience, slow):
        return Measurement(tuple(rows), (cpu_seconds,), wall)
    while True:
        cpu_seconds, wall = run_on(problem, task, rows[-1], n_threads)
        seconds.append(cpu_seconds)
        patience_left -= wall
        measurement = Measurement(tuple(rows), tuple(seconds), wall)
        power = min(WORST_POWER, max(1.0, measurement.power))
        step = min(LARGEST_STEP, (max(0.0, patience_left) / wall) ** (1 / power))
        if len(rows) == 1 and wall < slow / 10:  # growth needs two sizes
            step = max(step, SECOND_STEP)
        if rows[-1] == n or step < SMALLEST_STEP:
            return measurement
        rows.append(min(n, math.ceil(rows[-1] * step)))


def run_on(problem: Problem, task: Task, n_rows: int, n_threads: int) -> tuple[float, float]:
    """Run a task on ``n_rows`` rows; return its CPU seconds and wall-clock seconds.

    A run that compiled something is repeated, as other sizes may need other compiled functions.
    """
    small_problem = with_rows(problem, task.stage, task.fraction, n_rows)
    cpu = clock = 0.0
    for _ in range(MOST_TRIES):
        cpu, clock = time.process_time(), time.perf_counter()
        with report_compilation(None) as compilation:
            for _ in run_task(small_problem, task, n_threads):
                pass
        cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
        if not compilation.done:
            break
    return max(1e-4, cpu), max(1e-4, clock)


def first_step(items: Iterable[Any]) -> None:
    """Run a task until its first progress event after its imports."""
    with closing(iter(items)) as iterator:  # type: ignore[type-var]
        next((item for item in iterator if isinstance(item, Progress) and not item.note), None)


def measure_steps(
    items: Iterable[Any], patience: float, epochs: float, now: Clock = time.perf_counter
) -> float:
    """Predict the seconds of a task that trains networks, by its first steps.

    Parameters
    ----------
    items : iterable
        What the task yields; it is closed when ``patience`` is over.
    patience : float
        Seconds, from the first progress event.
    epochs : float
        Fraction of the maximum number of epochs after which a network typically stops.
    now : callable
        The clock.

    Returns
    -------
    float
    """
    began = now()
    first: tuple[float, float] | None = None
    with closing(iter(items)) as iterator:  # type: ignore[type-var]
        for item in iterator:
            if not isinstance(item, Progress) or item.note:
                continue
            moment, fraction = now(), item.fraction
            if first is None:
                first = moment, fraction
            elif fraction > first[1] and moment - first[0] >= patience:
                slope = (moment - first[0]) / (fraction - first[1])
                return first[0] - began + slope * max(0.0, epochs - first[1])
    return now() - began
