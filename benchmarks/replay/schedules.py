"""Ways to share tasks among workers, each as a function of their times: seconds to the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.replay.measured import Drawn
from pipelines.run.chunking import task_queue
from pipelines.run.schedule import Queue, Seconds, WorkerLifetimes, makespan


@dataclass(frozen=True)
class Place:
    """Who works, and what the scheduler takes for each task, in seconds."""

    lifetimes: WorkerLifetimes
    per_task: float = 0.0


@dataclass(frozen=True)
class _Task:
    name: str
    cost: float
    needs: tuple[str, ...] = ()


def contiguous(drawn: Drawn, place: Place, generator: np.random.Generator) -> float:
    """The study's: the grid cut into as many equal pieces as there are workers."""
    return _static(drawn.seconds, place.lifetimes)


def random_static(drawn: Drawn, place: Place, generator: np.random.Generator) -> float:
    """Equal numbers of tasks, dealt out by chance before the start."""
    return _static(generator.permutation(drawn.seconds), place.lifetimes)


def barrier(drawn: Drawn, place: Place, generator: np.random.Generator) -> float:
    """The study's: equal pieces of one fold, and all wait for the last before the next fold.

    Of members: all members' candidates, then all refits.
    """
    stage = drawn.fold
    if drawn.needs:
        stage = np.zeros(len(drawn.seconds), np.int64)
        stage[list(drawn.needs)] = 1
    now = 0.0
    for one in np.unique(stage):
        now = _static(drawn.seconds[stage == one], place.lifetimes, now)
    return now


def first_come(drawn: Drawn, place: Place, generator: np.random.Generator) -> float:
    """A queue in the order of the grid."""
    return makespan(Queue(drawn.seconds, drawn.needs, place.per_task), place.lifetimes)


def longest_first(drawn: Drawn, place: Place, generator: np.random.Generator) -> float:
    """A queue by the true times, which nobody knows beforehand (Graham 1969)."""
    return makespan(queue_by(drawn, drawn.seconds, place.per_task), place.lifetimes)


def ours(drawn: Drawn, place: Place, generator: np.random.Generator) -> float:
    """The program's queue: by predicted cost, and what needs others as soon as it can."""
    return makespan(queue_by(drawn, drawn.costs, place.per_task), place.lifetimes)


SCHEDULES: dict[str, Callable[[Drawn, Place, np.random.Generator], float]] = {
    "contiguous static split": contiguous,
    "random static split": random_static,
    "barrier after each fold": barrier,
    "queue, in the grid's order": first_come,
    "queue, longest first": longest_first,
    "ours": ours,
}


def queue_by(drawn: Drawn, by: Seconds, per_task: float = 0.0) -> Queue:
    """Tasks in the order of what ``by`` says of them, the most first."""
    if not drawn.needs:
        return Queue(drawn.seconds[np.argsort(-by, kind="stable")], {}, per_task)
    tasks = [
        _Task(str(i), cost, tuple(str(one) for one in drawn.needs.get(i, ())))
        for i, cost in enumerate(by.tolist())
    ]
    return task_queue(tasks, drawn.seconds, per_task)


def _static(seconds: Seconds, lifetimes: WorkerLifetimes, begun: float = 0.0) -> float:
    """Nobody takes over what a worker leaves: one that goes too early holds up all for ever."""
    n_workers = len(lifetimes.speed)
    cuts = np.arange(n_workers + 1) * len(seconds) // n_workers
    before = np.concatenate(([0.0], np.cumsum(seconds)))
    ends = np.maximum(begun, lifetimes.begins) + np.diff(before[cuts]) / lifetimes.speed
    has_some = np.diff(cuts) > 0
    if (ends > lifetimes.begins + lifetimes.lasts)[has_some].any():
        return math.inf
    return float(ends[has_some].max())
