"""Tasks -> futures -> rows: what the commands and the classes share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from pipelines.run.chunking import split_for_workers
from pipelines.run.events import ProgressEvent
from pipelines.run.outcomes import Outcome, without_compilation
from pipelines.run.tasks import Runner
from pipelines.search.ranking import with_worker
from pipelines.search.tasks import (
    Place,
    Problem,
    Row,
    Task,
    failed_rows,
    make_tasks,
    place_of,
    run_task,
)


def tasks_for_workers(
    problem: Problem, stages: Sequence[tuple[str, float]], n_workers: int
) -> list[Task]:
    """Return the tasks of some stages; the longest are cut into splits if workers would else
    idle at the end."""
    tasks = [task for stage in stages for task in make_tasks(problem, *stage, n_workers=n_workers)]
    if any(group.shared and group.shared.one_launch for group in problem.groups):
        return tasks  # what the splits of a launch share is not known
    return split_for_workers(tasks, n_workers, lambda task: task.by_split)


class PartialRows:
    """Gives every row of some tasks once, a split as if it were a task of its own.

    A task that is begun anew, as its worker died, tells of the same rows again.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = {task.name: task for task in tasks}
        self._given: set[Place] = set()
        self._until: dict[str, float] = {}  # when the rows of a task were last told

    def of(self, partial: ProgressEvent) -> Iterator[tuple[ProgressEvent, list[Row]]]:
        """Turn a progress event into rows; its time is shared equally among its splits."""
        task = self._tasks[partial.task]
        by_split: dict[int, list[Row]] = {}
        for row in self._new(partial.rows):
            by_split.setdefault(row["split"], []).append(row)
        if not by_split:
            yield replace(partial, rows=[]), []
            return
        self._until[task.name] = partial.started + partial.seconds
        seconds = partial.seconds / len(by_split)
        for turn, (split, rows) in enumerate(by_split.items()):
            part, started = task.part(split), partial.started + turn * seconds
            told = replace(
                partial, rows=rows, part=part.name, started=started, seconds=seconds, cost=part.cost
            )
            yield told, rows

    def rest(self, outcome: Outcome[Task], rows: list[Row]) -> tuple[Outcome[Task], list[Row]]:
        """Return a task that is done, and those of its rows that were not given before."""
        left = outcome.task.without(self._given)
        new = self._new(rows)
        if len(new) == len(rows):
            return outcome, rows
        began = max(outcome.started, self._until.get(outcome.task.name, 0.0))
        seconds = max(0.0, outcome.started + outcome.seconds - began)
        name = left.name if left else ""
        # It compiled before its first rows were ready.
        rest = replace(
            outcome, part=name, started=began, seconds=seconds, compile_seconds=0.0,
            cost=left.cost if left else 0.0,
        )  # fmt: skip
        return rest, new

    def _new(self, rows: Sequence[Row]) -> list[Row]:
        new = [row for row in rows if place_of(row) not in self._given]
        self._given |= {place_of(row) for row in new}
        return new


def run_tasks(
    runner: Runner, problem: Problem, tasks: Sequence[Task], n_threads: int = 1
) -> Iterator[tuple[Outcome[Task] | ProgressEvent, list[Row]]]:  # fmt: skip
    """Run tasks; give each outcome, or news of a task at work, with its rows, each row once.

    A task that failed gives rows whose status says why.
    """
    work = partial(run_task, n_threads=n_threads)
    partial_rows = PartialRows(tasks)
    for event in runner.outcomes_and_events(work, problem, tasks):
        if isinstance(event, ProgressEvent):
            for part, rows in partial_rows.of(event):
                yield part, with_worker(rows, part.worker)
        else:
            failed = event.error is not None
            rows = failed_rows(problem, event.task, event.error or "") if failed else event.result
            outcome, rest = partial_rows.rest(event, rows)
            rest = without_compilation(rest, outcome.seconds, outcome.compile_seconds)
            yield outcome, with_worker(rest, outcome.worker)
