"""Modules: trained as by a plain loop, side by side as alone, and of any kind."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pipelines.errors import InputError
from pipelines.nn.inputs import Inputs
from pipelines.nn.modules import MOST_TOGETHER, WARM_UP, seed_from, vmap_can
from pipelines.nn.networks import as_network_takes, describe_network, make_network
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.space import NetworkSpec
from pipelines.nn.stack import Stack, StackPart, place_rows
from pipelines.nn.train import train_stack

from .conftest import DIGITS, WINE
from .one_member import generators_of, refitted, rows_of_folds, without_progress

CNN = NetworkSpec("cnn", 0, 0.05, 0.9, n_conv_layer=4)
MODULE = TrainingSettings.of("cnn", 191)
COLOURED = Inputs(3 * 32 * 32, 5, (3, 32, 32))


class Mine(nn.Module):
    """A user's network, with dropout."""

    def __init__(self, n_features, n_classes, n_hidden_layer=8):
        super().__init__()
        self.hidden, self.output = (
            nn.Linear(n_features, n_hidden_layer),
            nn.Linear(n_hidden_layer, n_classes),
        )
        self.dropout = nn.Dropout(0.1)

    def forward(self, X):
        return self.output(self.dropout(self.hidden(X.flatten(1)).relu()))


class Assigning(nn.Module):
    """One that assigns its buffer anew at each step, as moving averages are often written."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.output = nn.Linear(n_features, n_classes)
        self.register_buffer("n_rows", torch.zeros(()))

    def forward(self, X):
        if self.training:
            self.n_rows = self.n_rows + len(X)
        return self.output(X.flatten(1))


class Branching(nn.Module):
    """One that vmap cannot call: what it does depends on the numbers."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.output = nn.Linear(n_features, n_classes)

    def forward(self, X):
        outputs = self.output(X.flatten(1))
        return outputs if outputs.sum().item() > 0 else outputs * 1.0


def copied(slot, weights):
    return {name: array.numpy().copy() for name, array in weights.items()}


def stack_of(data, spec, slots=slice(None)):
    chosen = np.random.default_rng(0)
    parts = [
        StackPart(
            chosen.integers(0, len(data.y), size),
            generator,
            data.scaling_for(None),
            np.arange(0, 300, 7),
        )
        for size, generator in zip((200, 203, 191), generators_of(5, 3), strict=True)
    ]
    rows = place_rows(data, DIGITS, MODULE)
    return Stack(spec, DIGITS, rows, parts[slots], n_rows=191)


def trained(
    data,
    training,
    slots=slice(None),
    spec=CNN,
):
    return without_progress(train_stack(stack_of(data, spec, slots), training, copied))


