"""The networks that can be trained, and one of the user's own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pipelines.data.user_files import USER_ERRORS
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch

NETWORKS = ("approximator", "bagging", "mlp", "cnn")
# Of the function approximator: 1 -> 80 -> 80 -> 40 -> 1, the study's.
APPROXIMATOR = (80, 80, 40)
CHANNELS_OF_CNN = 16
CHANNELS, KERNEL, HIDDEN = 8, 3, 64  # of the bagging network, as its search often finds it

_drawing = threading.Lock()  # torch has one generator for all threads


@dataclass(frozen=True)
class Network:
    """The description of a network; small enough to go to every worker.

    Attributes
    ----------
    name : one of ``NETWORKS``, a name of ``torchvision.models``, ``module:Class`` or
        ``FILE.py:FUNCTION``
    image_shape : (height, width) in pixels, channels before them if coloured, or None
    ink : whether images show ink on an even ground, as digits do
    hidden : units of the layers of an mlp
    source : the text of the user's file; the workers need not reach it
    """

    name: str
    n_inputs: int
    n_outputs: int
    image_shape: tuple[int, ...] | None = None
    hidden: tuple[int, ...] = (64, 64)
    source: str = ""
    ink: bool = False

    def make(self, seed: int) -> torch.nn.Module:
        """Return the network with first weights that the seed decides.

        It takes a float32 tensor of shape (n, n_inputs) and gives one of shape (n, n_outputs).

        Raises
        ------
        InputError
            The user's file does not give one.
        """
        import torch

        if self.name not in NETWORKS[:-1] and not self.source:
            return self._of_candidate(seed)
        with _drawing, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if self.name == "approximator":
                return _layers(self.n_inputs, APPROXIMATOR, self.n_outputs)
            if self.name == "mlp":
                return _layers(self.n_inputs, self.hidden, self.n_outputs)
            if self.name == "bagging":
                return self._bagging()
            return self._own()

    def _of_candidate(self, seed: int) -> torch.nn.Module:
        """Return a network as ``nn_bagging`` knows it, whose images come as rows."""
        from torch import nn

        from pipelines.data.dataset import channels_height_width
        from pipelines.nn.inputs import Inputs
        from pipelines.nn.networks import make_network
        from pipelines.nn.space import Candidate

        inputs = Inputs(self.n_inputs, self.n_outputs, self.image_shape)
        network = make_network(Candidate(self.name, 0, 0, 0, CHANNELS_OF_CNN), inputs, seed)
        if self.image_shape is None:
            return network
        return nn.Sequential(nn.Unflatten(1, channels_height_width(self.image_shape)), network)

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

    def _own(self) -> torch.nn.Module:
        from torch import nn

        path, _, function = self.name.rpartition(":")
        module = ModuleType("users_network")
        try:
            exec(compile(self.source, path, "exec"), module.__dict__)
            network = getattr(module, function)(self)
        except USER_ERRORS as error:
            raise InputError(
                f"{opt('network')} must name a function that makes a network, got {self.name} "
                f"({type(error).__name__}: {error}); it is given .n_inputs, .n_outputs and "
                ".image_shape"
            ) from None
        if not isinstance(network, nn.Module):
            raise InputError(
                f"{opt('network')} must name a function that returns a torch.nn.Module, got "
                f"{self.name}, which returns a {type(network).__name__}"
            )
        return network


def refuse_unknown(name: str) -> str:
    """Return the text of the user's file, empty for one of ours.

    Raises
    ------
    InputError
        There is no such network, or no such file.
    """
    path, colon, function = name.rpartition(":")
    if name in NETWORKS:
        return ""
    if not colon:
        from pipelines.nn.networks import torchvision_models

        known = name in (models := torchvision_models(name)).list_models(module=models)
    else:
        known = function.isidentifier()
    if not known:
        raise InputError(
            f"{opt('network')} must be one of {', '.join(NETWORKS)}, a name of "
            f"torchvision.models, module:Class or FILE.py:FUNCTION, got {name!r}"
        )
    if not path.endswith(".py"):
        return ""
    try:
        return Path(path).expanduser().read_text()
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"{opt('network')} must name a file that can be read, got {path!r} ({error}); write "
            "FILE.py:FUNCTION"
        ) from None


def _layers(n_inputs: int, hidden: Sequence[int], n_outputs: int) -> torch.nn.Module:
    """Return linear layers with ReLU between them."""
    from torch import nn

    layers: list[Any] = []
    for n_units in hidden:
        layers += [nn.Linear(n_inputs, n_units), nn.ReLU()]
        n_inputs = n_units
    return nn.Sequential(*layers, nn.Linear(n_inputs, n_outputs))
