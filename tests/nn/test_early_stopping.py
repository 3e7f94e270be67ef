"""Networks for tables: their steps against autograd and AdamW, and when they end."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pipelines.nn import early_stopping
from pipelines.nn.by_hand import first_weights
from pipelines.nn.early_stopping import _EpochRows, widen_weights
from pipelines.nn.networks import log_certainty, network_to_ask
from pipelines.nn.settings import PATIENCE, TABLE_DECAY, TABLE_SMOOTHING, TrainingSettings
from pipelines.nn.space import NetworkSpec
from pipelines.nn.stack import (
    DIVERGED,
    OK,
    DeviceRows,
    StackPart,
    place_rows,
    relative_scaling,
)

from .conftest import WINE
from .one_member import generators_of
from .test_train import train_parts

TABLE = NetworkSpec("table", 9, 0.03, 0.9)
CPU = torch.device("cpu")


def copied(slot, weights):
    return {name: array.numpy().copy() for name, array in weights.items()}


def parts_of(data, count=3):
    n, chosen = len(data.y), np.random.default_rng(0)
    parts = []
    for generator in generators_of(5, count):
        rows = chosen.integers(0, n, n)
        unseen = np.setdiff1d(np.arange(n), rows)
        parts.append(StackPart(rows, generator, relative_scaling(data, rows), unseen))
    return parts


def trained(data, parts, **settings):
    chosen = settings
    training = TrainingSettings.of("table", len(data.y), **chosen)
    return train_parts(
        TABLE, WINE, place_rows(data, WINE, TrainingSettings()), parts, training, copied
    )


@pytest.mark.parametrize("batch_size", [1000, 40])
def test_steps_are_those_of_autograd_and_adamw(wine, batch_size, monkeypatch):
    """Five epochs of each network alone, by the loss as one writes it."""
    monkeypatch.setattr(early_stopping, "LEAST_FALL", -math.inf)  # the last epoch is kept
    networks = trained(wine, parts_of(wine), batch_size=batch_size, max_epochs=5)
    rows, parts = place_rows(wine, WINE, TrainingSettings()), parts_of(wine)
    first = widen_weights(first_weights(TABLE, WINE, [part.generator for part in parts], CPU))
    epoch_rows = _EpochRows(rows, parts, batch_size)
    epochs = [list(epoch_rows.batches()) for _ in range(5)]
    network = network_to_ask(TABLE, WINE, CPU)
    for number, trained_network in enumerate(networks):
        w = {name: weights[number].clone().requires_grad_() for name, weights in first.items()}
        decays = [tensor for name, tensor in w.items() if name.endswith("weight")]
        biases = [tensor for name, tensor in w.items() if name.endswith("bias")]
        optimiser = torch.optim.AdamW(
            [{"params": decays}, {"params": biases, "weight_decay": 0.0}],
            lr=TABLE.learning_rate,
            betas=(0.9, 0.999),
            weight_decay=TABLE_DECAY,
        )
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 5 * epoch_rows.n_batches)
        for epoch, batches in enumerate(epochs):
            total = 0.0
            for batch in batches:
                outputs = log_certainty(network, w, batch.X[number], WINE)
                truth, weights = batch.targets[number].argmax(1), batch.drawn[number]
                plain = torch.nn.functional.nll_loss(outputs, truth, reduction="none")
                total += float((plain * weights).sum().detach())
                loss = torch.nn.functional.cross_entropy(
                    outputs, truth, reduction="none", label_smoothing=TABLE_SMOOTHING
                )
                optimiser.zero_grad()
                ((loss * weights).sum() * epoch_rows.n_batches).backward()
                optimiser.step()
                schedule.step()
            assert trained_network.losses[epoch] == pytest.approx(total, rel=1e-3)
        for name, tensor in w.items():
            np.testing.assert_allclose(
                trained_network.result[name], tensor.detach().numpy(), atol=2e-3
            )


def test_alone_and_together_give_the_same_network(wine):
    """Each ends by itself, whatever becomes of the others."""
    together = trained(wine, parts_of(wine))
    assert len({len(network.losses) for network in together}) > 1
    for number, network in enumerate(together):
        (alone,) = trained(wine, [parts_of(wine)[number]])
        assert len(alone.losses) == len(network.losses)
        for name, weights in alone.result.items():
            np.testing.assert_allclose(weights, network.result[name], atol=1e-3)


def test_training_ends_when_the_left_out_rows_gain_no_more(wine):
    """Rows left out whose classes are wrong: the more is learned, the worse for them."""
    data, parts = wine, parts_of(wine)
    rows = place_rows(data, WINE, TrainingSettings())
    wrong = DeviceRows(rows.X, rows.targets.clone())
    (part,) = parts[:1]
    unseen = torch.from_numpy(part.out_of_bag)
    wrong.targets[unseen] = wrong.targets[unseen].roll(1, 1)
    training = TrainingSettings.of("table", len(data.y))
    (misled,) = train_parts(TABLE, WINE, wrong, [part], training, copied)
    (led,) = train_parts(TABLE, WINE, rows, [parts_of(wine)[0]], training, copied)
    assert len(misled.losses) <= PATIENCE + 5
    assert len(led.losses) > 2 * PATIENCE


def test_without_left_out_rows_the_drawn_ones_decide(wine):
    n = len(wine.y)
    (generator,) = generators_of(0, 1)
    (network,) = trained(
        wine, [StackPart(np.arange(n), generator, None, np.empty(0, dtype=np.int64))]
    )
    assert network.status == OK
    assert network.losses[-1] < 0.1


def test_numbers_beyond_single_precision_are_told(wine):
    rows = place_rows(wine, WINE, TrainingSettings())
    wild = DeviceRows(torch.full_like(rows.X, math.inf), rows.targets)
    training = TrainingSettings.of("table", len(wine.y), max_epochs=2)
    (part,) = parts_of(wine)[:1]
    (network,) = train_parts(
        TABLE, WINE, wild, [StackPart(part.rows, part.generator)], training, copied
    )
    assert network.status == DIVERGED


@pytest.mark.parametrize(("n_rows", "epochs"), [(100, 200), (257, 100), (5000, 20)])
def test_the_schedule_follows_the_rows(n_rows, epochs):
    assert TrainingSettings.of("table", n_rows).max_epochs == epochs
    assert TrainingSettings.of("table", n_rows, max_epochs=7).max_epochs == 7
    assert TrainingSettings.of("conv", n_rows) == TrainingSettings()


def test_what_is_asked_of_a_table_changes_that_alone(wine):
    """Patience, decay and smoothing leave a network for tables what it is."""
    usual = trained(wine, parts_of(wine))
    assert TrainingSettings.of("table", 100, patience=PATIENCE) == TrainingSettings.of("table", 100)
    early = trained(wine, parts_of(wine), patience=2)
    assert all(
        len(network.losses) <= len(other.losses)
        for network, other in zip(early, usual, strict=True)
    )
    assert sum(len(network.losses) for network in early) < sum(
        len(network.losses) for network in usual
    )
    first = [network.losses[:2] for network in usual]
    assert [network.losses[:2] for network in early] == first
    assert [
        network.losses[:2] for network in trained(wine, parts_of(wine), weight_decay=5.0)
    ] != first
    assert [
        network.losses[:2] for network in trained(wine, parts_of(wine), label_smoothing=0.5)
    ] != first


def test_rows_are_judged_by_weights_that_they_did_not_stop(wine):
    """Wrong classes of every second row left out change only what judges the other ones."""
    data, (part,) = wine, parts_of(wine, 1)
    rows = place_rows(data, WINE, TrainingSettings())
    wrong = DeviceRows(rows.X, rows.targets.clone())
    even = torch.from_numpy(part.out_of_bag[::2])
    wrong.targets[even] = wrong.targets[even].roll(1, 1)
    training = TrainingSettings.of("table", len(data.y))
    crossed = []
    for placed in (rows, wrong):
        (network,) = train_parts(TABLE, WINE, placed, parts_of(wine, 1), training, copied)
        crossed.append([copied(0, weights) for weights in network.crossed])
    of_even, of_odd = (
        [np.array_equal(before[name], after[name]) for name in before]
        for before, after in zip(*crossed, strict=True)
    )
    assert all(of_even)
    assert not any(of_odd)


def test_first_weights_fill_the_bounds_of_glorot_and_bengio():
    first = widen_weights(first_weights(TABLE, WINE, generators_of(0, 40), CPU))
    for layer, n_inputs, n_outputs in (("hidden", 13, 9), ("output", 9, 3)):
        for kind in ("weight", "bias"):
            bound = math.sqrt(6 / (n_inputs + n_outputs))
            drawn = first[f"{layer}.{kind}"].abs().max()
            assert 0.97 * bound < drawn <= bound * (1 + 1e-6)
