"""Train an ensemble from a plan: shared by the command and the estimator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from pipelines.bagging.work import BaggingTask, GroupTask, MemberTask, OfOneMember, Plan, run_task
from pipelines.data.placement import FoldedData
from pipelines.data.preparation import Preparation
from pipelines.nn.fit import Refitted, failed_rows, rows_of_all_tasks
from pipelines.nn.tasks import CandidateTask, Row
from pipelines.run.events import ProgressEvent
from pipelines.run.tasks import Outcome, Runner
from pipelines.search.ranking import with_worker

Rows = Mapping[str, list[Row]]


def tasks_left(plan: Plan, done: Rows, refitted: Mapping[int, int]) -> list[BaggingTask]:
    """Return the tasks of a plan that are still to be run.

    Parameters
    ----------
    done : rows of candidates, by the names of their tasks
    refitted : number of the candidate that was refitted, by member

    Returns
    -------
    list of tasks; a member that was refitted is among them if a candidate of it is, as that
    may turn out to be better
    """
    if plan.groups:
        return list(plan.groups)
    candidates = [task for task in plan.candidates if task.name not in done]
    open_members = {task.member for task in candidates}
    members = [
        replace(task, refitted=refitted.get(task.member, -1))
        for task in plan.members
        if task.member in open_members or task.member not in refitted
    ]
    return [*candidates, *members]


def bag(
    runner: Runner,
    data: FoldedData,
    plan: Plan,
    done: Rows,
    refitted: Mapping[int, int],
    on_event: Callable[[ProgressEvent], None] = lambda event: None,
) -> Iterator[tuple[Outcome[OfOneMember], list[Row], Refitted | None]]:
    """Search and refit every member; a refit begins when its own search is done.

    ``on_event`` is called with what tasks at work tell of themselves.

    Yields
    ------
    outcome : Outcome
    rows : list of dict
        Of a candidate, one for each fold; of a refit one whose fold is -1, or none where it
        failed or had nothing to do.
    made : Refitted or None
        Of a refit that gave a member.
    """
    tasks = tasks_left(plan, done, refitted)
    needed = {name for task in tasks if isinstance(task, MemberTask) for name in task.needs}
    known = {name: rows for name, rows in done.items() if name in needed}
    settings: dict[str, Any] = {"inputs": plan.inputs, "training": plan.training}
    work = partial(run_task, **settings)
    if not isinstance(data.scaling, Preparation):
        data = replace(data, placement=partial(rows_of_all_tasks, **settings))
    for outcome in runner.outcomes_and_events(work, data, tasks, known):
        if isinstance(outcome, ProgressEvent):
            on_event(outcome)
            continue
        task, each = outcome.task, [outcome]
        if isinstance(task, GroupTask):
            results = outcome.result or [None] * len(task.members)
            each = [
                replace(outcome, task=member, result=result)
                for member, result in zip(task.members, results, strict=True)
            ]
        for alone in cast("list[Outcome[OfOneMember]]", each):
            result = alone.result
            if isinstance(alone.task, CandidateTask):
                rows = failed_rows(data, alone.task, alone.error) if alone.error else result
                yield alone, with_worker(rows, alone.worker), None
            elif result is None:
                yield alone, [], None
            else:
                made = result if result.member is not None else None
                yield alone, with_worker([result.row], alone.worker), made
