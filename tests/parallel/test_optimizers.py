"""The optimisers take the steps of torch's."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="networks are torch's")

import torch

from pipelines.parallel.optimizers import SGD, AdamW


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda w: SGD(w, 0.9), lambda w: torch.optim.SGD([w], lr=0.1, momentum=0.9)),
        (lambda w: SGD(w, 0.0), lambda w: torch.optim.SGD([w], lr=0.1)),
        (lambda w: AdamW(w, 0.9), lambda w: torch.optim.AdamW([w], lr=0.1)),
    ],
)
def test_steps_are_those_of_torch(ours, theirs):
    generator = torch.Generator().manual_seed(0)
    mine = torch.randn(50, generator=generator)
    other = torch.nn.Parameter(mine.clone())
    one, another = ours(mine), theirs(other)
    for i in range(20):
        gradient = torch.randn(50, generator=generator) * 0.1 ** (i % 4)
        other.grad = gradient.clone()
        another.step()
        one.step(mine, gradient, 0.1)
        assert torch.allclose(mine, other.detach(), rtol=1e-4, atol=1e-6)
