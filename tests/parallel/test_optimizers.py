"""Steps of the one vector of weights, and those of torch's optimisers of its parameters."""

from __future__ import annotations

import copy

import pytest

pytest.importorskip("torch", reason="networks are torch's")

import torch

from pipelines.parallel.flat import FlatModel


@pytest.mark.parametrize(
    ("optimizer", "momentum", "theirs"),
    [
        ("sgd", 0.9, lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9)),
        ("sgd", 0.0, lambda parameters: torch.optim.SGD(parameters, lr=0.1)),
        ("adamw", 0.9, lambda parameters: torch.optim.AdamW(parameters, lr=0.1)),
    ],
)
def test_steps_are_those_of_the_classes_of_torch(optimizer, momentum, theirs):
    generator = torch.Generator().manual_seed(0)
    network = torch.nn.Linear(9, 5)
    other = copy.deepcopy(network)
    model = FlatModel(network, optimizer, momentum, "cpu")
    another = theirs(other.parameters())
    for i in range(20):
        for mine, its in zip(network.parameters(), other.parameters(), strict=True):
            its.grad = torch.randn(its.shape, generator=generator) * 0.1 ** (i % 4)
            mine.grad.copy_(its.grad)
        model.step(0.1)
        another.step()
        for mine, its in zip(network.parameters(), other.parameters(), strict=True):
            assert torch.allclose(mine, its, rtol=1e-4, atol=1e-6)
