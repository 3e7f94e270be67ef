"""Cut the longest tasks into parts, where workers would else idle at the end.

Every task has a predicted ``cost``, in a unit of time of its own: tasks are ordered by it, and the
share that is done, and the time that is left, are told by it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from pipelines.run.outcomes import AnyTask

TASKS_PER_WORKER = 20  # from which the end is even without
LEAST_GAIN = 0.02  # of the time of all; a part repeats what the whole would have done but once


def makespan(costs: Iterable[float], n_workers: int) -> float:
    """Return when the last task ends, if whoever is free takes the most costly one that waits.

    That is the rule of the program on Dask (Graham 1969, list scheduling).
    """
    ends = [0.0] * n_workers
    for cost in sorted(costs, reverse=True):
        heapq.heapreplace(ends, ends[0] + cost)
    return max(ends)


def split_for_workers(
    tasks: Sequence[AnyTask], n_workers: int, parts_of: Callable[[AnyTask], Sequence[AnyTask]]
) -> list[AnyTask]:
    """Cut as many of the longest tasks as make the run end earliest on so many workers.

    By the predicted costs: none, one, two, four of them and so on are cut, and each way is
    replayed.

    Parameters
    ----------
    tasks : that need no others
    parts_of : the parts of a task with their costs, together more than its own; itself, where it
        cannot be cut
    """
    best = list(tasks)
    if n_workers == 1 or len(best) >= TASKS_PER_WORKER * n_workers:
        return best
    longest = sorted(tasks, key=lambda task: -task.cost)
    least, n = makespan([task.cost for task in best], n_workers), 0
    while n < len(longest):
        n = min(2 * n or 1, len(longest))
        cut = [part for task in longest[:n] for part in parts_of(task)] + longest[n:]
        end = makespan([task.cost for task in cut], n_workers)
        if end < (1 - LEAST_GAIN) * least:
            best, least = cut, end
    return best
