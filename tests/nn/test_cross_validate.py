"""The folds of a candidate: what is trained, and what its rows say."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pipelines.data.placement import FoldedData
from pipelines.nn.fit import DATA_SHARE, GIB, cross_validate_candidate, failed_rows, room_for
from pipelines.nn.settings import Training
from pipelines.nn.size import training_bytes

from .conftest import CANDIDATE, DIGITS, TRAINING, UNIT

COLUMNS = [
    "member",
    "candidate",
    "fold",
    "network",
    "n_hidden_layer",
    "learning_rate",
    "momentum",
    "n_conv_layer",
    "kernel_size",
    "n_train",
    "n_validation",
    "n_errors",
    "error",
    "score",
    "loss",
    "n_epochs",
    "fit_seconds",
    "score_seconds",
    "status",
]


def without_seconds(row: dict) -> dict:
    return {name: value for name, value in row.items() if not name.endswith("_seconds")}


def test_rows_of_a_task(digits: FoldedData) -> None:
    rows = cross_validate_candidate(digits, UNIT, DIGITS, TRAINING)
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
    again = cross_validate_candidate(digits, UNIT, DIGITS, TRAINING)
    assert list(map(without_seconds, again)) == list(map(without_seconds, rows))


def test_little_memory_means_turns_with_the_same_result(digits: FoldedData) -> None:
    whole = cross_validate_candidate(digits, UNIT, DIGITS, TRAINING)
    for at_once in (1, 2):
        needed = training_bytes(CANDIDATE, DIGITS, at_once, 10, len(digits.y))
        little = replace(TRAINING, memory_bytes=needed)
        for row, other in zip(
            whole, cross_validate_candidate(digits, UNIT, DIGITS, little), strict=True
        ):
            assert row["n_epochs"] == other["n_epochs"]
            assert row["loss"] == pytest.approx(other["loss"], rel=1e-4)
            assert abs(row["n_errors"] - other["n_errors"]) <= 1


def test_rows_of_a_task_that_failed(digits: FoldedData) -> None:
    rows = failed_rows(digits, UNIT, "out of memory")
    assert [list(row) for row in rows] == [COLUMNS] * 3
    assert {row["status"] for row in rows} == {"failed: out of memory"}


def test_a_gpu_is_planned_with_by_what_is_free(
    digits: FoldedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by what it has: others hold most of it, and torch some that it does not use."""
    two = int(training_bytes(CANDIDATE, DIGITS, 2, 10, len(digits.y)) / DATA_SHARE) + 1
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (two - 2 * GIB, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 5 * GIB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 3 * GIB)
    assert room_for(digits, UNIT, DIGITS, Training(device="gpu"), 5)[0] == 2
    assert room_for(digits, UNIT, DIGITS, Training(device="gpu", memory_bytes=9), 5)[0] == 0
    assert room_for(digits, UNIT, DIGITS, Training(), 5)[0] == 5
    monkeypatch.setattr("pipelines.nn.fit.unused_in_pool", lambda: 2 * GIB)
    monkeypatch.setattr(torch.cuda, "memory_reserved", None)  # torch cannot say it of that pool
    assert room_for(digits, UNIT, DIGITS, Training(device="gpu"), 5)[0] == 2
