"""The shapes of a network's inputs, outputs and weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipelines.errors import InputError, opt
from pipelines.nn.space import NetworkSpec, refuse_coloured

Shapes = dict[str, tuple[int, ...]]


class NotNamed:
    """Stands for the module of a network that only a file names: its code is not run."""


@dataclass(frozen=True)
class Inputs:
    """The rows of a data set as a network takes them.

    Attributes
    ----------
    n_features : int
    n_classes : int
        0 in a regression, whose networks have one output, the standardised target.
    image_shape : tuple of int, optional
        (height, width) of grey images, (channels, height, width) of coloured ones; None for a
        table.
    module : torch.nn.Module, or a function that returns one, optional
        The user's own network, where it was passed as an object and not by name; ``NotNamed`` for
        one that was loaded from a file.
    """

    n_features: int
    n_classes: int
    image_shape: tuple[int, ...] | None = None
    module: Any = field(default=None, compare=False, repr=False)

    @property
    def is_regression(self) -> bool:
        """Whether networks predict numbers and not classes."""
        return self.n_classes == 0

    @property
    def n_outputs(self) -> int:
        """Outputs of a network: one for each class, or one in a regression."""
        return self.n_classes or 1

    def positions(self, kernel_size: int) -> tuple[int, int]:
        """Positions of a kernel on the image, one pixel apart: (rows, columns).

        Raises
        ------
        InputError
            The rows are not grey images, or the images are smaller than the kernel.
        """
        if self.image_shape is None:
            raise InputError(
                f"{opt('network', 'conv')} needs images, and these rows are a table; use "
                f"{opt('network', 'mlp')}"
            )
        refuse_coloured(self.image_shape)
        height, width = self.image_shape[-2:]
        if not 1 <= kernel_size <= min(height, width):
            raise InputError(
                f"kernel_size must be at most {min(height, width)}, the shorter side of images of "
                f"{height} x {width} pixels, got {kernel_size}"
            )
        return height - kernel_size + 1, width - kernel_size + 1


def weight_shapes(spec: NetworkSpec, inputs: Inputs) -> Shapes:
    """The shapes of a network's weights by name, first layer first.

    ``conv.weight`` is (n_conv_layer, kernel_size ** 2 + 1): a line for each channel, with its bias
    at the end. Of the other layers ``weight`` is (inputs, outputs) and ``bias`` is (1, outputs).
    """
    shapes: Shapes = {}
    n_inputs = inputs.n_features
    if spec.network == "conv":
        height, width = inputs.positions(spec.kernel_size)
        shapes["conv.weight"] = (spec.n_conv_layer, spec.kernel_size**2 + 1)
        n_inputs = spec.n_conv_layer * height * width
    shapes["hidden.weight"] = (n_inputs, spec.n_hidden_layer)
    shapes["hidden.bias"] = (1, spec.n_hidden_layer)
    shapes["output.weight"] = (spec.n_hidden_layer, inputs.n_outputs)
    shapes["output.bias"] = (1, inputs.n_outputs)
    return shapes


def fan_in(name: str, shapes: Shapes) -> int:
    """Inputs of each output in the layer that the array ``name`` belongs to."""
    if name == "conv.weight":
        return shapes[name][1] - 1
    return shapes[name.replace("bias", "weight")][0]
