"""Predict the bytes and the relative time of a candidate's training."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from pipelines.data.user_files import USER_ERRORS
from pipelines.nn.inputs import Inputs, weight_shapes
from pipelines.nn.settings import BY_HAND
from pipelines.nn.space import Candidate

FLOAT = 4  # bytes
SCORING_BYTES = 256 * 2**20  # of the arrays of one block of rows that is scored
# Time of a step of one network, fitted by eye to the preset `small` on one core: seconds
# for each multiplication, for each weight that is read and written, and for itself.
PER_PRODUCT, PER_WEIGHT, PER_STEP = 1.5e-11, 0.8e-9, 2.0e-5
EPOCHS = 6  # of a typical candidate


def _of_module(candidate: Candidate, inputs: Inputs) -> tuple[int, int, int] | None:
    """Return a module's weights, the numbers all its layers give for a row, and its products.

    Measured once for all rates; None for a network of our own writing.
    """
    if candidate.network in BY_HAND:
        return None
    return _measured(replace(candidate, learning_rate=0.0, momentum=0.0), inputs)


@lru_cache
def _measured(candidate: Candidate, inputs: Inputs) -> tuple[int, int, int]:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from pipelines.nn.networks import as_network_takes, make_network, refusal_of_rows

    network = make_network(candidate, inputs).eval()
    floats = [inputs.n_features]
    for one in network.modules():
        if not list(one.children()):
            one.register_forward_hook(
                lambda _, __, outputs: floats.append(getattr(outputs, "numel", int)())
            )
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        try:
            network(as_network_takes(torch.zeros(1, inputs.n_features), inputs))
        except USER_ERRORS as error:
            raise refusal_of_rows(candidate, error) from None
    weights = sum(one.numel() for one in network.parameters())
    return weights, sum(floats), counter.get_total_flops() // 2


def n_weights(candidate: Candidate, inputs: Inputs) -> int:
    """Return numbers that are fitted in one network."""
    if module := _of_module(candidate, inputs):
        return module[0]
    return sum(math.prod(shape) for shape in weight_shapes(candidate, inputs).values())


def row_floats(candidate: Candidate, inputs: Inputs) -> int:
    """Return numbers that a step holds for one row of a batch."""
    if module := _of_module(candidate, inputs):
        return 2 * module[1]  # and the gradients by them
    shapes = weight_shapes(candidate, inputs)
    n_features, n_hidden = shapes["hidden.weight"]
    # The row, its hidden units and outputs, and the gradients by them.
    floats = inputs.n_features + 2 * n_hidden + 6 * inputs.n_classes + 1
    if candidate.network == "conv":
        n_channels, n_kernel = shapes["conv.weight"]
        n_positions = math.prod(inputs.positions(candidate.kernel_size))
        # Patches, features and their gradients, kernels by row with their gradients.
        floats += n_kernel * n_positions + 2 * n_features + 2 * n_channels * n_kernel
    return floats


def training_bytes(
    candidate: Candidate, inputs: Inputs, n_networks: int, batch_size: int, n_rows: int
) -> int:
    """Return the most bytes of a device that a stack's training takes.

    Weights and velocities, what a step holds, the scaled rows with their one-hot classes, an
    epoch's order, and the block of rows that is scored.
    """
    is_module = candidate.network not in BY_HAND
    # Weights and velocities; of a module their gradients, and Adam's second mean, too.
    own = (4 if is_module else 2) * FLOAT * n_weights(candidate, inputs)
    step = FLOAT * batch_size * row_floats(candidate, inputs)
    shared = FLOAT * n_rows * (inputs.n_features + inputs.n_classes)
    orders = 2 * 8 * n_rows
    scoring = max(SCORING_BYTES, FLOAT * row_floats(candidate, inputs))
    return n_networks * (own + step + orders) + shared + scoring


def scoring_rows(candidate: Candidate, inputs: Inputs) -> int:
    """Return rows that are scored at once."""
    return max(1, SCORING_BYTES // (FLOAT * row_floats(candidate, inputs)))


def predicted_cost(
    candidate: Candidate, inputs: Inputs, n_networks: int, batch_size: int, n_rows: int
) -> float:
    """Predict the seconds of training ``n_networks`` on ``n_rows`` rows each, on one core."""
    steps = math.ceil(n_rows / batch_size)
    if module := _of_module(candidate, inputs):
        of_a_step = 3 * PER_PRODUCT * module[2] * batch_size + PER_WEIGHT * module[0] + PER_STEP
        return EPOCHS * n_networks * steps * of_a_step
    shapes = weight_shapes(candidate, inputs)
    dense = math.prod(shapes["hidden.weight"]) + math.prod(shapes["output.weight"])
    products = 3 * dense  # forward, by the inputs, by the weights
    if candidate.network == "conv":
        n_positions = math.prod(inputs.positions(candidate.kernel_size))
        products += 2 * math.prod(shapes["conv.weight"]) * n_positions
    of_a_step = PER_PRODUCT * products * batch_size + PER_WEIGHT * dense + PER_STEP
    return EPOCHS * n_networks * steps * of_a_step
