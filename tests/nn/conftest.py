"""Small data for networks, and a candidate: the digits, and a table with scales of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine

from pipelines.bagging.work import Refits, Trainings, run_task
from pipelines.data import load_dataset
from pipelines.data.fits import Progress
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.nn.fit import Refitted, generator_of
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import Training
from pipelines.nn.space import Candidate
from pipelines.search.shared.networks import Network
from pipelines.search.tasks import Row, make_tasks, rows_of

DIGITS = Inputs(64, 10, (8, 8))
WINE = Inputs(13, 3)
TRAINING = Training(max_epochs=6)
CANDIDATE = Candidate("conv", 32, 0.05, 0.5, n_conv_layer=4, kernel_size=3)


def plan_of(candidate: Candidate, inputs: Inputs, training: Training) -> Trainings:
    """One bootstrap in three folds, and its only candidate."""
    return Trainings(inputs, training, 3, 0, [[Network(candidate, 11)]], [3], [[0]])


def rows_of_folds(
    data: FoldedData, candidate: Candidate, inputs: Inputs, training: Training
) -> list[Row]:
    problem = plan_of(candidate, inputs, training).problem(data)
    (task,) = make_tasks(problem, "member=0")
    return rows_of(problem, task)


def refitted(
    data: FoldedData, candidate: Candidate, inputs: Inputs, training: Training
) -> tuple[Row, Refitted | None]:
    plan = plan_of(candidate, inputs, training)
    problem, task = plan.problem(data), Refits(("member=0",), (3,))
    (found,) = without_progress(run_task(problem, task, kind=plan.kind))
    return found


def without_progress(items: Iterable[Any]) -> list[Any]:
    return [item for item in items if not isinstance(item, Progress)]


def generators_of(seed: int, count: int) -> list[np.random.Generator]:
    return [generator_of(seed, number) for number in range(count)]


@pytest.fixture(scope="session")
def digits() -> FoldedData:
    one = load_dataset("digits", limit=303)
    return FoldedData(one.X_train, one.y_train, one.X_test, one.y_test, (), one.scaling)


@pytest.fixture(scope="session")
def wine() -> FoldedData:
    X, y = load_wine(return_X_y=True)
    y = y.astype(np.int32)
    return FoldedData(X[::2], y[::2], X[1::2], y[1::2], (), Scaling("standardise"))
