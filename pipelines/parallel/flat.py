"""A network whose weights are one vector, so that one call sums its gradient or averages it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# The defaults of torch.optim's classes, which its functions do not have.
SGD: dict[str, Any] = {"weight_decay": 0.0, "dampening": 0.0, "nesterov": False}
ADAMW: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
ALIGNED = 16  # float32 numbers in a cache line of 64 bytes
BEST = "best "  # prefix in a checkpoint of the tensors after the best epoch


class FlatModel:
    """A network and its optimiser, whose state is a few vectors.

    Parameters
    ----------
    network : torch.nn.Module
        Its parameters become views of one float32 vector.
    optimizer : {"sgd", "adamw"}
    momentum : float
        The momentum of sgd.
    device : str
        torch's name of the device.

    Attributes
    ----------
    weights : float32 tensor of shape (n_weights,)
    shared : float32 tensor of shape (n_statistics + 1 + n_weights,)
        What ranks sum in a step: the statistics, the loss, and the gradient behind them. Statistics
        and loss are beside the gradient of the first weights, which a backward pass computes last.
    gradient : float32 tensor of shape (n_weights,)
        A view of the end of ``shared``.
    n_statistics : int
        Numbers in all of ``statistics``.
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
        spare = -n_before % ALIGNED  # the gradient begins at a cache line, for vector instructions
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
        """The loss, as a view of ``shared``."""
        return self.shared[self.n_statistics]

    @property
    def buffers(self) -> dict[str, torch.Tensor]:
        """The network's buffers by name; read anew each time, as a module may assign new ones."""
        return dict(self.network.named_buffers())

    @property
    def statistics(self) -> list[torch.Tensor]:
        """The floating-point buffers, which ranks may average; other buffers are counts."""
        return [buffer for buffer in self.buffers.values() if buffer.is_floating_point()]

    def step(self, rate: float) -> None:
        """Take a step of ``torch.optim.SGD`` or ``AdamW`` with this learning rate.

        It uses their functions: the first step of the classes loads torch's compiler, which is not
        needed here and takes a second of a core in each rank.
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
        """Copy the statistics into ``shared``."""
        import torch

        if self.n_statistics:
            flat = [buffer.flatten() for buffer in self.statistics]
            torch.cat(flat, out=self.shared[: self.n_statistics])

    def take_statistics(self, n_ranks: int) -> None:
        """Set the statistics to the mean over ranks, from their sums in ``shared``."""
        means = self.shared[: self.n_statistics] / n_ranks
        sizes = [buffer.numel() for buffer in self.statistics]
        for buffer, mean in zip(self.statistics, means.split(sizes), strict=True):
            buffer.copy_(mean.view_as(buffer))

    def state(self) -> dict[str, torch.Tensor]:
        """Weights, buffers and the optimiser's vectors by name; the tensors, not copies."""
        return {
            "weights": self.weights,
            **{f"buffer {name}": buffer for name, buffer in self.buffers.items()},
            **{f"optimizer {name}": moment for name, moment in self._moments.items()},
        }

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Copy in a state from ``state`` of an equal network; counts may be missing in it."""
        for name, tensor in self.state().items():
            if name in state or tensor.is_floating_point():
                tensor.copy_(state[name])


def best_network(network: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """A copy of a network as it was after the epoch with the lowest validation loss.

    Parameters
    ----------
    network : torch.nn.Module
        It is not changed.
    state : mapping of tensors by name
        The state of a ``FlatModel``; names that begin with ``BEST`` have what was stored after the
        best epoch, and take precedence.
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
