"""Networks that predict a number: gradients, losses and scales of each kind of training."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from pipelines.nn import early_stopping
from pipelines.nn.by_hand import StackedWeights, first_weights
from pipelines.nn.early_stopping import _EpochRows, widen_weights
from pipelines.nn.inputs import Inputs
from pipelines.nn.networks import network_to_ask, outputs_of
from pipelines.nn.settings import TABLE_DECAY, TrainingSettings
from pipelines.nn.space import NetworkSpec
from pipelines.nn.stack import (
    StackPart,
    TrainedNetwork,
    fit_target_scaling,
    place_stack,
)
from pipelines.nn.train import train_stack
from tests.nn.one_member import generators_of, without_progress

CPU = torch.device("cpu")
IMAGES, TABLE_ROWS = Inputs(64, 0, (8, 8)), Inputs(64, 0)
CONV = NetworkSpec("conv", 11, 0.01, 0.7, n_conv_layer=3, kernel_size=3)
MLP = NetworkSpec("mlp", 9, 0.01, 0.5)
TABLE = NetworkSpec("table", 9, 0.03, 0.9)
UNITS, OFFSET = 1e5, 3e7


@pytest.fixture(scope="module")
def ink(digits):
    """How much ink there is in images, in large units far from 0."""
    y = digits.X.sum(axis=1) * UNITS + OFFSET
    return replace(digits, y=y.astype(np.float64), X_test=digits.X[:0], y_test=y[:0])


def stack_of(data, spec, inputs, count=3):
    n, chosen, by_size = len(data.y), np.random.default_rng(0), np.argsort(data.y)
    parts = []
    for number, generator in enumerate(generators_of(5, count)):
        rows = by_size[chosen.integers(0, n - 80 * number, n - 7 * number)]  # fewer large targets
        left_out = np.setdiff1d(np.arange(n), rows)
        parts.append(StackPart(rows, generator, out_of_bag=left_out, spec=spec))
    training = TrainingSettings(optimizer="adamw" if ":" in spec.network else None)
    return place_stack(data, parts, inputs, training, n - 14)


def trained_of(stack, training):
    return without_progress(train_stack(stack, training, copied))


def copied(slot, weights):
    return {name: array.numpy().copy() for name, array in weights.items()}


def loss_of(network, weights, X, y, inputs):
    """Half the squared error of each row, as torch has it."""
    outputs = outputs_of(network, weights, X, inputs)
    return torch.nn.functional.mse_loss(outputs, y, reduction="none")[:, 0] / 2


def own_targets(data, stack, slot):
    """All targets in the deviations of the rows of one network, by numpy."""
    drawn = data.y[stack.parts[slot].rows]
    return torch.from_numpy(((data.y - drawn.mean()) / drawn.std())[:, None]).float()


@pytest.mark.parametrize(("spec", "inputs"), [(CONV, IMAGES), (MLP, TABLE_ROWS)])
def test_gradients_are_those_of_autograd(ink, spec, inputs):
    stack = stack_of(ink, spec, inputs)
    weights = StackedWeights(stack)
    batch = torch.from_numpy(np.random.default_rng(3).integers(0, 300, (3, 10)))
    network = network_to_ask(spec, inputs, CPU)
    expected = []
    for slot in range(3):
        slot_weights = {n: w[slot].clone().requires_grad_() for n, w in weights.weights.items()}
        X, y = stack.rows.X[batch[slot]], own_targets(ink, stack, slot)[batch[slot]]
        loss = loss_of(network, slot_weights, X, y, inputs).mean()
        loss.backward()
        expected.append((loss.item(), {name: array.grad for name, array in slot_weights.items()}))
    weights.step(batch)
    for slot, (loss, gradients) in enumerate(expected):
        assert weights.loss[slot].item() == pytest.approx(10 * loss, rel=1e-4)
        for name, gradient in gradients.items():  # velocities begin at nothing
            np.testing.assert_allclose(weights.velocities[name][slot], gradient, atol=2e-5)


@pytest.mark.parametrize("batch_size", [1000, 40])
def test_a_tables_steps_are_those_of_autograd_and_adamw(ink, batch_size, monkeypatch):
    monkeypatch.setattr(early_stopping, "REGRESSION_FALL", -math.inf)  # the last epoch is kept
    training = TrainingSettings.of(
        "table", 303, batch_size=batch_size, max_epochs=4, is_regression=True
    )
    trained = trained_of(stack_of(ink, TABLE, TABLE_ROWS), training)
    stack = stack_of(ink, TABLE, TABLE_ROWS)
    generators = [part.generator for part in stack.parts]
    first = widen_weights(first_weights(TABLE, TABLE_ROWS, generators, CPU))
    epoch_rows = _EpochRows(stack.rows, stack.parts, batch_size)
    epochs = [list(epoch_rows.batches()) for _ in range(4)]
    network = network_to_ask(TABLE, TABLE_ROWS, CPU)
    for number, member in enumerate(trained):
        w = {name: array[number].clone().requires_grad_() for name, array in first.items()}
        groups = [
            {"params": [w[name] for name in w if name.endswith(end)], "weight_decay": decay}
            for end, decay in (("weight", TABLE_DECAY), ("bias", 0.0))
        ]
        optimizer = torch.optim.AdamW(groups, lr=TABLE.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4 * epoch_rows.n_batches)
        for epoch, batches in enumerate(epochs):
            total = 0.0
            for batch in batches:
                X, y = batch.X[number], batch.targets[number]
                loss = (loss_of(network, w, X, y, TABLE_ROWS) * batch.drawn[number]).sum()
                total += float(loss.detach())
                optimizer.zero_grad()
                (loss * epoch_rows.n_batches).backward()
                optimizer.step()
                schedule.step()
            assert member.losses[epoch] == pytest.approx(total, rel=1e-3)
        for name, array in w.items():
            np.testing.assert_allclose(member.result[name], array.detach(), atol=2e-3)


class Narrow(torch.nn.Module):
    """A module of the user's own."""

    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.hidden = torch.nn.Linear(n_features, 16)
        self.output = torch.nn.Linear(16, n_outputs)

    def forward(self, X):
        return self.output(self.hidden(X).relu())


