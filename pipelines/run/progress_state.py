"""The progress of a run in numbers and in words."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress

from pipelines.run.outcomes import Task

SECONDS_OF_COMPILATION = 60  # at the most, in each worker's first task
SECONDS_BETWEEN_COUNTS = 1  # of the workers: each is a question to the scheduler


class ProgressState:
    """Tasks done, their share of the predicted cost, and the time that share leaves.

    Parameters
    ----------
    n_tasks : int
    cost : float
        Predicted, of all of them.
    n_workers : function that tells how many workers there are, or None

    Attributes
    ----------
    best : str
        The best candidate so far in words; empty where nothing is known.
    compiled : int
        Functions that the task at work has begun to compile; 0 where it is at its fits.
    """

    def __init__(self, n_tasks: int, cost: float, n_workers: Callable[[], int] | None) -> None:
        self.n_tasks = n_tasks
        self.total = cost
        self.n_done = self.n_failed = 0
        self.best = ""
        self.compiled = 0
        self._cost_done = 0.0
        self._inside: dict[str, tuple[float, float]] = {}  # of a task at work: cost, share done
        self._started = time.monotonic()
        self._ask, self._asked, self._n_workers = n_workers, -math.inf, 0

    def add(self, task: Task, failed: bool) -> None:
        """Count one more finished task."""
        self._inside.pop(task.name, None)
        self.compiled = 0
        self.n_done += 1
        self.n_failed += failed
        self._cost_done += task.cost

    def update(self, task: Task, share: float, compiled: int = 0) -> None:
        """Record the share of a running task that is done, in [0, 1], or how much it compiles."""
        self.compiled = compiled
        if compiled and not share:
            return
        self._inside.pop(task.name, None)  # what was heard last stands last
        self._inside[task.name] = task.cost, share

    @property
    def cost_done(self) -> float:
        """The predicted cost of what is done, also inside tasks that go on."""
        return self._cost_done + sum(cost * share for cost, share in list(self._inside.values()))

    @property
    def percent(self) -> int:
        """Percentage of the predicted cost that is done; 100 only after the last task."""
        if self.n_done == self.n_tasks:
            return 100
        return min(99, int(100 * self.cost_done / self.total)) if self.total else 0

    @property
    def elapsed(self) -> float:
        """Seconds since the first task was begun."""
        return time.monotonic() - self._started

    def refresh(self) -> None:
        """Count the workers, where that was not done just now."""
        if self._ask is not None and time.monotonic() - self._asked >= SECONDS_BETWEEN_COUNTS:
            self._asked = time.monotonic()
            # A scheduler too busy to answer, or gone, as whoever waits for tasks will say.
            with suppress(Exception):
                self._n_workers = self._ask()

    @property
    def tasks(self) -> str:
        """Return the counts of finished, failed and running tasks in words."""
        parts = [f"{self.n_done} of {self.n_tasks} tasks"]
        if self.n_failed:
            parts.append(f"{self.n_failed} failed")
        if self._ask is not None:
            parts.append(f"{self._n_workers} worker" + "s" * (self._n_workers != 1))
        return ", ".join(parts)

    @property
    def times(self) -> str:
        """The time that has passed, and the time that is left where that can be told."""
        left = self.seconds_left
        return clock(self.elapsed) + ("" if left is None else f", about {clock(left)} left")

    @property
    def compiling(self) -> str:
        """Return a note that a task is compiling; empty if none is."""
        return f"compiling, {self.compiled} functions by now" if self.compiled else ""

    @property
    def at_work(self) -> str:
        """The task of which was heard last, and how far it is; empty where none has told."""
        inside = list(self._inside.items())
        if not inside or self.n_done == self.n_tasks:
            return ""
        name, (_, share) = inside[-1]
        more = f", {len(inside) - 1} more" if len(inside) > 1 else ""
        return f"{name}: {int(100 * share)} %{more}"

    @property
    def seconds_left(self) -> float | None:
        """None after the last task, and while the first ones may be mostly compilation.

        What tells of itself from inside is compiled.
        """
        done, elapsed = self.cost_done, self.elapsed
        compiles = self.n_done <= max(1, self._n_workers) and elapsed < SECONDS_OF_COMPILATION
        if not done or self.n_done == self.n_tasks or (compiles and not self._inside):
            return None
        return elapsed * max(0.0, self.total - done) / done


def clock(seconds: float) -> str:
    """Return seconds as a person reads them: ``0.4 s``, ``42 s``, ``3:05 min``, ``2:10 h``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d} h"