def fold_by_fold(stack, training):
    """Train each network of a stack by a plain loop; the mean loss of each epoch of each."""
    spec, rows = stack.spec, stack.rows
    size = min(training.batch_size, stack.n_rows)
    n_rows = stack.n_rows // size * size
    losses = []
    for part in stack.parts:
        network = make_network(spec, stack.inputs, seed_from(part.generator)).train()
        seed_from(part.generator), seed_from(part.generator)  # of draws and augmentation
        images = as_network_takes(part.scaled(rows.X.clone()), stack.inputs)
        dataset = TensorDataset(images, rows.targets.argmax(1))
        groups = [
            {
                "params": [
                    parameter
                    for parameter in network.parameters()
                    if (parameter.ndim > 1) is decays
                ],
                "weight_decay": training.weight_decay * decays,
            }
            for decays in (True, False)
        ]
        optimizer = torch.optim.SGD(groups, spec.learning_rate, spec.momentum, nesterov=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            spec.learning_rate,
            pct_start=WARM_UP,
            cycle_momentum=False,
            total_steps=n_rows // size * training.max_epochs + 1,
        )
        criterion = nn.CrossEntropyLoss(label_smoothing=training.label_smoothing)
        losses.append([])
        for _ in range(training.max_epochs):
            order = part.generator.permutation(part.rows)[:n_rows]
            total = 0.0
            for X, y in DataLoader(dataset, batch_size=size, sampler=order.tolist()):
                optimizer.zero_grad()
                loss = criterion(network(X), y)
                loss.backward()
                optimizer.step()
                schedule.step()
                total += loss.item()
            losses[-1].append(total / (n_rows // size))
    return losses


@pytest.mark.parametrize("batch_size", [16, 128])
def test_folds_train_as_by_a_plain_loop(digits, batch_size):
    """By DataLoader, SGD and OneCycleLR; a CPU takes the larger batches one network at a time."""
    training = TrainingSettings.of("cnn", 191, batch_size=batch_size, max_epochs=3)
    spec = replace(CNN, learning_rate=0.01)
    plain = fold_by_fold(stack_of(digits, spec), training)
    for network, losses in zip(trained(digits, training, spec=spec), plain, strict=True):
        assert network.losses == pytest.approx(losses, rel=2e-3)
        assert network.status == "ok"


@pytest.mark.parametrize("augment", ["none", "digits", "trivialaugment"])
@pytest.mark.parametrize("spec", [CNN, NetworkSpec("mlp", 8, 0.05, 0.9)])
def test_side_by_side_and_alone_give_the_same(digits, augment, spec):
    """Of convolutions in groups of channels, of dense layers by vmap."""
    training = TrainingSettings.of("cnn", 191, batch_size=32, max_epochs=2, augment=augment)
    together = trained(digits, training, spec=spec)
    for slot, network in enumerate(together):
        (alone,) = trained(digits, training, slice(slot, slot + 1), spec)
        assert network.losses == pytest.approx(alone.losses, rel=2e-3)
        assert network.result.keys() == alone.result.keys()
    again = trained(digits, training, spec=spec)
    for network, same in zip(together, again, strict=True):
        for name, weights in network.result.items():
            np.testing.assert_array_equal(weights, same.result[name])
    if augment != "none":
        plain = trained(digits, replace(training, augment="none"), spec=spec)
        assert plain[0].losses != together[0].losses


@pytest.mark.parametrize("together", [True, False])
def test_buffers_that_a_module_assigns_are_those_of_its_last_step(digits, together):
    spec = NetworkSpec("tests.nn.test_modules:Assigning", 0, 0.05, 0.9)
    training = replace(MODULE, max_epochs=2, batch_size=16)
    stack = stack_of(digits, spec, slice(None) if together else slice(1))
    networks = without_progress(train_stack(stack, training, copied))
    assert vmap_can(make_network(spec, DIGITS), DIGITS)
    assert [float(network.result["n_rows"]) for network in networks] == [2 * 11 * 16] * len(
        networks
    )


@pytest.mark.parametrize("optimizer", ["sgd", pytest.param("adamw", marks=pytest.mark.slow)])
def test_networks_side_by_side_have_rates_of_their_own(digits, optimizer):
    training = TrainingSettings.of("cnn", 191, batch_size=32, max_epochs=2, optimizer=optimizer)
    rate = CNN.learning_rate / (1 if optimizer == "sgd" else 30)
    specs = [
        replace(CNN, learning_rate=rate / factor, momentum=1 - factor / 10) for factor in (1, 2, 5)
    ]
    stack = stack_of(digits, CNN)
    stack.parts[:] = [
        replace(part, spec=spec) for part, spec in zip(stack.parts, specs, strict=True)
    ]
    for slot, network in enumerate(without_progress(train_stack(stack, training, copied))):
        (alone,) = trained(digits, training, slice(slot, slot + 1), specs[slot])
        assert network.losses == pytest.approx(alone.losses, rel=2e-3)


def test_the_best_epoch_on_rows_left_out_is_kept(digits):
    """At a rate that spoils what was learned."""
    spec = replace(CNN, learning_rate=0.2, momentum=0.99)
    training = TrainingSettings.of(
        "cnn", 191, batch_size=32, max_epochs=12, patience=2, schedule="none"
    )
    patient = replace(training, patience=None)
    stack = stack_of(digits, spec)
    scores = {}
    for name, settings in (("stopped", training), ("whole", patient)):
        training = train_stack(
            stack_of(digits, spec),
            settings,
            lambda slot, weights: stack.score(slot, np.arange(0, 300, 7), weights).loss,
        )
        scores[name] = without_progress(training)
    assert min(len(network.losses) for network in scores["stopped"]) < 12
    for stopped, whole in zip(scores["stopped"], scores["whole"], strict=True):
        assert stopped.result <= whole.result
        assert stopped.losses == pytest.approx(whole.losses[: len(stopped.losses)], rel=1e-3)


def test_a_loss_that_is_no_number_is_told(digits):
    spec = replace(CNN, learning_rate=1e30)
    training = TrainingSettings.of("cnn", 191, batch_size=32, max_epochs=2, schedule="none")
    assert {network.status for network in trained(digits, training, spec=spec)} == {"diverged"}


@pytest.mark.slow
def test_folds_and_refit_of_a_module(digits):
    training = TrainingSettings.of("cnn", len(digits.y), batch_size=16, augment="digits")
    rows = rows_of_folds(digits, CNN, DIGITS, training)
    assert [row["status"] for row in rows] == ["ok"] * 3
    assert np.mean([row["error"] for row in rows]) < 0.2
    _, done = refitted(digits, CNN, DIGITS, training)
    np.testing.assert_array_equal(done.test.outputs, done.member.predict_proba(digits.X_test))
    assert (done.test.outputs.argmax(axis=1) != digits.y_test).mean() < 0.15


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        ("mlp", "sgd"),
        (f"{__name__}:Branching", "adamw"),
        *(
            pytest.param(f"{__name__}:{name}", optimizer, marks=pytest.mark.slow)
            for name, optimizer in [("Mine", "sgd"), ("Mine", "adamw"), ("Branching", "sgd")]
        ),
    ],
)
def test_a_table(wine, name, optimizer):
    rate = 0.05 if optimizer == "sgd" else 0.01
    spec = NetworkSpec(name, 16, rate, 0.9)
    training = TrainingSettings.of(
        name, len(wine.y), batch_size=16, optimizer=optimizer, schedule="cosine", max_epochs=40
    )
    rows = rows_of_folds(wine, spec, WINE, training)
    assert [row["status"] for row in rows] == ["ok"] * 3
    assert np.mean([row["error"] for row in rows]) < 0.12
    assert rows[0]["loss"] == rows_of_folds(wine, spec, WINE, training)[0]["loss"]


