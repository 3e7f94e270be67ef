"""A network whose weights are one vector: one call adds up its gradient, or averages it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines.parallel.optimizers import OPTIMIZERS
from pipelines.parallel.settings import Settings

if TYPE_CHECKING:
    import torch


class FlatModel:
    """A network, its optimiser, and both as a few vectors.

    Parameters
    ----------
    network : torch.nn.Module
        Its parameters become views of one float32 vector.
    settings : Settings
    optimizer : {"sgd", "adamw"}
    device : torch's name of it

    Attributes
    ----------
    weights : float32 parameter of shape (n_weights,)
    shared : float32 tensor of shape (n_weights + 2,)
        The gradient, and after it places for its square and the loss, which travel with it.
    gradient : the first n_weights of these
    buffers : tensors by name, those of the network that are floating-point numbers
    """

    def __init__(
        self, network: torch.nn.Module, settings: Settings, optimizer: str, device: str
    ) -> None:
        import torch

        self.network = network.to(device=device, dtype=torch.float32)
        parameters = list(self.network.parameters())
        flat = torch.cat([one.detach().reshape(-1) for one in parameters])
        self.weights = torch.nn.Parameter(flat)
        self.shared = torch.zeros(len(flat) + 2, device=device)
        self.gradient = self.weights.grad = self.shared[:-2]
        first = 0
        for one in parameters:
            last = first + one.numel()
            one.data = self.weights.data[first:last].view_as(one)
            one.grad = self.shared[first:last].view_as(one)
            first = last
        self.buffers = {
            name: one for name, one in self.network.named_buffers() if one.is_floating_point()
        }
        self.optimizer = OPTIMIZERS[optimizer](self.weights.detach(), settings.momentum)

    @property
    def n_weights(self) -> int:
        return len(self.weights)

    def step(self, rate: float) -> None:
        """Make a step of the optimiser."""
        self.optimizer.step(self.weights.detach(), self.gradient, rate)

    def state(self) -> dict[str, torch.Tensor]:
        """Weights, buffers and the optimiser's vectors, by name; the tensors themselves."""
        return {
            "weights": self.weights.detach(),
            **{f"buffer {name}": one for name, one in self.buffers.items()},
            **{f"optimizer {name}": one for name, one in self.optimizer.state.items()},
        }

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Take what ``state`` gave, of a network of this shape."""
        for name, one in self.state().items():
            one.copy_(state[name])

    def named_weights(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers of the network by their own names, on the host."""
        return {name: one.detach().cpu().clone() for name, one in self.network.state_dict().items()}


def with_weights(
    network: torch.nn.Module, state: Mapping[str, torch.Tensor]
) -> torch.nn.Module:  # fmt: skip
    """Return a copy of a network, with the weights and buffers of a ``FlatModel``'s state of it."""
    from torch.nn.utils import vector_to_parameters

    found = copy.deepcopy(network)
    vector_to_parameters(state["weights"], found.parameters())
    for name, one in found.named_buffers():
        if f"buffer {name}" in state:
            one.copy_(state[f"buffer {name}"])
    return found
