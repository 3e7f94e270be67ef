"""Cut a network between layers so that the slowest stage is as fast as possible."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch

TURNS = 7  # of which the fastest counts: it was disturbed least


def blocks_of(network: torch.nn.Module, name: str, n_stages: int) -> list[range]:
    """Return layers that stay together, in order; each block has one layer with weights.

    Raises
    ------
    InputError
        The network is no ``Sequential``, or has too few layers with weights.
    """
    from torch import nn

    if not isinstance(network, nn.Sequential):
        raise InputError(
            f"{opt('network')} must be a torch.nn.Sequential to be cut into stages, got {name}, a "
            f"{type(network).__name__}; leave {opt('pipeline_stages')} out"
        )
    weighty = [i for i, layer in enumerate(network) if any(True for _ in layer.parameters())]
    if len(weighty) < n_stages:
        raise InputError(
            f"{opt('pipeline_stages')} must leave each stage a layer with weights, got {n_stages} "
            f"stages of {name}, which has {len(weighty)} such layers; take fewer"
        )
    shared = len(list(network.parameters())) < sum(
        len(list(layer.parameters())) for layer in network
    )
    if shared:
        raise InputError(
            f"{opt('network')} must not share weights between layers to be cut into stages, got "
            f"{name}; leave {opt('pipeline_stages')} out"
        )
    starts = [0, *weighty[1:], len(network)]
    return [range(a, b) for a, b in itertools.pairwise(starts)]


def seconds_of(
    parts: Sequence[torch.nn.Module], inputs: torch.Tensor,
    loss: Callable[[torch.Tensor], torch.Tensor],
) -> list[float]:  # fmt: skip
    """Time forward and backward of each part, the loss with the last; gradients are lost."""
    import torch

    best = [float("inf")] * len(parts)
    for _ in range(TURNS):
        given = inputs
        for i, part in enumerate(parts):
            given = given.detach().requires_grad_(i > 0)
            began = time.perf_counter()
            outputs = part(given)
            end = loss(outputs) if i + 1 == len(parts) else outputs
            end.backward(torch.ones_like(end))
            best[i] = min(best[i], time.perf_counter() - began)
            given = outputs
    for part in parts:
        part.zero_grad()
    return best


def balanced(costs: Sequence[float], n_stages: int) -> list[range]:
    """Cut a row of blocks into stages: the costliest as cheap as possible, then the others.

    Parameters
    ----------
    costs : of each block, at least as many as stages

    Returns
    -------
    list of range, the blocks of each stage
    """
    sums = [0.0]
    for one in costs:
        sums.append(sums[-1] + one)
    # best[last]: (greatest cost, sum of squares, cuts) of the blocks before ``last``
    best = {0: (0.0, 0.0, [0])}
    for stage in range(n_stages):
        left = n_stages - stage - 1
        best = {
            last: min(
                (max(most, cost), squares + cost * cost, [*cuts, last])
                for first, (most, squares, cuts) in best.items()
                if first < last
                for cost in [sums[last] - sums[first]]
            )
            for last in range(stage + 1, len(costs) - left + 1)
        }
    cuts = best[len(costs)][2]
    return [range(a, b) for a, b in itertools.pairwise(cuts)]