MODULE = NetworkSpec("tests:Narrow", 0, 0.01, 0.9)
OF_MODULE = replace(TABLE_ROWS, module=Narrow)


@pytest.mark.parametrize(
    ("spec", "inputs", "training"),
    [
        (MLP, TABLE_ROWS, TrainingSettings(max_epochs=15, least_fall=0.02)),
        (TABLE, TABLE_ROWS, TrainingSettings.of("table", 303, is_regression=True, max_epochs=200)),
        (MODULE, OF_MODULE, TrainingSettings.of("x:Y", 303, optimizer="adamw", max_epochs=12)),
    ],
)
def test_alone_and_together_give_the_same_network(ink, spec, inputs, training):
    """Each ends by itself, on targets in deviations of its own."""
    together = trained_of(stack_of(ink, spec, inputs), training)
    if spec is MLP:
        assert len({len(member.losses) for member in together}) > 1
    for slot, member in enumerate(together):
        stack = stack_of(ink, spec, inputs)
        alone: TrainedNetwork[dict[str, np.ndarray]]
        (alone,) = trained_of(replace(stack, parts=[stack.parts[slot]]), training)
        assert alone.losses == pytest.approx(member.losses, rel=5e-3)
        assert min(member.losses) < 0.5  # that of the mean
        for name, array in alone.result.items():
            np.testing.assert_allclose(array, member.result[name], atol=3e-3)


def test_a_score_is_half_the_squared_error_in_own_deviations(ink):
    stack = stack_of(ink, MLP, TABLE_ROWS)
    first = first_weights(MLP, TABLE_ROWS, [part.generator for part in stack.parts], CPU)
    rows = np.arange(50, 90)
    network = network_to_ask(MLP, TABLE_ROWS, CPU)
    for slot in range(3):
        weights = {name: array[slot] for name, array in first.items()}
        y = own_targets(ink, stack, slot)[rows]
        expected = loss_of(network, weights, stack.rows.X[rows], y, TABLE_ROWS).mean().item()
        score = stack.score(slot, rows, weights)
        assert score.loss == pytest.approx(expected, rel=1e-4)
        assert score.n_errors is None
        assert score.n_rows == 40


def test_targets_of_other_rows_change_nothing(ink):
    """Of rows that a network neither drew nor ends by, which a fold holds out."""
    apart = np.arange(200, 303)
    other = ink.y.copy()
    other[apart] *= 40
    networks = []
    for y in (ink.y, other):
        data = replace(ink, y=y)
        rows, left_out = np.random.default_rng(0).integers(0, 150, 150), np.arange(150, 200)
        part = StackPart(rows, *generators_of(1, 1), out_of_bag=left_out, spec=TABLE)
        training = TrainingSettings.of("table", 150, is_regression=True, max_epochs=10)
        networks += trained_of(place_stack(data, [part], TABLE_ROWS, training, 150), training)
    assert networks[0].losses == pytest.approx(networks[1].losses, rel=1e-3)


def test_scales_of_targets():
    y = np.array([1.0, 1.0, 3.0, 7.0])
    whole = fit_target_scaling(y)
    assert (whole.center, whole.scale) == (3.0, pytest.approx(math.sqrt(6)))
    part = fit_target_scaling(y, np.array([2, 3, 3]))
    assert part.center == pytest.approx(17 / 3)
    assert part.scale == pytest.approx(np.std([3, 7, 7]))
    equal = fit_target_scaling(y, np.array([0, 1, 0]))
    assert (equal.center, equal.scale) == (1.0, whole.scale)
    for value in (0.0, -4e8):
        constant = fit_target_scaling(np.full(5, value))
        assert constant.center == value
        assert 0 < constant.scale <= 1e-7
        assert value + 3 * constant.scale == pytest.approx(value, rel=1e-15, abs=1e-300)


def test_a_regression_is_longer_at_it():
    assert TrainingSettings.of("table", 100).max_epochs == 200
    assert TrainingSettings.of("table", 100, is_regression=True).max_epochs == 1000
    assert TrainingSettings.of("table", 100_000, is_regression=True).max_epochs == 20
    assert TrainingSettings.of("mlp", 100, is_regression=True).least_fall == 0.02
    assert TrainingSettings.of("mlp", 100).least_fall == 0.2
