"""Ranks that share every gradient do what one process does on the union batch."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

pytest.importorskip("torch", reason="networks are torch's")

import torch

from pipelines.parallel.checkpoint import from_bytes
from pipelines.parallel.elastic import train_rank
from pipelines.parallel.options import TrainingOptions, strategy_of
from pipelines.parallel.rank import TrainingPlan
from pipelines.parallel.training_problem import (
    CLASSES,
    NetworkDescription,
    TrainingProblem,
    approximator,
)
from tests.parallel.process_group.ranks import on_ranks

# 270 training rows, union batches of 48: the last has 30.
PROBLEM = approximator(300, 0.1, 0)
SETTINGS = TrainingOptions(epochs=3, batch_size=48, learning_rate=0.01, optimizer="sgd")


def trained(n_ranks, sync, tmp_path, settings=SETTINGS, start=None, problem=PROBLEM):
    """The last checkpoint of rank 0, after all ranks gave the same."""
    order = TrainingPlan(
        dataclasses.replace(settings, sync=sync), 1, start, str(tmp_path / "checkpoint")
    )
    results = on_ranks(n_ranks, lambda group: train_rank(problem, order, group, lambda event: None))
    for result in results:
        if isinstance(result, Exception):
            raise result
    states = [from_bytes(result)[0] for result in results]
    for state in states[1:]:
        assert torch.equal(state["weights"], states[0]["weights"])
    return from_bytes(results[0])


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("n_ranks", [2, 3, 4])
def test_every_step_equals_one_process_on_the_union_batch(n_ranks, optimizer, tmp_path):
    settings = dataclasses.replace(SETTINGS, optimizer=optimizer)
    rank_settings = dataclasses.replace(settings, batch_size=48 // n_ranks)
    expected, alone = trained(1, "every-step", tmp_path, settings)
    state, together = trained(n_ranks, "every-step", tmp_path, rank_settings)
    assert together.step == alone.step == 18
    for name, value in expected.items():
        assert torch.allclose(state[name], value, rtol=1e-4, atol=2e-6), name
    for row, other in zip(together.epochs, alone.epochs, strict=True):
        for name in ("loss", "validation_loss", "validation_metric"):
            assert row[name] == pytest.approx(other[name], rel=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_step_is_a_plain_loop_of_torch(precision, tmp_path):
    settings = dataclasses.replace(SETTINGS, precision=precision)
    state, _ = trained(1, "every-step", tmp_path, settings)
    network = PROBLEM.network.make(1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    X, y = (torch.from_numpy(PROBLEM.train[name]) for name in "Xy")
    for epoch in range(3):
        order = np.random.default_rng(np.random.SeedSequence([1, epoch])).permutation(270)
        for first in range(0, 270, 48):
            rows = torch.from_numpy(order[first : first + 48])
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                outputs = network(X[rows])
            torch.nn.functional.mse_loss(outputs.float().squeeze(1), y[rows]).backward()
            optimizer.step()
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in network.parameters()])
    assert torch.allclose(state["weights"], flat, rtol=1e-4, atol=1e-6)
    if precision == "bf16":
        single, _ = trained(1, "every-step", tmp_path)
        assert not torch.allclose(state["weights"], single["weights"], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shape", [(8, 8), (3, 8, 8)])
def test_channels_last_changes_the_layout_alone(shape, tmp_path, monkeypatch):
    rng, last = np.random.default_rng(0), list[bool]()
    parts = [
        {"X": rng.random((n, math.prod(shape)), np.float32), "y": rng.integers(0, 3, n)}
        for n in (40, 10, 10)
    ]
    problem = TrainingProblem(
        "images", CLASSES, NetworkDescription("cnn", math.prod(shape), 3, shape), *parts
    )
    forward = torch.nn.Conv2d.forward

    def record_layout(layer, X):
        last.append(X.is_contiguous(memory_format=torch.channels_last))
        return forward(layer, X)

    monkeypatch.setattr(torch.nn.Conv2d, "forward", record_layout)
    settings = dataclasses.replace(SETTINGS, batch_size=20, epochs=2)
    expected, _ = trained(1, "every-step", tmp_path, settings, problem=problem)
    assert not all(last)
    last.clear()
    settings = dataclasses.replace(settings, channels_last=True)
    state, _ = trained(1, "every-step", tmp_path, settings, problem=problem)
    assert all(last)
    assert torch.allclose(state["weights"], expected["weights"], rtol=1e-3, atol=1e-5)


def test_averaging_models_is_the_mean_of_what_each_rank_finds_alone(tmp_path):
    settings = dataclasses.replace(SETTINGS, epochs=1, batch_size=24)
    state, _ = trained(2, "average", tmp_path, settings)
    ends = []
    for rank in range(2):
        network = PROBLEM.network.make(1)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
        X, y = (torch.from_numpy(PROBLEM.train[name]) for name in "Xy")
        order = np.random.default_rng(np.random.SeedSequence([1, 0])).permutation(270)
        for first in range(0, 270, 48):
            union = order[first : first + 48]
            half = len(union) // 2
            rows = torch.from_numpy(union[:half] if rank == 0 else union[half:])
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(network(X[rows]).squeeze(1), y[rows]).backward()
            optimizer.step()
        ends.append(
            torch.cat([parameter.detach().reshape(-1) for parameter in network.parameters()])
        )
    assert torch.allclose(state["weights"], (ends[0] + ends[1]) / 2, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "shared_at", "averaged_after"),
    [
        ("every-step", range(1, 10), []),
        ("every-k=3", [3, 6, 9], range(9)),
        ("every-k", [4, 8], range(9)),
        ("average", [], range(9)),
        ("average=3", [], [2, 5, 8]),
        ("never", [], []),
    ],
)
def test_when_ranks_share_gradients_and_average_models(name, shared_at, averaged_after):
    strategy = strategy_of(name)
    assert [step for step in range(1, 10) if strategy.shares(step)] == [*shared_at]
    assert [epoch for epoch in range(9) if strategy.averages(epoch)] == [*averaged_after]


@pytest.mark.slow
@pytest.mark.parametrize("sync", ["every-k=2", "every-k=10", "never", "average=2"])
def test_every_strategy_ends_with_one_model_that_has_learned(sync, tmp_path):
    settings = dataclasses.replace(
        SETTINGS, epochs=4, batch_size=16, optimizer="adamw", learning_rate=0.005
    )
    _, progress = trained(3, sync, tmp_path, settings)
    assert progress.epochs[-1]["loss"] < progress.epochs[0]["loss"]
    assert progress.step == 24
    again, _ = trained(3, sync, tmp_path, settings)
    assert torch.equal(again["weights"], trained(3, sync, tmp_path, settings)[0]["weights"])
