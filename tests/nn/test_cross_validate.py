"""The folds of a spec: what is trained, and what its rows say."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pipelines.nn.batched_fit import DATA_SHARE, GIB, NoRoomError, room_for
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.size import training_bytes

from .conftest import DIGITS, SPEC, TRAINING
from .one_member import rows_of_folds


def without_seconds(row):
    return {name: value for name, value in row.items() if not name.endswith("_seconds")}


def test_rows_of_a_task(digits):
    rows = rows_of_folds(digits, SPEC, DIGITS, TRAINING)
    assert [row["fold"] for row in rows] == [0, 1, 2]
    assert sum(row["n_validation"] for row in rows) == len(digits.y)
    for row in rows:
        assert row["n_train"] == len(digits.y) - row["n_validation"]
        assert row["error"] == row["n_errors"] / row["n_validation"] < 0.35
        assert row["score"] == -row["loss"]
        assert 0 < row["loss"] < 1.5
        assert 2 <= row["n_iterations"] <= 6
        assert row["status"] == "ok"
    again = rows_of_folds(digits, SPEC, DIGITS, TRAINING)
    assert list(map(without_seconds, again)) == list(map(without_seconds, rows))


def test_little_memory_means_turns_with_the_same_result(digits):
    whole = rows_of_folds(digits, SPEC, DIGITS, TRAINING)
    for at_once in (1, 2):
        needed = training_bytes(SPEC, DIGITS, at_once, 10, len(digits.y))
        little = replace(TRAINING, memory_bytes=needed)
        for row, other in zip(whole, rows_of_folds(digits, SPEC, DIGITS, little), strict=True):
            assert row["n_iterations"] == other["n_iterations"]
            assert row["loss"] == pytest.approx(other["loss"], rel=1e-4)
            assert abs(row["n_errors"] - other["n_errors"]) <= 1


def test_a_gpu_is_planned_with_by_what_is_free(digits, monkeypatch):
    """Not by what it has: others hold most of it, and torch some that it does not use."""
    two = int(training_bytes(SPEC, DIGITS, 2, 10, len(digits.y)) / DATA_SHARE) + 1
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (two - 2 * GIB, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 5 * GIB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 3 * GIB)
    assert room_for(digits, SPEC, DIGITS, TrainingSettings(device="gpu"), 5) == 2
    with pytest.raises(NoRoomError, match=r"^needs 0.3 GiB, the device has 0.0 GiB$"):
        room_for(digits, SPEC, DIGITS, TrainingSettings(device="gpu", memory_bytes=9), 5)
    assert room_for(digits, SPEC, DIGITS, TrainingSettings(), 5) == 5
    monkeypatch.setattr("pipelines.nn.batched_fit.unused_in_pool", lambda: 2 * GIB)
    monkeypatch.setattr(torch.cuda, "memory_reserved", None)  # torch cannot say it of that pool
    assert room_for(digits, SPEC, DIGITS, TrainingSettings(device="gpu"), 5) == 2
