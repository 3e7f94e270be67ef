"""The networks that can be trained, and one of the user's own."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch

NETWORKS = ("approximator", "bagging", "mlp", "cnn")
# Of the function approximator: 1 -> 80 -> 80 -> 40 -> 1, the study's.
APPROXIMATOR = (80, 80, 40)
CHANNELS_OF_CNN = 16
CHANNELS, KERNEL, HIDDEN = 8, 3, 64  # of the bagging network, as its search often finds it


@dataclass(frozen=True)
class Network:
    """The description of a network; small enough to go to every worker.

    Attributes
    ----------
    name : one of ``NETWORKS``, a name of ``torchvision.models``, ``module:NAME`` or
        ``FILE.py:NAME`` of a class, function or module
    image_shape : (height, width) in pixels, channels before them if coloured, or None
    ink : whether images show ink on an even ground, as digits do
    hidden : units of the layers of an mlp
    """

    name: str
    n_inputs: int
    n_outputs: int
    image_shape: tuple[int, ...] | None = None
    hidden: tuple[int, ...] = (64, 64)
    ink: bool = False

    def make(self, seed: int) -> torch.nn.Module:
        """Return the network with first weights that the seed decides.

        It takes a float32 tensor of shape (n, n_inputs) and gives one of shape (n, n_outputs).

        Raises
        ------
        InputError
            The user's module or file does not give one.
        """
        import torch
        from torch import nn

        from pipelines.data.dataset import channels_height_width
        from pipelines.nn.inputs import Inputs
        from pipelines.nn.networks import drawing, make_network
        from pipelines.nn.space import Candidate

        if self.name not in NETWORKS[:-1]:  # as nn_bagging knows it, whose images are no rows
            inputs = Inputs(self.n_inputs, self.n_outputs, self.image_shape)
            network = make_network(Candidate(self.name, 0, 0, 0, CHANNELS_OF_CNN), inputs, seed)
            if self.image_shape is None:
                return network
            return nn.Sequential(nn.Unflatten(1, channels_height_width(self.image_shape)), network)
        with drawing, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if self.name == "bagging":
                return self._bagging()
            hidden = APPROXIMATOR if self.name == "approximator" else self.hidden
            layers: list[Any] = []
            for n_inputs, n_units in itertools.pairwise((self.n_inputs, *hidden)):
                layers += [nn.Linear(n_inputs, n_units), nn.ReLU()]
            return nn.Sequential(*layers, nn.Linear((self.n_inputs, *hidden)[-1], self.n_outputs))

    def _bagging(self) -> torch.nn.Module:
        """Return convolution, ReLU, hidden layer, ReLU, outputs: the members' of ``nn_bagging``."""
        from torch import nn

        from pipelines.data.dataset import channels_height_width

        assert self.image_shape is not None
        channels, height, width = channels_height_width(self.image_shape)
        n_features = CHANNELS * (height - KERNEL + 1) * (width - KERNEL + 1)
        return nn.Sequential(
            nn.Unflatten(1, (channels, height, width)),
            nn.Conv2d(channels, CHANNELS, KERNEL),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(n_features, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, self.n_outputs),
        )


def refuse_unknown(name: str) -> None:
    """Raise InputError where a network's name is none, before any data are loaded."""
    if name in NETWORKS:
        return
    if ":" in name:
        from pipelines.data.user_files import load_object

        load_object("network", name)
        return
    from pipelines.nn.networks import torchvision_models

    if name not in (models := torchvision_models(name)).list_models(module=models):
        raise InputError(
            f"{opt('network')} must be one of {', '.join(NETWORKS)}, a name of "
            f"torchvision.models, module:NAME or FILE.py:NAME, got {name!r}"
        )
