"""The cost model: how long tasks take by what was predicted of them.

Every task has a predicted ``cost``, in a unit of time of its own: tasks are ordered by it, and the
share that is done, and the time that is left, are told by it. Tasks that were done say how many
seconds one of cost 1 takes, and how far from that they were. The longest tasks are cut into parts,
where workers would else idle at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipelines.run.outcomes import AnyTask, Task, needs_of
from pipelines.run.schedule import Queue, makespan

if TYPE_CHECKING:  # it reads tables, which a task and --help do not
    from pipelines.run_folder.reading import FinishedTask as Done

TASKS_PER_WORKER = 20  # from which the end is even without
LEAST_GAIN = 0.02  # of the time of all; a part repeats what the whole would have done but once
NEIGHBOURS = 10  # parts of the tasks done, of which one tells how far a new task is off


@dataclass(frozen=True)
class CostModel:
    """A linear model of task seconds, estimated from finished tasks.

    Attributes
    ----------
    costs, seconds : of shape (m,), of tasks that were done, ascending by cost
    """

    costs: NDArray[np.float64]
    seconds: NDArray[np.float64]

    @classmethod
    def of(cls, done: Iterable[Done]) -> CostModel | None:
        """Estimate the model from a journal; None if no finished task has a recorded cost."""
        pairs = sorted(
            (task.cost, max(0.0, task.seconds - task.compile_seconds))
            for task in done
            if task.cost and not task.n_failed
        )
        if not sum(seconds for _, seconds in pairs):
            return None
        costs, seconds = np.array(pairs).T
        return cls(costs, seconds)

    @property
    def rate(self) -> float:
        """Seconds of a unit of cost 1."""
        return float(self.seconds.sum() / self.costs.sum())

    def draw(
        self, costs: NDArray[np.float64], generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return seconds of tasks of other costs, of shape (n,).

        Each is off by as much as a task done whose cost is near, drawn by chance.
        """
        m, n = len(self.costs), len(costs)
        near = max(1, m // NEIGHBOURS)
        alike = [np.searchsorted(self.costs, costs, side) for side in ("left", "right")]
        place = np.sum(alike, axis=0) // 2 + generator.integers(-near, near + 1, n)
        ratios = self.seconds / self.costs
        return np.asarray(costs * ratios[np.clip(place, 0, m - 1)])


def task_queue(tasks: Sequence[Task], seconds: NDArray[np.float64], per_task: float = 0.0) -> Queue:
    """Return tasks in the order in which the program hands them out: the most costly first.

    Parameters
    ----------
    seconds : of shape (n,), how long each takes
    """
    order = sorted(range(len(tasks)), key=lambda i: -tasks[i].cost)
    place = {tasks[i].name: k for k, i in enumerate(order)}
    needs = {
        place[task.name]: [place[name] for name in needs_of(task) if name in place]
        for task in tasks
        if needs_of(task)
    }
    return Queue(seconds[order], {k: some for k, some in needs.items() if some}, per_task)


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
    least, n = _end(best, n_workers), 0
    while n < len(longest):
        n = min(2 * n or 1, len(longest))
        cut = [part for task in longest[:n] for part in parts_of(task)] + longest[n:]
        end = _end(cut, n_workers)
        if end < (1 - LEAST_GAIN) * least:
            best, least = cut, end
    return best


def _end(tasks: Sequence[AnyTask], n_workers: int) -> float:
    costs = np.array([task.cost for task in tasks])
    return makespan(task_queue(tasks, costs), n_workers)
