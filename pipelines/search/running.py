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


def run_tasks(
    runner: Runner, problem: Problem, tasks: Sequence[Task], n_threads: int = 1
) -> Iterator[tuple[Outcome[Task] | ProgressEvent, list[Row]]]:
    """Run tasks; give each outcome, or news of a task at work, with its rows, each row once.

    Rows that are told before their task is done are a part of it: their splits, as if these were
    a task of their own. A task that is begun anew, as its worker died, tells of the same rows
    again. One that failed gives rows whose status says why.
    """
    by_name = {task.name: task for task in tasks}
    given: set[Place] = set()
    until: dict[str, float] = {}  # when the rows of a task were last told
    for event in runner.outcomes_and_events(partial(run_task, n_threads=n_threads), problem, tasks):
        if isinstance(event, ProgressEvent):
            task, rows = by_name[event.task], event.rows
        else:
            task, failed = event.task, event.error is not None
            rows = failed_rows(problem, task, event.error or "") if failed else event.result
        left = task.without(given)
        new = with_worker((row for row in rows if place_of(row) not in given), event.worker)
        given.update(map(place_of, new))
        if isinstance(event, ProgressEvent):
            if new:
                until[task.name] = event.started + event.seconds
                part = task.part(dict.fromkeys(row["split"] for row in new))
                event = replace(event, part=part.name, cost=part.cost)
            yield event, new
            continue
        if len(new) < len(rows):
            began = max(event.started, until.get(task.name, 0.0))
            event = replace(
                event, part=left.name if left else "", cost=left.cost if left else 0.0,
                started=began, seconds=max(0.0, event.started + event.seconds - began),
                compile_seconds=0.0,  # it compiled before its first rows were ready
            )  # fmt: skip
        yield event, without_compilation(new, event.seconds, event.compile_seconds)
