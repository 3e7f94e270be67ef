"""Several units in one task, where there are very many and each by itself is soon done.

A scheduler takes a millisecond or two for a task, and some kilobytes; a worker that has done one
waits some more for the next. So a round of units is at most some thousands of tasks, and never
fewer for each worker than keep the end even: no task is more than half a percent of what a worker
has to do.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from pipelines.run.events import Line
from pipelines.run.outcomes import AnyUnit, Work, describe, measured, needs_of

TASKS = 2000
TASKS_A_WORKER = 200


def in_tasks(
    units: Sequence[AnyUnit], n_workers: int, alone: Collection[str]
) -> list[tuple[AnyUnit, ...]]:
    """Units as they share tasks, in their order: most have one of their own where there are few.

    Parameters
    ----------
    units : in the order in which they are handed out
    alone : names of those that share with none; nor do units that need others, or are needed
    """
    most = max(TASKS, TASKS_A_WORKER * n_workers)
    if len(units) <= most:
        return [(unit,) for unit in units]
    by_itself = {name for unit in units for name in needs_of(unit)} | set(alone)
    share = sum(unit.cost for unit in units) / most
    # Where nothing is predicted, by number.
    least = len(units) // most + 1
    tasks: list[tuple[AnyUnit, ...]] = []
    room, cost = 0, 0.0
    for unit in units:
        shares = not needs_of(unit) and unit.name not in by_itself
        fits = cost + unit.cost <= share if share else room > 0
        if shares and tasks and fits:
            tasks[-1] += (unit,)
            room, cost = room - 1, cost + unit.cost
        else:
            tasks.append((unit,))
            room, cost = (least - 1, unit.cost) if shares else (0, math.inf)
    return tasks


def measured_together(
    work: Work, shared: Any, units: Sequence[AnyUnit], line: Line | None = None
) -> list[dict[str, Any]]:
    """The task of several units: of each what ``measured`` gives, or its ``error``."""
    found = []
    for unit in units:
        try:
            found.append(measured(work, shared, unit, [], line))
        except Exception as error:
            found.append({"error": describe(error)})
    return found
