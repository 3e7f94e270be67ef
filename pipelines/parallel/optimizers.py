"""Optimisers of one vector, a few calls a step; the formulas and defaults are torch.optim's.

torch's own would do, but the first of their steps loads a compiler that nothing here needs,
which takes seconds in each rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

BETAS, EPSILON, DECAY = (0.9, 0.999), 1e-8, 0.01


class SGD:
    """v <- momentum v + gradient, w <- w - rate v."""

    def __init__(self, weights: torch.Tensor, momentum: float) -> None:
        import torch

        self._momentum = momentum
        self.state = {"velocity": torch.zeros_like(weights)} if momentum else {}

    def step(self, weights: torch.Tensor, gradient: torch.Tensor, rate: float) -> None:
        if self._momentum:
            gradient = self.state["velocity"].mul_(self._momentum).add_(gradient)
        weights.sub_(gradient, alpha=rate)


class AdamW:
    """Loshchilov and Hutter, *Decoupled weight decay regularization*, 2019."""

    def __init__(self, weights: torch.Tensor, momentum: float) -> None:
        import torch

        self.state = {
            "step": torch.zeros((), dtype=torch.float64, device=weights.device),
            "mean": torch.zeros_like(weights),
            "square": torch.zeros_like(weights),
        }

    def step(self, weights: torch.Tensor, gradient: torch.Tensor, rate: float) -> None:
        mean, square = self.state["mean"], self.state["square"]
        step = self.state["step"].add_(1)
        weights.mul_(1 - rate * DECAY)
        mean.lerp_(gradient, 1 - BETAS[0])
        square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        root = (square / (1 - BETAS[1] ** step)).sqrt_().add_(EPSILON)
        weights.sub_((mean / root).mul_(rate / (1 - BETAS[0] ** step)))


OPTIMIZERS: dict[str, type[SGD] | type[AdamW]] = {"sgd": SGD, "adamw": AdamW}
