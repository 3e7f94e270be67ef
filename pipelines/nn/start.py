"""The random choices of a network's training: first weights, and the order of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipelines.nn.inputs import Inputs, fan_in, weight_shapes
from pipelines.nn.space import Candidate

if TYPE_CHECKING:
    import torch


def generators_of(seed: int, count: int) -> list[np.random.Generator]:
    """Return a generator for each network of a task; each draws its weights, then its orders."""
    return [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(count)]


def first_weights(
    candidate: Candidate,
    inputs: Inputs,
    generators: Sequence[np.random.Generator],
    device: torch.device,
) -> dict[str, torch.Tensor]:
    """Return first weights of a stack of networks, one for each generator.

    Uniform within 1 / sqrt(inputs of the layer), biases too, as ``torch.nn.Linear`` and
    ``Conv2d`` begin; drawn by numpy, so that they are the same on every device.

    Returns
    -------
    float32 tensors of shape (n_networks, *shape), by name; see ``weight_shapes``
    """
    import torch

    shapes = weight_shapes(candidate, inputs)
    stacked = {
        name: torch.empty(len(generators), *shape, device=device) for name, shape in shapes.items()
    }
    for slot, generator in enumerate(generators):
        for name, shape in shapes.items():
            bound = fan_in(name, shapes) ** -0.5
            drawn = generator.random(shape, dtype=np.float32)
            drawn *= 2 * bound
            drawn -= bound
            stacked[name][slot].copy_(torch.from_numpy(drawn))
    return stacked


def epoch_order(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return ``rows`` in the order of one epoch, int64."""
    return generator.permutation(rows).astype(np.int64)
