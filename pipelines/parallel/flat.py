"""A network whose weights are one vector: one call adds up its gradient, or averages it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# What the classes of torch.optim hand to their functions by default.
SGD: dict[str, Any] = {"weight_decay": 0.0, "dampening": 0.0, "nesterov": False}
ADAMW: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
ALIGNED = 16  # numbers in a cache line
BEST = "best "  # before the names of what the network was after its best epoch


class FlatModel:
    """A network, its optimiser, and both as a few vectors.

    Parameters
    ----------
    network : torch.nn.Module
        Its parameters become views of one float32 vector.
    optimizer : {"sgd", "adamw"}
    momentum : of sgd
    device : torch's name of it

    Attributes
    ----------
    weights : float32 tensor of shape (n_weights,)
    shared : float32 tensor of shape (n_statistics + 1 + n_weights,)
        The gradient, before it a place for the statistics and one for the loss, which travel with
        its first weights: of these a backward pass has the gradient last.
    gradient : the last n_weights of these
    n_statistics : numbers in ``statistics``
    """

    def __init__(
        self, network: torch.nn.Module, optimizer: str, momentum: float, device: str
    ) -> None:
        import torch

        self.network = network.to(device=device, dtype=torch.float32)
        parameters = list(self.network.parameters())
        self.weights = torch.nn.utils.parameters_to_vector(parameters).detach()
        self.n_statistics = sum(buffer.numel() for buffer in self.statistics)
        n_before = self.n_statistics + 1
        spare = -n_before % ALIGNED  # so that the gradient begins where vector instructions like it
        self.shared = torch.zeros(spare + n_before + len(self.weights), device=device)[spare:]
        self.gradient = self.shared[n_before:]
        torch.nn.utils.vector_to_parameters(self.weights, parameters)
        gradients = self.gradient.split([parameter.numel() for parameter in parameters])
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.view_as(parameter)
        self._optimizer, self._momentum = optimizer, momentum
        self._moments: dict[str, torch.Tensor] = {}
        if optimizer == "adamw":
            self._moments = {
                "step": torch.zeros((), device=device),
                "mean": torch.zeros_like(self.weights),
                "square": torch.zeros_like(self.weights),
            }
        elif momentum:
            self._moments = {"velocity": torch.zeros_like(self.weights)}

    @property
    def n_weights(self) -> int:
        return len(self.weights)

    @property
    def loss(self) -> torch.Tensor:
        """The loss's place in ``shared``."""
        return self.shared[self.n_statistics]

    @property
    def buffers(self) -> dict[str, torch.Tensor]:
        """The network's buffers by name; asked for anew, as a module may assign others."""
        return dict(self.network.named_buffers())

    @property
    def statistics(self) -> list[torch.Tensor]:
        """Buffers that are floating-point numbers, which ranks may average; others are counts."""
        return [buffer for buffer in self.buffers.values() if buffer.is_floating_point()]

    def step(self, rate: float) -> None:
        """Make a step of ``torch.optim.SGD`` or ``AdamW``, with its defaults.

        By their functions: the first step of their classes loads torch's compiler, which nothing
        here needs and which takes a second of a core in each rank.
        """
        from torch.optim.adamw import adamw
        from torch.optim.sgd import sgd

        weights, gradient, moments = [self.weights], [self.gradient], self._moments
        options: dict[str, Any] = {"lr": rate, "maximize": False, "fused": True}
        if self._optimizer == "sgd":
            velocity = [moments.get("velocity")]
            sgd(weights, gradient, velocity, momentum=self._momentum, **SGD, **options)
            return
        mean, square, step = ([moments[name]] for name in ("mean", "square", "step"))
        adamw(weights, gradient, mean, square, [], step, amsgrad=False, **ADAMW, **options)

    def put_statistics(self) -> None:
        """Put the statistics into their place in ``shared``."""
        import torch

        if self.n_statistics:
            flat = [buffer.flatten() for buffer in self.statistics]
            torch.cat(flat, out=self.shared[: self.n_statistics])

    def take_statistics(self, n_ranks: int) -> None:
        """Take from there the mean of what so many ranks put in."""
        means = self.shared[: self.n_statistics] / n_ranks
        sizes = [buffer.numel() for buffer in self.statistics]
        for buffer, mean in zip(self.statistics, means.split(sizes), strict=True):
            buffer.copy_(mean.view_as(buffer))

    def state(self) -> dict[str, torch.Tensor]:
        """Return weights, buffers and the optimiser's vectors, by name; the tensors themselves."""
        return {
            "weights": self.weights,
            **{f"buffer {name}": buffer for name, buffer in self.buffers.items()},
            **{f"optimizer {name}": moment for name, moment in self._moments.items()},
        }

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Load what ``state`` returned, of a network of this shape; counts may be missing."""
        for name, tensor in self.state().items():
            if name in state or tensor.is_floating_point():
                tensor.copy_(state[name])


def best_network(network: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """Return a copy of a network as it was after the epoch with the lowest validation loss.

    ``state`` is that of a ``FlatModel``, and under ``BEST`` what differs; else as it stands.
    """
    from torch.nn.utils import vector_to_parameters

    best_state = {
        name[len(BEST) :]: tensor for name, tensor in state.items() if name.startswith(BEST)
    }
    best = {**state, **best_state}
    best_model = copy.deepcopy(network)
    vector_to_parameters(best["weights"], best_model.parameters())
    for name, buffer in best_model.named_buffers():
        if f"buffer {name}" in best:
            buffer.copy_(best[f"buffer {name}"])
    return best_model
