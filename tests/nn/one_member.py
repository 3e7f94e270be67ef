"""Searches and refits of one member, as plain functions: no test runner is imported here."""

from __future__ import annotations

from pipelines.bagging.work import Refits, Trainings, run_member_task
from pipelines.data.fits import Progress
from pipelines.nn.batched_fit import generator_of
from pipelines.nn.space import SearchSpace
from pipelines.search.shared.networks import NetworkCandidate
from pipelines.search.tasks import make_tasks, task_rows


def plan_of(spec, inputs, training):
    """One bootstrap in three folds, and its only spec."""
    space = SearchSpace(spec.network, {})
    return Trainings(inputs, training, 3, 0, [[NetworkCandidate(spec, 11)]], [3], [[0]], space)


def rows_of_folds(data, spec, inputs, training):
    problem = plan_of(spec, inputs, training).problem(data)
    (task,) = make_tasks(problem, "member=0")
    return task_rows(problem, task)


def refitted(data, spec, inputs, training):
    plan = plan_of(spec, inputs, training)
    problem = plan.problem(data)
    task = Refits(("member=0",), (3,), candidates=problem.parts["member=0"].candidates)
    (result,) = without_progress(run_member_task(problem, task, shared_fit=plan.shared_fit))
    return result


def without_progress(items):
    return [item for item in items if not isinstance(item, Progress)]


def generators_of(seed, count):
    return [generator_of(seed, number) for number in range(count)]
