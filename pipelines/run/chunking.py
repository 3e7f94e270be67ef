"""Cut the longest tasks into parts where workers would otherwise idle at the end of a run.

Every task has a predicted ``cost`` in some unit of time. Costs order the tasks, and the progress
of a run and the time it still needs are estimated from them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from pipelines.run.outcomes import AnyTask

TASKS_PER_WORKER = 20  # with as many, workers end together without any cut
LEAST_GAIN = 0.02  # of the makespan; each part repeats what the whole task would have done once


def makespan(costs: Iterable[float], n_workers: int) -> float:
    """The time at which the last task ends if each free worker takes the most costly one waiting.

    Tasks run in this order on Dask, too.

    References
    ----------
    R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM Journal on Applied
    Mathematics 17, 1969.
    """
    ends = [0.0] * n_workers
    for cost in sorted(costs, reverse=True):
        heapq.heapreplace(ends, ends[0] + cost)
    return max(ends)


def split_for_workers(
    tasks: Sequence[AnyTask], n_workers: int, parts_of: Callable[[AnyTask], Sequence[AnyTask]]
) -> list[AnyTask]:
    """Cut as many of the longest tasks as makes the run end earliest on ``n_workers`` workers.

    None, one, two, four, ... and at last all of them are cut, and the makespan of each way is
    computed from the predicted costs.

    Parameters
    ----------
    tasks : sequence of tasks
        None of them waits for another.
    n_workers : int
    parts_of : function of a task
        Returns the parts of the task, whose costs add up to more than its own; the task alone if
        it cannot be cut.

    Returns
    -------
    list of tasks and parts, in no particular order
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
