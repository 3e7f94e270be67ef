"""Simulate when tasks end that workers take from one queue.

The rule is that of the program on Dask: whoever is free takes the task that stands first among
those that are ready (Graham 1969, list scheduling), and the scheduler hands out one at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Queue:
    """Tasks in the order in which they are handed out.

    Attributes
    ----------
    seconds : of shape (n,)
    needs : for some tasks, by their place, the places of those that must be done before; such a
        task goes before all that wait
    per_task : seconds of the scheduler for each task, one after the other
    """

    seconds: NDArray[np.float64]
    needs: Mapping[int, Sequence[int]] = field(default_factory=dict)
    per_task: float = 0.0


def makespan(queue: Queue, n_workers: int) -> float:
    """Return seconds from 0 to the end of the last task, on workers that are there throughout.

    Parameters
    ----------
    n_workers : at least 1
    """
    seconds = queue.seconds.tolist()
    missing = {place: len(needed) for place, needed in queue.needs.items()}
    waits_for: dict[int, list[int]] = {}
    for place, needed in queue.needs.items():
        for one in needed:
            waits_for.setdefault(one, []).append(place)
    # What needs others ends a piece of work, and goes before all that waits.
    ready = [(0, task) for task in range(len(seconds)) if task not in missing]
    running: list[tuple[float, int]] = []
    now = handed_out = 0.0
    while ready or running:
        while ready and len(running) < n_workers:
            _, task = heapq.heappop(ready)
            handed_out = max(now, handed_out) + queue.per_task
            heapq.heappush(running, (handed_out + seconds[task], task))
        now, done = heapq.heappop(running)
        for place in waits_for.get(done, ()):
            missing[place] -= 1
            if not missing[place]:
                heapq.heappush(ready, (-1, place))
    return now
