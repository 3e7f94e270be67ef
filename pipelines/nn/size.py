"""Predicted memory and time of training a network."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from pipelines.data.user_files import USER_ERRORS
from pipelines.nn.inputs import Inputs, weight_shapes
from pipelines.nn.settings import BY_HAND
from pipelines.nn.space import NetworkSpec

FLOAT = 4  # bytes
SCORING_BYTES = 256 * 2**20  # of the arrays for one block of rows that are scored at once
# Seconds of a step of one network for each multiplication, for each weight that is read and
# written, and for the step itself: fitted by eye to the preset `small` on one core.
PER_PRODUCT, PER_WEIGHT, PER_STEP = 1.5e-11, 0.8e-9, 2.0e-5
EPOCHS = 6  # of a typical network


class Size(NamedTuple):
    """The sizes of a network.

    Attributes
    ----------
    weights : int
        Number of fitted weights.
    floats : int
        Numbers that a step holds for each row of a batch.
    products : int
        Multiplications per row in a step.
    """

    weights: int
    floats: int
    products: int


def size_of(spec: NetworkSpec, inputs: Inputs) -> Size:
    """The sizes of a spec's network; a module is measured, once for each architecture."""
    if spec.network not in BY_HAND:
        return _measured(spec.architecture, inputs)
    shapes = weight_shapes(spec, inputs)
    n_features, n_hidden = shapes["hidden.weight"]
    # The row, its hidden units and outputs, and the gradients by them.
    floats = inputs.n_features + 2 * n_hidden + 6 * inputs.n_outputs + 1
    # Forward, by the inputs, by the weights.
    products = 3 * n_hidden * (n_features + inputs.n_outputs)
    if spec.network == "conv":
        n_channels, n_kernel = shapes["conv.weight"]
        n_positions = math.prod(inputs.positions(spec.kernel_size))
        # Patches, features and their gradients, kernels by row with their gradients.
        floats += n_kernel * n_positions + 2 * n_features + 2 * n_channels * n_kernel
        products += 2 * n_channels * n_kernel * n_positions
    return Size(sum(map(math.prod, shapes.values())), floats, products)


@lru_cache
def _measured(spec: NetworkSpec, inputs: Inputs) -> Size:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from pipelines.nn.networks import as_network_takes, make_network, refusal_of_rows

    network = make_network(spec, inputs).eval()
    floats = [inputs.n_features]
    for module in network.modules():
        if not list(module.children()):
            # A layer of the user's may return something other than a tensor, which counts as 0.
            module.register_forward_hook(
                lambda _, __, outputs: floats.append(getattr(outputs, "numel", int)())
            )
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        try:
            network(as_network_takes(torch.zeros(1, inputs.n_features), inputs))
        except USER_ERRORS as error:
            raise refusal_of_rows(spec, error) from None
    weights = sum(weight.numel() for weight in network.parameters())
    # Each layer's outputs and their gradients. A product is two floating-point operations, and a
    # step takes one product forward and two backward.
    return Size(weights, 2 * sum(floats), 3 * counter.get_total_flops() // 2)


def training_bytes(
    spec: NetworkSpec, inputs: Inputs, n_networks: int, batch_size: int, n_rows: int
) -> int:
    """The most bytes that training a stack takes on the device.

    Counted are weights and velocities, what a step holds, the scaled rows with their targets, the
    order of an epoch, and one block of rows that are scored.

    Parameters
    ----------
    spec, inputs : NetworkSpec, Inputs
    n_networks : int
        Networks in the stack.
    batch_size : int
        Rows per step for each network.
    n_rows : int
        Rows of the data set.
    """
    size = size_of(spec, inputs)
    # Weights and velocities; for a module also their gradients and Adam's second mean.
    network_bytes = (2 if spec.network in BY_HAND else 4) * FLOAT * size.weights
    step = FLOAT * batch_size * size.floats
    shared = FLOAT * n_rows * (inputs.n_features + inputs.n_outputs)
    orders = 2 * 8 * n_rows
    scoring = max(SCORING_BYTES, FLOAT * size.floats)
    return n_networks * (network_bytes + step + orders) + shared + scoring


def scoring_rows(spec: NetworkSpec, inputs: Inputs) -> int:
    """Rows that are scored at once."""
    return max(1, SCORING_BYTES // (FLOAT * size_of(spec, inputs).floats))


def predicted_training_seconds(
    spec: NetworkSpec, inputs: Inputs, n_networks: int, batch_size: int, n_rows: int
) -> float:
    """The predicted seconds for training networks in one stack, on one core.

    Parameters
    ----------
    spec, inputs : NetworkSpec, Inputs
    n_networks : int
        Networks in the stack.
    batch_size : int
        Rows per step for each network.
    n_rows : int
        Training rows of each network.
    """
    size = size_of(spec, inputs)
    of_a_step = PER_PRODUCT * size.products * batch_size + PER_WEIGHT * size.weights + PER_STEP
    return EPOCHS * n_networks * math.ceil(n_rows / batch_size) * of_a_step
