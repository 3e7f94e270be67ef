"""Refits: what they train, and what becomes of specs that cannot run."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from pipelines.bagging.work import Trainings, run_member_task
from pipelines.data.bootstrap import BootstrapSplits
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.size import training_bytes
from pipelines.nn.space import SearchSpace

from .conftest import DIGITS, SPEC, TRAINING, WINE
from .one_member import refitted, rows_of_folds, without_progress


def test_a_candidate_that_does_not_fit_is_rows_that_say_so(digits):
    needed = training_bytes(SPEC, DIGITS, 1, 10, len(digits.y))
    training = replace(TRAINING, memory_bytes=needed - 1)
    rows = rows_of_folds(digits, SPEC, DIGITS, training)
    assert [row["status"] for row in rows] == ["failed: needs 0.3 GiB, the device has 0.3 GiB"] * 3
    assert all(row["error"] is None and row["n_iterations"] is None for row in rows)
    row, refit = refitted(digits, SPEC, DIGITS, training)
    assert refit is None
    assert row["status"].startswith("failed: needs")


def test_a_candidate_that_diverges_is_rows_that_say_so(digits):
    spec = replace(SPEC, learning_rate=1e5, momentum=0.99)
    rows = rows_of_folds(digits, spec, DIGITS, TRAINING)
    assert [row["status"] for row in rows] == ["diverged"] * 3
    assert all(row["error"] is None and row["loss"] is None for row in rows)
    assert all(row["fit_seconds"] > 0 and row["n_train"] > 0 for row in rows)
    row, refit = refitted(digits, spec, DIGITS, TRAINING)
    assert refit is not None
    assert refit.member is None
    assert refit.test is None
    assert row["status"] == "diverged"
    assert row["loss"] is row["score"] is None


def test_a_refit_is_on_the_whole_sample(digits):
    row, done = refitted(digits, SPEC, DIGITS, TRAINING)
    assert row["n_train"] == len(digits.y)
    assert row["n_validation"] / len(digits.y) == pytest.approx(math.exp(-1), abs=0.06)
    assert row["fold"] == -1
    assert row["training_error"] is not None
    assert row["training_error"] < row["error"] < 0.3
    assert done is not None
    np.testing.assert_array_equal(done.test.outputs, done.member.predict_proba(digits.X_test))
    assert (done.test.outputs.argmax(axis=1) != digits.y_test).mean() < 0.3
    _, again = refitted(digits, SPEC, DIGITS, TRAINING)
    assert again is not None
    for name, array in done.member.weights.items():
        np.testing.assert_array_equal(array, again.member.weights[name])


def test_members_together_are_those_trained_alone(digits):
    """Each has its own rate, rows and first weights."""
    training = TrainingSettings.of("cnn", len(digits.y), batch_size=32, max_epochs=3, device="gpu")
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
    grouped = plan.in_groups()
    assert list(map(len, grouped.groups)) == [5, 4]
    on_cpu = replace(plan, training=replace(training, device="cpu")).in_groups()
    assert list(map(len, on_cpu.groups)) == [1] * 9
    problem = on_cpu.problem(digits)
    group, alone = grouped.feed(problem)(0)[0], on_cpu.feed(problem)(0)
    together = without_progress(run_member_task(problem, group, shared_fit=on_cpu.shared_fit))
    assert len({row["learning_rate"] for row, _ in together}) == 5
    for (row, refit), task in list(zip(together, alone, strict=False))[1::3]:
        ((own_row, other_refit),) = without_progress(
            run_member_task(problem, task, shared_fit=on_cpu.shared_fit)
        )
        assert refit.member.spec == other_refit.member.spec
        assert json.loads(row["losses"]) == pytest.approx(json.loads(own_row["losses"]), rel=2e-3)
        np.testing.assert_allclose(refit.test.outputs, other_refit.test.outputs, atol=0.02)


def test_a_table(wine):
    spec = SearchSpace.load("mlp").draw(np.random.default_rng(0))
    spec = replace(spec, learning_rate=0.1)
    rows = rows_of_folds(wine, spec, WINE, TRAINING)
    assert [row["status"] for row in rows] == ["ok"] * 3
    assert np.mean([row["error"] for row in rows]) < 0.12
    _, done = refitted(wine, spec, WINE, TRAINING)
    sample = BootstrapSplits(wine, 3, 0, (0,)).sample.everything()
    assert done is not None
    np.testing.assert_allclose(done.member.scaling.center, wine.X[sample].mean(axis=0))
    assert (done.test.outputs.argmax(axis=1) != wine.y_test).mean() < 0.1