def test_a_network_is_described_before_it_is_trained():
    assert describe_network(CNN, DIGITS) == ["network    cnn: 1,030 weights"]
    fixed = replace(WINE, module=nn.Linear(13, 4))
    with pytest.raises(InputError, match=r"each of 3 classes.*gives \(2, 4\)"):
        describe_network(NetworkSpec("x:Linear", 0, 0.1, 0.9), fixed)
    with pytest.raises(InputError, match="must take rows of this data set"):
        describe_network(
            NetworkSpec("x:Linear", 0, 0.1, 0.9), replace(fixed, module=nn.Linear(7, 3))
        )


@pytest.mark.parametrize(
    ("name", "inputs", "can"),
    [
        ("cnn", DIGITS, True),
        ("mlp", WINE, True),
        (f"{__name__}:Mine", WINE, False),
        (f"{__name__}:Branching", WINE, False),
    ],
)
def test_what_vmap_can_train_side_by_side(name, inputs, can):
    """Not what draws random numbers, nor what branches on its numbers."""
    assert vmap_can(make_network(NetworkSpec(name, 4, 0.1, 0.9, 4), inputs), inputs) is can


def test_networks_of_torchvision():
    pytest.importorskip("torchvision")
    for inputs in (COLOURED, Inputs(32 * 32, 5, (32, 32))):
        network = make_network(NetworkSpec("resnet18", 0, 0.1, 0.9), inputs)
        assert vmap_can(network, inputs)
        images = torch.zeros(2, *COLOURED.image_shape)[:, : len(inputs.image_shape or ()) * 2 - 3]
        assert network(images).shape == (2, 5)
    with pytest.raises(InputError, match=r"torchvision.models.*did you mean 'resnet18'"):
        make_network(NetworkSpec("resnet81", 0, 0.1, 0.9), COLOURED)
    with pytest.raises(InputError, match="needs images"):
        make_network(NetworkSpec("resnet18", 0, 0.1, 0.9), WINE)


def test_members_of_a_module_have_first_weights_of_their_own():
    mine = Mine(13, 3)
    inputs = replace(WINE, module=mine)
    first, same, other = (
        make_network(NetworkSpec("Mine", 0, 0.1, 0.9), inputs, seed).output.weight
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert not torch.equal(first, mine.output.weight)
    hidden = make_network(NetworkSpec("Mine", 5, 0.1, 0.9), replace(WINE, module=Mine)).hidden
    assert hidden.out_features == 5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.such.module:Net", "can be imported, got 'no.such.module:Net'"),
        (f"{__name__}:nothing", "can be imported"),
        (f"{__name__}:copied", "a module that can be made.*TypeError"),
        (f"{__name__}:copy", "a module that can be made"),
    ],
)
def test_a_module_that_cannot_be_made_is_one_line(name, message):
    assert copy
    with pytest.raises(InputError, match=message) as refused:
        make_network(NetworkSpec(name, 0, 0.1, 0.9), WINE)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_the_study_s_networks_are_trained_by_torch_where_they_are_asked_to(
    digits,
):
    spec = NetworkSpec("conv", 32, 0.05, 0.9, 4, 3)
    training = TrainingSettings.of("conv", len(digits.y), augment="digits", batch_size=16)
    assert training.optimizer == "sgd"
    rows = rows_of_folds(digits, spec, DIGITS, training)
    assert np.mean([row["error"] for row in rows]) < 0.25
    assert MOST_TOGETHER >= 16
    assert place_rows(digits, DIGITS, TrainingSettings()).X.dtype == torch.float32
