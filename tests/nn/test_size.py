"""Predicted bytes and time, beside what a stack really holds and what it takes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipelines.nn.by_hand import StackedWeights
from pipelines.nn.inputs import Inputs, weight_shapes
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.size import (
    SCORING_BYTES,
    predicted_training_seconds,
    scoring_rows,
    size_of,
    training_bytes,
)
from pipelines.nn.space import NetworkSpec
from pipelines.nn.stack import Stack, StackPart, place_rows

from .conftest import DIGITS
from .one_member import generators_of

MNIST = Inputs(784, 10, (28, 28))
CONV = NetworkSpec("conv", 40, 0.05, 0.7, n_conv_layer=30, kernel_size=3)
MLP = NetworkSpec("mlp", 90, 0.05, 0.5)
WIDE = NetworkSpec("conv", 600, 0.02, 0.1, n_conv_layer=200, kernel_size=3)


@pytest.mark.parametrize("spec", [CONV, MLP, WIDE])
@pytest.mark.parametrize("batch_size", [10, 128])
def test_a_stack_holds_no_more_than_predicted(digits, spec, batch_size):
    rows = place_rows(digits, DIGITS, TrainingSettings())
    parts = [StackPart(np.arange(200), generator) for generator in generators_of(0, 5)]
    batch = torch.zeros(5, batch_size, dtype=torch.int64)
    cpu = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[cpu], profile_memory=True) as profiled:
        stack = StackedWeights(Stack(spec, DIGITS, rows, parts))
        stack.step(batch)
        stack.step(batch)
    events = profiled.profiler.kineto_results.events()  # in the order in which they happened
    changes = [event.nbytes() for event in events if event.name() == "[memory]"]
    highest = np.cumsum(changes).max()
    predicted = training_bytes(spec, DIGITS, 5, batch_size, len(digits.y))
    predicted -= SCORING_BYTES + rows.X.nbytes + rows.targets.nbytes
    # Half of it would be a stack without its velocities: so much the profiler must have seen.
    assert predicted / 2 < highest <= predicted


def test_the_studys_largest_candidate():
    largest = NetworkSpec("conv", 1999, 0.1, 0.1, n_conv_layer=999, kernel_size=2)
    expected = 999 * 5 + (999 * 27 * 27 + 1) * 1999 + 2000 * 10
    assert size_of(largest, MNIST).weights == expected
    gib = training_bytes(largest, MNIST, 5, 10, 60_000) / 2**30
    assert 54 < gib < 64  # weights and velocities


def test_rows_scored_at_once_keep_to_their_share():
    wide = NetworkSpec("conv", 1999, 0.1, 0.1, n_conv_layer=999, kernel_size=10)
    for spec in (wide, CONV, MLP):
        count = scoring_rows(spec, MNIST)
        assert count >= 1
        width = weight_shapes(spec, MNIST)["hidden.weight"][0]
        assert count * width * 4 <= SCORING_BYTES


def test_costs_follow_what_was_measured():
    """Microseconds of a step of one network of a stack of five, MNIST, one core of an EPYC."""
    measured = {(4, 4, 32): 139, (4, 6, 48): 208, (6, 5, 64): 326, (8, 5, 96): 670}
    predicted = [
        predicted_training_seconds(
            NetworkSpec("conv", hidden, 0.1, 0.1, channels, kernel), MNIST, 5, 10, 1000
        )
        for channels, kernel, hidden in measured
    ]
    ratios = np.array(predicted) / np.array(list(measured.values()))
    assert ratios.max() / ratios.min() < 1.3
