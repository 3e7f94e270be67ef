"""Refits: what they train, and what becomes of candidates that cannot run."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from pipelines.bagging.work import Trainings, run_task
from pipelines.data.placement import FoldedData
from pipelines.nn.fit import cross_validate_candidate, refit
from pipelines.nn.settings import Training
from pipelines.nn.size import training_bytes
from pipelines.nn.space import SearchSpace
from pipelines.nn.tasks import redraw_sample

from .conftest import CANDIDATE, DIGITS, TRAINING, UNIT, WINE


def test_a_candidate_that_does_not_fit_is_rows_that_say_so(digits: FoldedData) -> None:
    needed = training_bytes(CANDIDATE, DIGITS, 1, 10, len(digits.y))
    training = replace(TRAINING, memory_bytes=needed - 1)
    rows = cross_validate_candidate(digits, UNIT, DIGITS, training)
    assert [row["status"] for row in rows] == ["failed: needs 0.3 GiB, the device has 0.3 GiB"] * 3
    assert all(row["error"] is None and row["n_epochs"] is None for row in rows)
    refitted = refit(digits, [replace(UNIT, seed=3)], DIGITS, training)[0]
    assert refitted.member is None
    assert refitted.row["status"].startswith("failed: needs")


def test_a_candidate_that_diverges_is_rows_that_say_so(digits: FoldedData) -> None:
    task = replace(UNIT, candidate=replace(CANDIDATE, learning_rate=1e3, momentum=0.99))
    rows = cross_validate_candidate(digits, task, DIGITS, TRAINING)
    assert [row["status"] for row in rows] == ["diverged"] * 3
    assert all(row["error"] is None and row["loss"] is None for row in rows)
    refitted = refit(digits, [replace(task, seed=3)], DIGITS, TRAINING)[0]
    assert refitted.member is None
    assert refitted.test is None
    assert refitted.row["status"] == "diverged"


def test_a_refit_is_on_the_whole_sample(digits: FoldedData) -> None:
    task = replace(UNIT, seed=77)
    done = refit(digits, [task], DIGITS, TRAINING)[0]
    assert done.row["n_train"] == len(digits.y)
    assert done.row["n_validation"] / len(digits.y) == pytest.approx(math.exp(-1), abs=0.06)
    assert done.row["fold"] == -1
    assert done.row["training_error"] is not None
    assert done.row["training_error"] < done.row["error"] < 0.3
    assert done.member is not None
    assert done.test is not None
    np.testing.assert_array_equal(done.test.probabilities, done.member.predict_proba(digits.X_test))
    assert (done.test.probabilities.argmax(axis=1) != digits.y_test).mean() < 0.3
    again = refit(digits, [task], DIGITS, TRAINING)[0]
    for name, one in done.member.weights.items():
        np.testing.assert_array_equal(one, again.member.weights[name])


def test_members_together_are_those_trained_alone(digits: FoldedData) -> None:
    """Each has its own rate, rows and first weights."""
    training = Training.of("cnn", len(digits.y), batch_size=32, max_epochs=3, device="gpu")
    plan = Trainings.draw(
        digits.y,
        DIGITS,
        SearchSpace.load("cnn"),
        training,
        n_bootstrap=9,
        n_tuning=1,
        n_folds=3,
        seed=0,
    )
    group = plan.in_groups().members[0]
    assert [1 + len(one.others) for one in plan.in_groups().members] == [5, 4]
    on_cpu = replace(training, device="cpu")
    alone = replace(plan, training=on_cpu).in_groups().members
    assert [one.others for one in alone] == [()] * 9
    together = run_task(digits, group, inputs=DIGITS, training=on_cpu)
    assert len({one.row["learning_rate"] for one in together}) == 5
    for one, task in list(zip(together, alone, strict=False))[1::3]:
        (own,) = run_task(digits, task, inputs=DIGITS, training=on_cpu)
        assert one.member is not None
        assert one.member.candidate == own.member.candidate
        assert json.loads(one.row["losses"]) == pytest.approx(
            json.loads(own.row["losses"]), rel=2e-3
        )
        np.testing.assert_allclose(one.test.probabilities, own.test.probabilities, atol=0.02)


def test_a_table(wine: FoldedData) -> None:
    candidate = SearchSpace.load("mlp").draw(np.random.default_rng(0))
    task = replace(UNIT, candidate=replace(candidate, learning_rate=0.1))
    rows = cross_validate_candidate(wine, task, WINE, TRAINING)
    assert [row["status"] for row in rows] == ["ok"] * 3
    assert np.mean([row["error"] for row in rows]) < 0.12
    done = refit(wine, [replace(task, seed=1)], WINE, TRAINING)[0]
    sample = redraw_sample(wine.y, 3, 0, 1).everything()
    assert done.member is not None
    np.testing.assert_allclose(done.member.scaling.center, wine.X[sample].mean(axis=0))
    assert done.test is not None
    assert (done.test.probabilities.argmax(axis=1) != wine.y_test).mean() < 0.1
