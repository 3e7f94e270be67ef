"""Networks as ``torch.nn.Module``: our own, those of ``torchvision.models``, and the user's."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from pipelines.data import user_files
from pipelines.data.dataset import channels_height_width
from pipelines.data.generators import lock
from pipelines.data.images import need_torchvision
from pipelines.errors import InputError, opt
from pipelines.nn.inputs import Inputs, NotNamed, fan_in, weight_shapes
from pipelines.nn.settings import BY_HAND
from pipelines.nn.space import OWN, WHOLE, NetworkSpec

if TYPE_CHECKING:
    from types import ModuleType

SMALLEST = 7  # pixels, about, on a side of what the last convolutions of a CNN see


@contextmanager
def drawing_from(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed torch's generators for a block, and restore their state after it."""
    on_gpu = torch.device(device).type == "cuda"
    with lock, torch.random.fork_rng(devices=[device] if on_gpu else []):
        torch.manual_seed(seed)
        yield


def draws(network: nn.Module, rows: torch.Tensor) -> bool:
    """Whether a network draws random numbers in a forward pass; it is tried on ``rows``."""
    network = copy.deepcopy(network).cpu().train()
    with lock, torch.random.fork_rng(devices=[]), torch.no_grad():
        before = torch.get_rng_state()
        network(rows)
        return not torch.equal(before, torch.get_rng_state())


def make_network(spec: NetworkSpec, inputs: Inputs, seed: int = 0) -> nn.Module:
    """Make the network of a spec on the CPU, with first weights drawn from the seed.

    Returns
    -------
    torch.nn.Module
        It takes a float32 tensor of shape (n, channels, height, width), or (n, n_features)
        for a table, and returns one of shape (n, n_outputs): scores before softmax, or standardised
        targets.
    """
    with drawing_from(seed):
        if spec.network in BY_HAND:
            return StudyNetwork(spec, inputs)
        if spec.network == "cnn":
            return CNN(spec.n_conv_layer, inputs)
        if inputs.module is not None or ":" in spec.network:
            return _user_network(spec, inputs)
        return _torchvision_network(spec.network, inputs)


def autocast(device: str, precision: str) -> torch.autocast:
    """The context of a forward pass, whose products are in bfloat16 for ``"bf16"``."""
    return torch.autocast(device, torch.bfloat16, enabled=precision == "bf16")


def as_network_takes(rows: torch.Tensor, inputs: Inputs) -> torch.Tensor:
    """View rows of shape (..., n_features) as images, if that is what they are."""
    if inputs.image_shape is None:
        return rows
    return rows.unflatten(-1, channels_height_width(inputs.image_shape))


def network_to_ask(spec: NetworkSpec, inputs: Inputs, device: torch.device) -> nn.Module:
    """Make the network of a spec for ``outputs_of``, which supplies the weights."""
    if spec.network in BY_HAND:
        # No first weights are drawn, which would take seconds for a large network; nor is a seed
        # set, which would take longer than a prediction of a small one.
        with torch.device("meta"):
            return StudyNetwork(spec, inputs).eval()
    return make_network(spec, inputs).eval().to(device)


def outputs_of(
    network: nn.Module, weights: dict[str, torch.Tensor], rows: torch.Tensor, inputs: Inputs
) -> torch.Tensor:
    """The outputs of one network's last layer.

    Parameters
    ----------
    network : torch.nn.Module
        From ``network_to_ask``.
    weights : dict of str to tensors
        Parameters and buffers.
    rows : tensor of shape (n_rows, n_features)
        Scaled, of the dtype of the weights.
    inputs : Inputs

    Returns
    -------
    tensor of shape (n_rows, n_outputs), of the same dtype
    """
    outputs: torch.Tensor = functional_call(network, weights, (as_network_takes(rows, inputs),))
    return outputs


def log_certainty(
    network: nn.Module, weights: dict[str, torch.Tensor], rows: torch.Tensor, inputs: Inputs
) -> torch.Tensor:
    """The logarithm of one network's softmax probabilities; see ``outputs_of``."""
    return torch.log_softmax(outputs_of(network, weights, rows, inputs).float(), 1)


def refuse_other_weights(
    spec: NetworkSpec, network: nn.Module, weights: Mapping[str, torch.Tensor]
) -> None:
    """Refuse a network of the user's own that does not fit the stored weights."""
    state = network.state_dict()
    counters = {name for name, tensor in state.items() if not tensor.is_floating_point()}
    for name in sorted({*state, *weights} - (counters - set(weights))):
        shapes = [tuple(side[name].shape) if name in side else None for side in (state, weights)]
        if shapes[0] != shapes[1]:
            raise InputError(
                f"{opt('network')} must be the network that was trained, got {spec.network}, "
                f"whose {name} has the shape {shapes[0]}, stored is {shapes[1]}; name that one"
            )


