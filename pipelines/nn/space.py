"""Specifications of networks, and the space that they are drawn from: ranges in a YAML file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.data.user_code import named_code
from pipelines.data.user_files import read_user_yaml
from pipelines.errors import InputError, opt

PRESETS = ("study", "small", "mlp", "table", "cnn")
OWN = ("conv", "mlp", "table", "cnn")  # our networks; others are torchvision's or the user's
OF_CONVOLUTION = ("n_conv_layer", "kernel_size")
WHOLE = (*OF_CONVOLUTION, "n_hidden_layer")
PARAMETERS = (*WHOLE, "learning_rate", "momentum")
# Hyper-parameters that a space must name; for the user's own network it may also name the others.
WANTED = {
    "conv": PARAMETERS,
    "mlp": PARAMETERS[2:],
    "table": PARAMETERS[2:],
    "cnn": ("n_conv_layer", *PARAMETERS[3:]),
}
# Learning rates of a network without a preset, by optimiser: the highest of a one-cycle schedule.
RATES = {"sgd": {"log10": [-2.0, -1.3]}, "adamw": {"log10": [-3.0, -2.3]}}
# Every preset lies within these; a number beyond them is a slip of the pen.
LIMITS = {
    "n_conv_layer": (1, 65_536),
    "kernel_size": (1, 1_024),
    "n_hidden_layer": (1, 1_048_576),
    "learning_rate": (1e-12, 1e3),
    "momentum": (0.0, 1.0),
}
OF_ADAM = LIMITS | {"momentum": (0.0, 0.9999)}  # Adam divides its means by 1 - momentum


def code_of_space(name: str) -> list[str]:
    """The user's own code that a search space names; a file without a space is refused later."""
    if Path(name).suffix not in (".yaml", ".yml"):
        return []
    try:
        content = read_user_yaml(name, opt("space"))
    except InputError:
        return []
    network = content.get("network") if isinstance(content, Mapping) else None
    return named_code(network) if isinstance(network, str) else []


