"""A rank's layers of a network that is cut into stages, and the whole again from all ranks'."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pipelines.parallel.flat import FlatModel
from pipelines.parallel.settings import Settings
from pipelines.process_group.group import Group

if TYPE_CHECKING:
    import torch


class StagedModel(FlatModel):
    """The layers of a rank's stages, with the optimiser of their weights alone.

    Parameters
    ----------
    network : torch.nn.Sequential
        The whole; its other layers are left as they are.
    mine : layers of each of the rank's stages, by place
    settings, optimizer, device : see ``FlatModel``

    Attributes
    ----------
    stages : the rank's stages as networks, in the order of ``mine``
    """

    def __init__(
        self, network: torch.nn.Sequential, mine: Sequence[range], settings: Settings,
        optimizer: str, device: str,
    ) -> None:  # fmt: skip
        from torch import nn

        layers = list(network.named_children())
        own = OrderedDict(layers[i] for some in mine for i in some)
        super().__init__(nn.Sequential(own), settings, optimizer, device)
        self.stages = [nn.Sequential(OrderedDict(layers[i] for i in some)) for some in mine]
        sizes = [sum(one.numel() for one in layer.parameters()) for _, layer in layers]
        self._n_whole = sum(sizes)
        # Where each of its layers lies, in the whole's vector of weights and in its own.
        self._places: list[tuple[slice, slice]] = []
        first = 0
        for i in (i for some in mine for i in some):
            whole = sum(sizes[:i])
            self._places.append(
                (slice(whole, whole + sizes[i]), slice(first, first + sizes[i]))
            )  # fmt: skip
            first += sizes[i]
        self._buffers_of_all = {
            f"buffer {name}": one
            for name, one in network.named_buffers()
            if one.is_floating_point()
        }

    @property
    def n_weights(self) -> int:
        """The number of weights of the whole network."""
        return self._n_whole

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Take its part of a whole network's state."""
        for name, one in self.state().items():
            if one.ndim == 0 or name.startswith("buffer"):
                one.copy_(state[name])
                continue
            for whole, own in self._places:
                one[own] = state[name][whole]

    def whole(self, group: Group) -> dict[str, torch.Tensor]:
        """Return the state of the whole network, on every rank; raises as ``Group.sum``."""
        import torch

        mine, found = self.state(), dict[str, torch.Tensor]()
        for name, one in mine.items():
            if name.startswith("buffer"):
                continue
            if one.ndim == 0:  # a count of steps
                found[name] = one.clone()
                continue
            found[name] = torch.zeros(self._n_whole, dtype=one.dtype, device=one.device)
            for place, own in self._places:
                found[name][place] = one[own]
            group.sum(found[name])
        for name, like in self._buffers_of_all.items():
            found[name] = mine[name].clone() if name in mine else torch.zeros_like(like)
            group.sum(found[name])
        return found
