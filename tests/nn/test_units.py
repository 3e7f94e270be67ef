"""Units: what they train, what their rows say, and what becomes of those that cannot run."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from pipelines.data.placement import FoldedData
from pipelines.nn.plan import draw_member, redraw_sample
from pipelines.nn.settings import Training
from pipelines.nn.size import training_bytes
from pipelines.nn.space import Candidate, SearchSpace
from pipelines.nn.units import (
    DATA_SHARE,
    GIB,
    CandidateUnit,
    cross_validate_unit,
    cut_units,
    failed_rows,
    memory_of,
    refit,
    refit_unit,
)

from .conftest import DIGITS, WINE

SPACE = SearchSpace.load("small")
TRAINING = Training(max_epochs=6)
CANDIDATE = Candidate("conv", 32, 0.05, 0.5, n_conv_layer=4, kernel_size=3)
UNIT = CandidateUnit(1, 2, CANDIDATE, seed=11, n_folds=3, run_seed=0)
COLUMNS = [
    "member", "candidate", "fold", "network", "n_hidden_layer", "learning_rate", "momentum",
    "n_conv_layer", "kernel_size", "n_train", "n_validation", "n_errors", "error", "score",
    "loss", "n_epochs", "fit_seconds", "score_seconds", "status",
]  # fmt: skip


def without_seconds(row: dict) -> dict:
    return {name: value for name, value in row.items() if not name.endswith("_seconds")}


def test_a_run_is_laid_out_from_one_seed(digits: FoldedData) -> None:
    plan = {"n_folds": 3, "seed": 4, "training": TRAINING}
    units, seeds = cut_units(digits.y, DIGITS, SPACE, n_bootstrap=3, n_candidates=2, **plan)
    assert len(units) == 6
    assert len({unit.name for unit in units}) == 6
    assert len({unit.seed for unit in units} | set(seeds)) == 9
    assert all(unit.cost > 0 for unit in units)
    # More of either leaves what was there as it was.
    more, more_seeds = cut_units(digits.y, DIGITS, SPACE, n_bootstrap=4, n_candidates=5, **plan)
    assert set(units) <= set(more)
    assert more_seeds[:3] == seeds


def test_a_bootstraps_generator_is_that_of_the_study(digits: FoldedData) -> None:
    from pipelines.data.bootstrap import draw_bootstrap

    spawned = np.random.SeedSequence(9).spawn(3)[2]
    expected = draw_bootstrap(digits.y, 4, np.random.default_rng(spawned))
    draws = draw_member(digits.y, 4, SPACE, 1, seed=9, member=2)
    for sample in (draws.sample, redraw_sample(digits.y, 4, seed=9, member=2)):
        np.testing.assert_array_equal(sample.everything(), expected.everything())


def test_rows_of_a_unit(digits: FoldedData) -> None:
    rows = cross_validate_unit(digits, UNIT, DIGITS, TRAINING)
    assert [list(row) for row in rows] == [COLUMNS] * 3
    assert [row["fold"] for row in rows] == [0, 1, 2]
    assert sum(row["n_validation"] for row in rows) == len(digits.y)
    for row in rows:
        assert row["n_train"] == len(digits.y) - row["n_validation"]
        assert row["error"] == row["n_errors"] / row["n_validation"] < 0.35
        assert row["score"] == 1 - row["error"]
        assert 0 < row["loss"] < 1.5
        assert 2 <= row["n_epochs"] <= 6
        assert row["status"] == "ok"
    again = cross_validate_unit(digits, UNIT, DIGITS, TRAINING)
    assert list(map(without_seconds, again)) == list(map(without_seconds, rows))


def test_little_memory_means_turns_with_the_same_result(digits: FoldedData) -> None:
    whole = cross_validate_unit(digits, UNIT, DIGITS, TRAINING)
    for at_once in (1, 2):
        needed = training_bytes(CANDIDATE, DIGITS, at_once, 10, len(digits.y))
        little = replace(TRAINING, memory_bytes=needed)
        for row, other in zip(
            whole, cross_validate_unit(digits, UNIT, DIGITS, little), strict=True
        ):
            assert row["n_epochs"] == other["n_epochs"]
            assert row["loss"] == pytest.approx(other["loss"], rel=1e-4)
            assert abs(row["n_errors"] - other["n_errors"]) <= 1


def test_a_gpu_is_planned_with_by_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by what it has: here others hold three quarters of it."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (20 * GIB, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 5 * GIB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 3 * GIB)
    on_gpu = Training(device="gpu")
    assert memory_of(on_gpu) == int(DATA_SHARE * 22 * GIB)
    assert memory_of(replace(on_gpu, memory_bytes=GIB)) == GIB
    assert memory_of(Training()) is None


def test_a_candidate_that_does_not_fit_is_rows_that_say_so(digits: FoldedData) -> None:
    needed = training_bytes(CANDIDATE, DIGITS, 1, 10, len(digits.y))
    training = replace(TRAINING, memory_bytes=needed - 1)
    rows = cross_validate_unit(digits, UNIT, DIGITS, training)
    assert [row["status"] for row in rows] == ["failed: needs 0.3 GiB, the device has 0.3 GiB"] * 3
    assert all(row["error"] is None and row["n_epochs"] is None for row in rows)
    refitted = refit(digits, refit_unit(UNIT, 3, DIGITS, len(digits.y), training), DIGITS, training)
    assert refitted.member is None
    assert refitted.row["status"].startswith("failed: needs")


def test_a_candidate_that_diverges_is_rows_that_say_so(digits: FoldedData) -> None:
    unit = replace(UNIT, candidate=replace(CANDIDATE, learning_rate=1e3, momentum=0.99))
    rows = cross_validate_unit(digits, unit, DIGITS, TRAINING)
    assert [row["status"] for row in rows] == ["diverged"] * 3
    assert all(row["error"] is None and row["loss"] is None for row in rows)
    refitted = refit(digits, refit_unit(unit, 3, DIGITS, len(digits.y), TRAINING), DIGITS, TRAINING)
    assert refitted.member is None
    assert refitted.test_proba is None
    assert refitted.row["status"] == "diverged"


def test_rows_of_a_task_that_failed(digits: FoldedData) -> None:
    rows = failed_rows(digits, UNIT, "out of memory")
    assert [list(row) for row in rows] == [COLUMNS] * 3
    assert {row["status"] for row in rows} == {"failed: out of memory"}


def test_a_refit_is_on_the_whole_sample(digits: FoldedData) -> None:
    unit = refit_unit(UNIT, 77, DIGITS, len(digits.y), TRAINING)
    done = refit(digits, unit, DIGITS, TRAINING)
    assert done.row["n_train"] == len(digits.y)
    assert done.row["n_validation"] / len(digits.y) == pytest.approx(math.exp(-1), abs=0.06)
    assert done.row["fold"] == -1
    assert done.train_error is not None
    assert done.train_error < done.row["error"] < 0.3
    assert done.member is not None
    assert done.test_proba is not None
    np.testing.assert_array_equal(done.test_proba, done.member.predict_proba(digits.X_test))
    assert (done.test_proba.argmax(axis=1) != digits.y_test).mean() < 0.3
    again = refit(digits, unit, DIGITS, TRAINING)
    for name, one in done.member.weights.items():
        np.testing.assert_array_equal(one, again.member.weights[name])


def test_a_table(wine: FoldedData) -> None:
    candidate = SearchSpace.load("mlp").draw(np.random.default_rng(0))
    unit = replace(UNIT, candidate=replace(candidate, learning_rate=0.1))
    rows = cross_validate_unit(wine, unit, WINE, TRAINING)
    assert [row["status"] for row in rows] == ["ok"] * 3
    assert np.mean([row["error"] for row in rows]) < 0.12
    done = refit(wine, refit_unit(unit, 1, WINE, len(wine.y), TRAINING), WINE, TRAINING)
    sample = redraw_sample(wine.y, 3, 0, 1).everything()
    assert done.member is not None
    np.testing.assert_allclose(done.member.scaling.center, wine.X[sample].mean(axis=0))
    assert done.test_proba is not None
    assert (done.test_proba.argmax(axis=1) != wine.y_test).mean() < 0.1