@dataclass(frozen=True)
class UniformBounds:
    """Bounds of a uniform draw, both included.

    Attributes
    ----------
    low, high : float
        Bounds of log10 of the value where ``log10`` is true.
    log10 : bool
    whole : bool
        Whether values are integers.
    """

    low: float
    high: float
    log10: bool = False
    whole: bool = False

    @classmethod
    def of(
        cls, name: str, value: Any, where: str, limits: tuple[float, float], whole: bool = False
    ) -> UniformBounds:
        """The range that a search space gives for the hyper-parameter ``name``.

        Parameters
        ----------
        name : str
        value : number, list or mapping
            A number, ``[low, high]``, or ``{log10: [low, high]}`` unless ``whole``.
        where : str
            Begins the message of an error.
        limits : (float, float)
            Least and largest value that are accepted.
        whole : bool, default False
            Whether values must be integers.

        Raises
        ------
        InputError
            The value is not such a range, or is beyond the limits.
        """
        log = "" if whole else " or {log10: [...]}"
        form = f"a {'whole ' * whole}number{', ' if log else ' or '}[low, high]{log}"
        refusal = InputError(f"{where}: {name} must be {form}, got {value!r}")
        log10 = isinstance(value, Mapping) and list(value) == ["log10"] and not whole
        pair = value["log10"] if log10 else value
        pair = pair if isinstance(pair, list) else [pair, pair]
        number_types = (int,) if whole else (int, float)  # a bool is not a number
        if len(pair) != 2 or not all(
            type(number) in number_types and math.isfinite(number) for number in pair
        ):
            raise refusal
        span = cls(pair[0], pair[1], log10, whole)
        if span.low > span.high:
            raise InputError(f"{where}: {name} must have low <= high, got {pair}; swap them")
        try:
            low, high = span.bounds
        except OverflowError:
            raise refusal from None
        least, most = limits
        if not least <= low <= high <= most:
            raise InputError(
                f"{where}: {name} must lie between {least:g} and {most:g}, got {value!r}"
            )
        return span

    def draw(self, generator: np.random.Generator) -> float:
        """Draw a value, an int where ``whole`` is true."""
        if self.whole:
            return int(generator.integers(int(self.low), int(self.high), endpoint=True))
        drawn = float(generator.uniform(self.low, self.high))
        return 10.0**drawn if self.log10 else drawn

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value, not their logarithms."""
        return (10.0**self.low, 10.0**self.high) if self.log10 else (self.low, self.high)

    def describe(self) -> Any:
        """The range as ``of`` reads it, serialisable as JSON."""
        pair = [self.low, self.high]
        return {"log10": pair} if self.log10 else pair


@dataclass(frozen=True)
class NetworkSpec:
    """A network's architecture, and the rates at which it is trained.

    Attributes
    ----------
    network : str
        ``conv``: convolution, hidden layer, output; ``mlp``: without the convolution; ``table``:
        as ``mlp``, trained as described in ``pipelines.nn.early_stopping``; ``cnn``, a name of
        ``torchvision.models``, or ``module:Class`` of the user's own.
    n_hidden_layer : int
        Units of the hidden layer; 0 where the network has none to choose.
    learning_rate, momentum : float
        The rates of stochastic gradient descent; for Adam, the momentum is its first beta.
    n_conv_layer : int
        Channels of the convolution, in ``cnn`` of the first one; 0 where there is none to choose.
    kernel_size : int
        Pixels on a side of the convolution; 0 where there is none to choose.
    """

    network: str
    n_hidden_layer: int
    learning_rate: float
    momentum: float
    n_conv_layer: int = 0
    kernel_size: int = 0

    @property
    def architecture(self) -> NetworkSpec:
        """The spec without its rates; networks of one architecture can share a stack."""
        return replace(self, learning_rate=0.0, momentum=0.0)


@dataclass(frozen=True)
class SearchSpace:
    """The space of a network's hyper-parameters.

    Attributes
    ----------
    network : str
        As ``NetworkSpec.network``.
    ranges : dict of str to UniformBounds
        By hyper-parameter, in the order in which they are drawn.
    """

    network: str
    ranges: dict[str, UniformBounds]

    @classmethod
    def load(cls, name: str, network: str | None = None, optimizer: str = "sgd") -> SearchSpace:
        """Load a search space.

        Parameters
        ----------
        name : str
            A preset, the path of a YAML file, or "auto" for the space that goes with ``network``.
        network : str, optional
            As ``NetworkSpec.network``. A file may leave it out, but must not name another.
        optimizer : {"sgd", "adamw"}
            Decides the learning rates of a network without a preset.

        Raises
        ------
        InputError
            There is no such space, or it is not valid for the network.
        """
        if name == "auto" and network is not None:
            preset = {"conv": "small", "cnn": "cnn" if optimizer == "sgd" else ""}
            name = preset.get(network, network if network in OWN else "")
            if not name:
                content = {"network": network, "learning_rate": RATES[optimizer], "momentum": 0.9}
                if network == "cnn":
                    content["n_conv_layer"] = 16
                return cls.from_mapping(content)
        path = Path(__file__).with_name("spaces") / f"{name}.yaml"
        if name not in PRESETS and (path := Path(name).expanduser()).suffix not in (
            ".yaml",
            ".yml",
        ):
            near = get_close_matches(name.lower(), PRESETS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(
                f"{opt('space')} must be one of {', '.join(PRESETS)} or the path of a .yaml "
                f"file, got {name!r}{hint}"
            )
        content = read_user_yaml(path, f"{opt('space')} must be")
        where = opt("space", name)
        if network is not None and isinstance(content, Mapping):
            if content.get("network", network) != network:
                raise InputError(
                    f"{opt('network')} must be that of {where}, {content['network']}, got "
                    f"{network}; leave one of them out"
                )
            content = {"network": network, **content}
        return cls.from_mapping(content, where)

    @classmethod
    def from_mapping(cls, content: Any, where: str = "the search space") -> SearchSpace:
        """The space that the content of a YAML file describes.

        Parameters
        ----------
        content : mapping
            ``network`` (by default ``conv``) and hyper-parameters, each a number, ``[low, high]``,
            or, unless it is an integer, ``{log10: [low, high]}``.
        where : str
            Begins the message of an error.

        Raises
        ------
        InputError
            A key is unknown or missing, or a value is not a range.
        """
        if not isinstance(content, Mapping):
            raise InputError(f"{where} must hold lines like 'momentum: [0, 0.9]', got {content!r}")
        network = content.get("network", "conv")
        if not isinstance(network, str):
            raise InputError(
                f"{where}: network must be one of {', '.join(OWN)}, a name of torchvision.models, "
                f"or module:Class, got {network!r}"
            )
        required_names = WANTED.get(network, PARAMETERS[3:])
        names = PARAMETERS if ":" in network else required_names
        for key in content:
            if key not in (allowed_keys := ["network", *names]):
                near = get_close_matches(str(key), allowed_keys, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InputError(
                    f"{where}: network {network} takes {', '.join(allowed_keys)}, got {key!r}{hint}"
                )
        missing = [name for name in required_names if name not in content]
        if missing:
            raise InputError(
                f"{where} must say every hyper-parameter of network {network}, "
                f"{', '.join(missing)} missing; add a line like '{missing[0]}: [low, high]'"
            )
        limits = OF_ADAM if network == "table" else LIMITS
        ranges = {
            name: UniformBounds.of(name, content[name], where, limits[name], whole=name in WHOLE)
            for name in names
            if name in content
        }
        return cls(network, ranges)

    def draw(self, generator: np.random.Generator) -> NetworkSpec:
        """Draw a network at random."""
        return self.spec({name: span.draw(generator) for name, span in self.ranges.items()})

    def spec(self, parameters: Mapping[str, Any]) -> NetworkSpec:
        """The network with these hyper-parameters, one for each of ``ranges``."""
        return NetworkSpec(self.network, **{"n_hidden_layer": 0, **parameters})

    def for_images(self, shape: tuple[int, ...] | None) -> SearchSpace:
        """The space without kernels larger than the images' shorter side.

        ``shape`` is that of ``Inputs.image_shape``, None for a table.

        Raises
        ------
        InputError
            A convolution would get a table or coloured images, or even its smallest kernel is too
            large.
        """
        if self.network != "conv":
            return self
        kernels = self.ranges["kernel_size"]
        if shape is None:
            raise InputError(
                f"{opt('space')} has a convolution, which needs images, and the data are a table; "
                f"use {opt('space', 'mlp')}"
            )
        refuse_coloured(shape)
        side = min(shape)
        if kernels.low > side:
            raise InputError(
                f"{opt('space')}: kernel_size must be at most {side}, the shorter side of these "
                f"images, got {kernels.low:g} and more; choose a smaller kernel_size"
            )
        kernels = replace(kernels, high=min(kernels.high, side))
        return replace(self, ranges=self.ranges | {"kernel_size": kernels})

    def describe(self) -> dict[str, Any]:
        """The space as ``from_mapping`` reads it, serialisable as JSON."""
        return {
            "network": self.network,
            **{name: span.describe() for name, span in self.ranges.items()},
        }


def refuse_coloured(shape: tuple[int, ...]) -> None:
    """Raise InputError for images of several channels, which ``conv`` does not take."""
    if len(shape) == 3:
        raise InputError(
            f"{opt('network')} conv is for gray images, got images of {shape[0]} channels; use "
            f"{opt('network', 'cnn')}"
        )
