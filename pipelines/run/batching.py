"""Several tasks in one of Dask's, where there are very many and each by itself is soon done.

A scheduler takes a millisecond or two for a Dask task, and some kilobytes; a worker that has done
one waits some more for the next. So a round is at most some thousands of batches, and never fewer
for each worker than keep the end even: no batch is more than half a percent of what a worker has
to do.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from pipelines.run.events import Line
from pipelines.run.outcomes import AnyTask, Work, describe, measured, needs_of

BATCHES = 2000
BATCHES_PER_WORKER = 200


def in_batches(
    tasks: Sequence[AnyTask], n_workers: int, alone: Collection[str]
) -> list[tuple[AnyTask, ...]]:
    """Return tasks in batches, in their order; where there are few, each is a batch of its own.

    Parameters
    ----------
    tasks : in the order in which they are handed out
    alone : names of those that share with none; nor do tasks that need others
    """
    most = max(BATCHES, BATCHES_PER_WORKER * n_workers)
    if len(tasks) <= most:
        return [(task,) for task in tasks]
    share = sum(task.cost for task in tasks) / most
    # Where nothing is predicted, by number.
    least = len(tasks) // most + 1
    batches: list[tuple[AnyTask, ...]] = []
    room, cost = 0, 0.0
    for task in tasks:
        shares = not needs_of(task) and task.name not in alone
        fits = cost + task.cost <= share if share else room > 0
        if shares and batches and fits:
            batches[-1] += (task,)
            room, cost = room - 1, cost + task.cost
        else:
            batches.append((task,))
            room, cost = (least - 1, task.cost) if shares else (0, math.inf)
    return batches


def measured_together(
    work: Work, shared: Any, tasks: Sequence[AnyTask], line: Line | None = None
) -> list[dict[str, Any]]:
    """Run a batch: of each task what ``measured`` gives, or its ``error``."""
    found = []
    for task in tasks:
        try:
            found.append(measured(work, shared, task, [], line))
        except Exception as error:
            found.append({"error": describe(error)})
    return found
