"""The time budget of a search: which tasks are begun, and the time reserved for the refit.

No task is begun that, by its predicted time, would not end within the budget. How long a type of
work takes is unknown until its first task has ended: that task stops itself when time is over.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pipelines.search.forecast import Pace
from pipelines.search.tasks import Row, Task

# What may follow the end of the budget, as a fraction of it or in seconds, whichever is more: a
# refit that takes longer than predicted, the baseline and the page.
OVERTIME, SECONDS_OF_OVERTIME = 0.05, 20.0
# A refit takes this many times as long as a split: it has more rows than a training fold, and an
# SVM is fitted without the work that its group shared.
REFIT = 1.5
FIRST_TASKS = 2  # tasks of a type of work, before its time counts as known
SHORT = 1.0  # seconds; a worker is given a second task ahead if tasks are shorter than this


@dataclass(eq=False)
class Budget:
    """The time budget of a run, and what its tasks took so far.

    Attributes
    ----------
    seconds : float
        Duration of the whole run, the refit and the page included.
    began : float
        Start of the run, by ``time.monotonic``.
    pace : Pace
        Predicts the seconds of tasks.
    refit : float
        Time of a refit, as a multiple of the time of one split.
    n_refits : int
        Refits that follow the search, one after another.
    held_back : bool
        Whether a task was left out because it would not have ended in time.
    """

    seconds: float
    began: float
    pace: Pace
    refit: float = REFIT
    n_refits: int = 1
    held_back: bool = False
    _split_seconds: list[float] = field(default_factory=list, init=False)
    _n_told: Counter[Any] = field(default_factory=Counter, init=False)
    _has_begun: bool = field(default=False, init=False)

    @property
    def overtime(self) -> float:
        """Seconds after the end of the budget within which the run has to be over."""
        return max(OVERTIME * self.seconds, SECONDS_OF_OVERTIME)

    @property
    def seconds_left(self) -> float:
        """Seconds until the last task of the search has to end."""
        # The third quartile of the times of splits, without the first, which includes warming up.
        ordered = sorted(self._split_seconds[1:])
        slow = ordered[3 * (len(ordered) - 1) // 4] if ordered else 0.0
        reserve = self.n_refits * self.refit * slow
        return self.began + self.seconds - reserve - time.monotonic()

    def tell(self, task: Task, seconds: float, rows: Iterable[Row]) -> None:
        """Record the seconds of a task, or of its rows that are ready."""
        rows = list(rows)
        n_cells = len(task.members) * len(task.splits)
        if not rows or not n_cells:
            return
        self._n_told[self.pace.work_type(task)] += 1
        self.pace.tell(replace(task, cost=task.cost * len(rows) / n_cells), seconds)
        n_splits = len({row["split"] for row in rows})
        if task.fraction == 1:
            self._split_seconds.append(seconds / n_splits)

    def chosen(self, queue: list[Task], n: int, n_workers: int) -> Iterator[Task]:
        """Take tasks that will end in time off the queue, in its order, and yield them.

        The first task is begun even if the start of the run used up the budget, so that there is
        an answer.

        Parameters
        ----------
        queue : list of Task
            Tasks that wait; those that are yielded are removed, some are cut into splits.
        n : int
            Tasks that were begun and are not done.
        n_workers : int
        """
        # A task that runs until the end of the search leaves the rows of whole splits behind.
        until = time.time() + max(0.0, self.seconds_left) + self.overtime / 2
        index = 0
        while index < len(queue):
            task = queue[index]
            seconds = self.pace.seconds(task)
            is_short = seconds < SHORT
            if n >= (2 * n_workers if is_short else n_workers):
                return
            # The first task of a type includes warming up, so its time says little about the
            # others, unless it was long: then most of it was work.
            is_among_first = self._n_told[self.pace.work_type(task)] < FIRST_TASKS
            is_unknown = math.isnan(seconds) or (is_among_first and seconds <= self.overtime / 2)
            seconds_left = self.seconds_left if self._has_begun else math.inf
            if not (seconds_left > 0 and (is_unknown or seconds <= seconds_left)):
                if seconds_left > 0 and len(task.splits) > 1:  # single splits may end in time
                    queue[index : index + 1] = task.by_split
                else:
                    self.held_back = True
                    index += 1
                    if seconds_left <= 0:
                        return
                continue
            if is_unknown and len(task.splits) > 1:
                queue[index : index + 1] = task.by_split
                continue
            yield replace(queue.pop(index), until=until)
            n, self._has_begun = n + 1, True