def inputs_of_dense_layers(network: nn.Module) -> list[torch.Tensor]:
    """A list to which every call of the network appends the inputs of its dense layers."""
    dense_inputs: list[torch.Tensor] = []
    for layer in network.modules():
        if isinstance(layer, nn.Linear | _Dense):
            layer.register_forward_pre_hook(lambda _, arguments: dense_inputs.append(arguments[0]))
    return dense_inputs


class StudyNetwork(nn.Module):
    """The study's network: convolution (or none), ReLU, hidden layer, ReLU, outputs.

    Its parameters have the names and shapes of ``weight_shapes``.
    """

    def __init__(self, spec: NetworkSpec, inputs: Inputs) -> None:
        super().__init__()
        self._inputs, self._kernel_size = inputs, spec.kernel_size
        shapes = weight_shapes(spec, inputs)
        for name, shape in shapes.items():
            layer, _, part = name.partition(".")
            if layer not in self._modules:
                self.add_module(layer, _Dense())
            bound = fan_in(name, shapes) ** -0.5
            weight = torch.empty(shape).uniform_(-bound, bound)
            self._modules[layer].register_parameter(part, nn.Parameter(weight))  # type: ignore[union-attr]

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Outputs before softmax."""
        weights: Any = self
        rows = X.flatten(1)
        if "conv" in self._modules:
            height, width = self._inputs.image_shape  # type: ignore[misc]
            k, kernels = self._kernel_size, weights.conv.weight
            images = rows.view(-1, 1, height, width)
            rows = functional.conv2d(images, kernels[:, :-1].reshape(-1, 1, k, k), kernels[:, -1])
            rows = rows.relu().flatten(1)
        outputs: torch.Tensor = weights.output(weights.hidden(rows).relu())
        return outputs


class _Dense(nn.Module):
    """A dense layer with weights (inputs, outputs) and a bias (1, outputs).

    For the convolution it only holds the weights.
    """

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        weights: Any = self
        return torch.addmm(weights.bias, X, weights.weight)


class CNN(nn.Sequential):
    """A small network for images of 20 to 64 pixels: 3 x 3 convolutions with batch normalisation.

    One convolution works on the whole image and two after each halving, down to about ``SMALLEST``
    pixels on a side, with twice the channels each time; then follow the mean over all positions and
    a dense layer.
    """

    def __init__(self, n_channels: int, inputs: Inputs) -> None:
        if inputs.image_shape is None:
            raise InputError(
                f"{opt('network', 'cnn')} needs images, and these rows are a table; use "
                f"{opt('network', 'mlp')}"
            )
        n_inputs, height, width = channels_height_width(inputs.image_shape)
        n_halvings = min(max(round(math.log2(min(height, width) / SMALLEST)), 1), 3)
        layers = [_convolution(n_inputs, n_channels)]
        for _ in range(n_halvings):
            layers += [nn.MaxPool2d(2), _convolution(n_channels, 2 * n_channels)]
            n_channels *= 2
            layers.append(_convolution(n_channels, n_channels))
        super().__init__(*layers, _Mean(), _GroupedLinear(n_channels, inputs.n_outputs))

    def in_groups(self, n_networks: int) -> CNN:
        """Compute several networks at once, with their channels beside each other.

        Grouped convolutions take a third less time than what ``torch.vmap`` makes of the same
        layers, which moves the networks beside the images for each pooling.
        """
        for module in self.modules():
            if isinstance(module, nn.Conv2d | _GroupedLinear):
                module.groups = n_networks
        return self


def _convolution(n_inputs: int, n_outputs: int) -> nn.Module:
    """A 3 x 3 convolution, batch normalisation and ReLU."""
    return nn.Sequential(
        OrderedDict(
            convolution=nn.Conv2d(n_inputs, n_outputs, 3, padding=1, bias=False),
            norm=nn.BatchNorm2d(n_outputs),
            relu=nn.ReLU(inplace=True),
        )
    )


class _Mean(nn.Module):
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X.mean((-2, -1))


class _GroupedLinear(nn.Linear):
    """A dense layer for each of ``groups`` groups of inputs, as ``Conv2d`` has them."""

    groups = 1

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        if self.groups == 1:
            return super().forward(X)
        columns = X.unflatten(1, (self.groups, -1)).transpose(0, 1)
        weight = self.weight.unflatten(0, (self.groups, -1))
        outputs = torch.bmm(columns, weight.mT).transpose(0, 1).flatten(1)
        return outputs + self.bias


class GrayToColour(nn.Module):
    """A network for colour images, applied to grey ones."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """The network's outputs for grey images, (n, 1, height, width)."""
        outputs: torch.Tensor = self.network(X.expand(-1, 3, -1, -1))
        return outputs


