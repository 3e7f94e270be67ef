"""Forecast what a run will take from a smaller run, for dry runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipelines.errors import InputError, opt
from pipelines.run.chunking import CostModel, task_queue
from pipelines.run.outcomes import Task
from pipelines.run.progress import clock
from pipelines.run.schedule import makespan
from pipelines.run_folder.folder import RunFolder
from pipelines.run_folder.reading import tasks_of
from pipelines.run_folder.work_time import shown_seconds

EFFICIENCY = 0.9
DRAWS = 25
GROWTH = 1.1  # from one number of workers to the next that is tried first
# What a job's walltime has beyond the worst draw: its start, compilation, a slower node.
MARGIN, MINUTES = 1.25, 5

TasksFor = Callable[[int], Sequence[Task]]  # the tasks of a run on so many workers


@dataclass(frozen=True)
class PilotRun:
    """A small finished run from which a larger one is forecast.

    Attributes
    ----------
    cost_model : Pace
    around_seconds : of its wall time, before the first task and after the last
    """

    cost_model: CostModel
    around_seconds: float

    @classmethod
    def read(cls, path: Path, command: str, option: str = "pilot") -> PilotRun:
        """Read a pilot run from its run folder.

        Raises
        ------
        InputError
            It is not the folder of a run of that command, or none of its tasks is done.
        """
        folder = RunFolder.open(path, command, f"--{option}")
        with folder.journal(write=False) as journal:
            done = tasks_of(journal.records)
        cost_model = CostModel.of(done)
        if cost_model is None:
            raise InputError(
                f"{opt(option)} needs a run with finished tasks and their costs, got "
                f"{path}; make a new small run"
            )
        wall = folder.record.get("wall_seconds") or 0.0
        return cls(cost_model, max(0.0, wall - shown_seconds(done)))


@dataclass(frozen=True)
class RunEstimate:
    """A run on so many workers.

    Attributes
    ----------
    n_workers, n_tasks : int
    work_seconds : of all tasks together
    seconds, worst : from the first task to the end of the last: mean, and worst of the draws
    around_seconds : before and after
    """

    n_workers: int
    n_tasks: int
    work_seconds: float
    seconds: float
    worst: float
    around_seconds: float

    @property
    def efficiency(self) -> float:
        """The share of the workers' time that they are at work."""
        return self.work_seconds / (self.n_workers * self.seconds)

    @property
    def walltime(self) -> str:
        """The walltime to request from a queue, as H:MM:SS."""
        minutes = (MARGIN * self.worst + self.around_seconds) / 60
        hours, minutes = divmod(MINUTES * math.ceil(1 + minutes / MINUTES), 60)
        return f"{hours}:{minutes:02d}:00"


def estimate_run(pilot: PilotRun, tasks_for: TasksFor, n_workers: int) -> RunEstimate:
    """Estimate the duration of a run on ``n_workers`` equal workers."""
    tasks = tasks_for(n_workers)
    costs = np.array([task.cost for task in tasks])
    ends, work = [], []
    for draw in range(DRAWS):
        seconds = pilot.cost_model.draw(costs, np.random.default_rng(draw))
        ends.append(makespan(task_queue(tasks, seconds), n_workers))
        work.append(seconds.sum())
    return RunEstimate(
        n_workers, len(tasks), float(np.mean(work)), float(np.mean(ends)), max(ends),
        pilot.around_seconds,
    )  # fmt: skip


def most_workers(
    pilot: PilotRun, tasks_for: TasksFor, efficiency: float = EFFICIENCY, most: int | None = None
) -> RunEstimate:
    """Return the most workers that are kept at work for that share of the time.

    Parameters
    ----------
    most : not more than these; None: than there are tasks
    """
    limit = int(min(most or math.inf, len(tasks_for(1))))
    best = tried = estimate_run(pilot, tasks_for, 1)
    above = limit + 1
    while tried.n_workers < limit and tried.efficiency > efficiency / 2:
        n_workers = min(limit, math.ceil(GROWTH * tried.n_workers))
        tried = estimate_run(pilot, tasks_for, n_workers)
        if tried.efficiency >= efficiency:
            best, above = tried, limit + 1
        else:
            above = min(above, n_workers)
    for n_workers in range(above - 1, best.n_workers, -1):
        tried = estimate_run(pilot, tasks_for, n_workers)
        if tried.efficiency >= efficiency:
            return tried
    return best


def lines(best: RunEstimate, efficiency: float) -> Iterator[str]:
    """Return the lines that a dry run prints of its estimate."""
    many = "1 worker" if best.n_workers == 1 else f"{best.n_workers:,} workers"
    yield (
        f"plan       {best.n_tasks:,} tasks, {clock(best.work_seconds)} of work: {many} would be "
        f"busy {best.efficiency:.0%} of the time (target {efficiency:.0%})"
    )
    yield (
        f"           {clock(best.seconds + best.around_seconds)} in total, at worst "
        f"{clock(best.worst + best.around_seconds)} ({DRAWS} simulations); request a walltime of "
        f"{best.walltime}"
    )
