"""The time that a search may take: which tasks are begun, and what is kept for what follows them.

No task is begun that would not end in time, by what it is predicted to take. What a kind of task
takes is not known before its first has ended: that one gives up at the end of the time.
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

# What may come after the time, a share of it or so many seconds: a refit that takes longer than
# predicted, the baseline and the page.
OVERTIME, SECONDS_OF_OVERTIME = 0.05, 20.0
# The best is fitted on all rows, alone: of an SVM without the work that its group shared, and on
# more rows. So many times what a split took.
REFIT = 1.5
FIRST_TASKS = 2  # of a kind of work, before it is known what they take
SHORT = 1.0  # seconds; of shorter tasks a worker has the next while it does one


@dataclass(eq=False)
class Budget:
    """The end of a search, and what its tasks take.

    Attributes
    ----------
    seconds : that the run may take, its answer included
    began : of the run, as ``time.monotonic`` has it
    pace : predicts the seconds of tasks
    refit : how many times a split of its search a refit takes
    n_refits : that follow the search, one after another
    held_back : whether a task was not begun as it would not end in time
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
        """Seconds after the budget within which the run has to be over."""
        return max(OVERTIME * self.seconds, SECONDS_OF_OVERTIME)

    @property
    def seconds_left(self) -> float:
        """Seconds until the last task of the search has to end."""
        # That of the slower quarter of splits, without the first: that one warms up.
        ordered = sorted(self._split_seconds[1:])
        slow = ordered[3 * (len(ordered) - 1) // 4] if ordered else 0.0
        reserve = self.n_refits * self.refit * slow
        return self.began + self.seconds - reserve - time.monotonic()

    def tell(self, task: Task, seconds: float, rows: Iterable[Row]) -> None:
        """Take in what a task took, or a part of it."""
        rows = list(rows)
        n_cells = len(task.members) * len(task.splits)
        if not rows or not n_cells:
            return
        self._n_told[self.pace.kind(task)] += 1
        self.pace.tell(replace(task, cost=task.cost * len(rows) / n_cells), seconds)
        n_splits = len({row["split"] for row in rows})
        if task.share == 1:
            self._split_seconds.append(seconds / n_splits)

    def chosen(self, queue: list[Task], n: int, n_workers: int) -> Iterator[Task]:
        """Yield tasks that end in time and take them off the queue, in its order.

        The first is begun even if the start of the run took all the time: there is an answer then.

        Parameters
        ----------
        n : how many are not done, of those that were begun
        n_workers : int
        """
        # The end stands as it is reached by the search; what is cut off then has whole splits.
        until = time.time() + max(0.0, self.seconds_left) + self.overtime / 2
        index = 0
        while index < len(queue):
            task = queue[index]
            seconds = self.pace.seconds(task)
            is_short = seconds < SHORT
            if n >= (2 * n_workers if is_short else n_workers):
                return
            # The first of a kind warms up: what that took says little of the others. Where it took
            # long, that was no warming up.
            is_among_first = self._n_told[self.pace.kind(task)] < FIRST_TASKS
            is_unknown = math.isnan(seconds) or (is_among_first and seconds <= self.overtime / 2)
            seconds_left = self.seconds_left if self._has_begun else math.inf
            if not (seconds_left > 0 and (is_unknown or seconds <= seconds_left)):
                if seconds_left > 0 and len(task.splits) > 1:  # some of its splits may end in time
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