def _torchvision_network(name: str, inputs: Inputs) -> nn.Module:
    models = torchvision_models(name, OWN)
    if inputs.image_shape is None:
        raise InputError(
            f"{opt('network', name)} needs images, and these rows are a table; use "
            f"{opt('network', 'mlp')}"
        )
    # Two models have auxiliary outputs, for training on the full ImageNet, and warn unless one
    # says how to initialise their weights.
    keywords = {"aux_logits": False, "init_weights": True}
    if name not in ("googlenet", "inception_v3"):
        keywords = {}
    network: nn.Module = models.get_model(
        name, weights=None, num_classes=inputs.n_outputs, **keywords
    )
    gray = channels_height_width(inputs.image_shape)[0] == 1
    return GrayToColour(network) if gray else network


def torchvision_models(name: str, names: Sequence[str]) -> ModuleType:
    """Import ``torchvision.models``, provided that it has a model ``name``.

    ``names`` are the networks of this program, for the message.

    Raises
    ------
    InputError
        There is no such model, or torchvision is not installed.
    """
    need_torchvision(opt("network", name))
    models = importlib.import_module("torchvision.models")
    if name not in (model_names := models.list_models(module=models)):
        near = get_close_matches(name.lower(), [*names, *model_names], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"{opt('network')} must be one of {', '.join(names)}, a name of torchvision.models, or "
            f"your own, module:Class or FILE.py:Class, got {name!r}{hint}"
        )
    return models


def _user_network(spec: NetworkSpec, inputs: Inputs) -> nn.Module:
    """Make a network of the user's class, or a copy of their module with new first weights."""
    if inputs.module is NotNamed:
        raise InputError(
            f"{opt('network')} must be named again, as the file that names {spec.network} may "
            f"be anybody's, got none; look at it, then give {opt('network', spec.network)}"
        )
    module_or_class = (
        inputs.module if inputs.module is not None else load_object("network", spec.network)
    )
    if isinstance(module_or_class, nn.Module):
        network = copy.deepcopy(module_or_class)
        for layer in network.modules():
            if callable(reset := getattr(layer, "reset_parameters", None)):
                reset()
        return network
    shape = inputs.image_shape
    offered = {
        "n_features": inputs.n_features,
        "n_outputs": inputs.n_outputs,
        "n_classes": inputs.n_outputs,
        "image_shape": shape,
        "in_channels": inputs.n_features if shape is None else channels_height_width(shape)[0],
        **{name: value for name in WHOLE if (value := getattr(spec, name))},
    }
    try:
        parameters = inspect.signature(module_or_class).parameters
        arguments = {name: value for name, value in offered.items() if name in parameters}
        network = module_or_class(**arguments)
    except user_files.USER_ERRORS as error:
        raise InputError(
            f"{opt('network')} must be a module that can be made, got {spec.network} "
            f"({type(error).__name__}: {error}); it is given those of {', '.join(offered)} that "
            "it takes"
        ) from None
    if not isinstance(network, nn.Module):
        raise InputError(
            f"{opt('network')} must be a torch.nn.Module, got {spec.network}, which gives a "
            f"{type(network).__name__}"
        )
    return network


load_object = functools.lru_cache(user_files.load_object)  # each batch asks for it


def refusal_of_rows(spec: NetworkSpec, error: BaseException) -> InputError:
    """The error to raise for a network that failed on rows of the data set."""
    return InputError(
        f"{opt('network')} must take rows of this data set, got {spec.network} "
        f"({type(error).__name__}: {' '.join(str(error).split())})"
    )


def describe_network(spec: NetworkSpec, inputs: Inputs) -> list[str]:
    """A line for the terminal that gives the size of a network.

    Raises
    ------
    InputError
        It cannot be made, or does not have one output for each class, or one in a regression.
    """
    network = make_network(spec, inputs).eval()
    try:
        with torch.no_grad():
            rows = as_network_takes(torch.zeros(2, inputs.n_features), inputs)
            shape = tuple(network(rows).shape)
    except user_files.USER_ERRORS as error:
        raise refusal_of_rows(spec, error) from None
    if shape != (2, inputs.n_outputs):
        needed_outputs = f"an output for each of {inputs.n_classes} classes"
        if inputs.is_regression:
            needed_outputs = "one output for the target"
        raise InputError(
            f"{opt('network')} must give {needed_outputs}, got {spec.network}, which gives {shape} "
            "for two rows"
        )
    n_weights = sum(weight.numel() for weight in network.parameters())
    return [f"network    {spec.network}: {n_weights:,} weights"]
