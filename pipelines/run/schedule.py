"""Simulate when tasks end that workers take from one queue.

The rule is that of the program on Dask: whoever is free takes the task that stands first among
those that are ready (Graham 1969, list scheduling), and the scheduler hands out one at a time.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]

MOST_LOSSES = 100  # of a task, which no worker seems to live long enough for


@dataclass(frozen=True)
class WorkerLifetimes:
    """The speed of each worker, and when it is there.

    Attributes
    ----------
    speed : of shape (W,), units of time that it does in a second
    begins : of shape (W,), seconds
    lasts : of shape (W,), seconds from ``begins`` to its end; what it is at is then lost
    away : seconds from an end to the worker that comes in its place; infinite where none does
    """

    speed: Seconds
    begins: Seconds
    lasts: Seconds
    away: float = math.inf

    @classmethod
    def equal(cls, n: int) -> WorkerLifetimes:
        """Return workers that are there from first to last."""
        return cls(np.ones(n), np.zeros(n), np.full(n, np.inf))

    @property
    def are_equal(self) -> bool:
        """Whether all workers have the same speed and lifetime."""
        return bool(
            (self.speed == 1).all() and not self.begins.any() and np.isinf(self.lasts).all()
        )


@dataclass(frozen=True)
class Queue:
    """Tasks in the order in which they are handed out.

    Attributes
    ----------
    seconds : of shape (n,), on a worker of speed 1
    needs : for some tasks, by their place, the places of those that must be done before; such a
        task goes before all that wait
    per_task : seconds of the scheduler for each task, one after the other
    """

    seconds: Seconds
    needs: Mapping[int, Sequence[int]] = field(default_factory=dict)
    per_task: float = 0.0


def makespan(queue: Queue, lifetimes: WorkerLifetimes) -> float:
    """Return seconds from 0 to the end of the last task; infinite where the workers do not last.

    Parameters
    ----------
    queue, lives : tasks and workers, at least one of either
    """
    if lifetimes.are_equal and not queue.needs:
        return _plain(queue, len(lifetimes.speed))
    return _Course(queue, lifetimes).end()


def course(queue: Queue, lifetimes: WorkerLifetimes) -> tuple[Seconds, Seconds]:
    """Return the last start and the end of each task: two arrays of shape (n,).

    In the order of the queue; infinite where the workers do not last.
    """
    course = _Course(queue, lifetimes)
    course.end()
    return np.array(course.begun), np.array(course.ended)


def _plain(queue: Queue, n_workers: int) -> float:
    """Simulate equal workers and tasks without needs, in a third of the time."""
    free = [0.0] * min(n_workers, len(queue.seconds))
    replace, per_task, handed_out = heapq.heapreplace, queue.per_task, 0.0
    for one in queue.seconds.tolist():
        handed_out = max(free[0], handed_out) + per_task
        replace(free, handed_out + one)
    return max(free)


class _Course:
    """A queue as it is worked off: events are workers that come, end a task, or are lost."""

    def __init__(self, queue: Queue, lifetimes: WorkerLifetimes) -> None:
        self._queue, self._lives = queue, lifetimes
        self._seconds, self._speed = queue.seconds.tolist(), lifetimes.speed.tolist()
        self._missing = {place: len(needed) for place, needed in queue.needs.items()}
        self._waits_for: dict[int, list[int]] = {}
        for place, needed in queue.needs.items():
            for one in needed:
                self._waits_for.setdefault(one, []).append(place)
        # What needs others ends a piece of work, and goes before all that waits.
        self._ready = [(0, i) for i in range(len(self._seconds)) if i not in self._missing]
        self._gone = (lifetimes.begins + lifetimes.lasts).tolist()
        self._handed_out = 0.0
        self._idle: deque[int] = deque()
        self._lost = [0] * len(self._seconds)
        self.begun, self.ended = ([math.inf] * len(self._seconds) for _ in range(2))
        # Time, worker, the task that it ends or loses there (-1: none), and whether it is lost.
        self._events = [(begin, w, -1, False) for w, begin in enumerate(lifetimes.begins.tolist())]
        heapq.heapify(self._events)

    def end(self) -> float:
        left, last = len(self._seconds), 0.0
        while left and self._events:
            now, worker, task, lost = heapq.heappop(self._events)
            if task >= 0 and not lost:
                left, last = left - 1, now
                self.ended[task] = now
                for place in self._waits_for.get(task, ()):
                    self._missing[place] -= 1
                    if not self._missing[place]:
                        heapq.heappush(self._ready, (-1, place))
            elif task >= 0:
                self._lost[task] += 1
                if self._lost[task] == MOST_LOSSES:
                    return math.inf
                heapq.heappush(self._ready, (-1 if task in self._missing else 0, task))
            if lost:
                self._replace(worker, now)
            else:
                self._idle.append(worker)
            while self._ready and self._idle:
                self._hand_out(self._idle.popleft(), now)
        return last if not left else math.inf

    def _hand_out(self, worker: int, now: float) -> None:
        gone = self._gone[worker]
        if now >= gone:
            self._replace(worker, gone)
            return
        _, task = heapq.heappop(self._ready)
        begins = max(now, self._handed_out) + self._queue.per_task
        self._handed_out = self.begun[task] = begins
        ends = begins + self._seconds[task] / self._speed[worker]
        heapq.heappush(self._events, (min(ends, gone), worker, task, ends > gone))

    def _replace(self, worker: int, gone: float) -> None:
        """Let another worker come, that stays as long."""
        if math.isfinite(self._lives.away):
            begins = gone + self._lives.away
            self._gone[worker] = begins + float(self._lives.lasts[worker])
            heapq.heappush(self._events, (begins, worker, -1, False))
