"""Searches and refits of one member, as plain functions: no test runner is imported here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pipelines.bagging.work import Refits, Trainings, run_member_task
from pipelines.data.fits import Progress
from pipelines.data.placement import FoldedData
from pipelines.nn.fit import Refitted, generator_of
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.space import NetworkSpec, SearchSpace
from pipelines.search.shared.networks import NetworkCandidate
from pipelines.search.tasks import Row, make_tasks, task_rows


def plan_of(spec: NetworkSpec, inputs: Inputs, training: TrainingSettings) -> Trainings:
    """One bootstrap in three folds, and its only spec."""
    space = SearchSpace(spec.network, {})
    return Trainings(inputs, training, 3, 0, [[NetworkCandidate(spec, 11)]], [3], [[0]], space)


def rows_of_folds(
    data: FoldedData, spec: NetworkSpec, inputs: Inputs, training: TrainingSettings
) -> list[Row]:
    problem = plan_of(spec, inputs, training).problem(data)
    (task,) = make_tasks(problem, "member=0")
    return task_rows(problem, task)


def refitted(
    data: FoldedData, spec: NetworkSpec, inputs: Inputs, training: TrainingSettings
) -> tuple[Row, Refitted | None]:
    plan = plan_of(spec, inputs, training)
    problem = plan.problem(data)
    task = Refits(("member=0",), (3,), candidates=problem.parts["member=0"].candidates)
    (result,) = without_progress(run_member_task(problem, task, shared_fit=plan.shared_fit))
    return result


def without_progress(items: Iterable[Any]) -> list[Any]:
    return [item for item in items if not isinstance(item, Progress)]


def generators_of(seed: int, count: int) -> list[np.random.Generator]:
    return [generator_of(seed, number) for number in range(count)]
