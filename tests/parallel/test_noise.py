"""The gradient noise scale: what is known of gradients that are made up, and of a network's."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="networks are torch's")

import torch

from pipelines.parallel import noise
from pipelines.parallel.checkpoint import progress_of
from pipelines.parallel.elastic import train
from pipelines.parallel.noise import NoiseScale
from pipelines.parallel.options import TrainingOptions
from pipelines.parallel.problem import approximator
from pipelines.parallel.rank import TrainingPlan
from tests.process_group.ranks import on_ranks


def test_the_scale_of_gradients_that_are_made_up():
    rng = np.random.default_rng(0)
    mean, deviation = np.full(50, 0.1), 0.5  # |mean|^2 = 0.5, the covariance's trace 12.5
    found = NoiseScale()
    for _ in range(2000):
        ranks = torch.tensor(mean + deviation * rng.normal(size=(4, 8, 50))).mean(1)
        small, large = (ranks**2).sum(1).mean(), (ranks.mean(0) ** 2).sum()
        found.add(small, large, 8, 32)
    assert found.take() == pytest.approx(25, rel=0.05)
    assert found.take() is None  # begun anew


@pytest.mark.slow
def test_an_epoch_of_two_ranks_has_that_of_the_gradients_of_its_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(noise, "STEPS_BETWEEN_LOOKS", 1)
    problem = approximator(400, 0.1, 0)
    settings = TrainingOptions(epochs=40, batch_size=9, learning_rate=0.0, optimizer="sgd")

    def noise_of(n_ranks: int, sync: str) -> list[float | None]:
        order = TrainingPlan(settings, sync, 1, None, str(tmp_path / "c"))
        results = on_ranks(n_ranks, lambda group: train(problem, order, group, lambda event: None))
        return [row["noise_scale"] for row in progress_of(results[0]).epochs]

    network = problem.network.make(1)
    gradients = []
    for i in range(problem.n_train):
        row = problem.prepare({name: torch.tensor(one[i : i + 1])
                               for name, one in problem.train.items()})  # fmt: skip
        loss = problem.loss(network(row["X"]), row["y"])
        parts = torch.autograd.grad(loss, list(network.parameters()))
        gradients.append(torch.cat([one.reshape(-1) for one in parts]))
    of_rows = torch.stack(gradients)
    mean = of_rows.mean(0)
    expected = float(((of_rows - mean) ** 2).sum(1).mean() / (mean**2).sum())
    found = noise_of(2, "every-step")
    assert np.median(found) == pytest.approx(expected, rel=0.1)
    assert noise_of(1, "every-step") == noise_of(2, "average") == [None] * 40
