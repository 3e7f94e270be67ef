"""Training of stacks: against autograd, against torch's optimiser, and alone against stacked."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from benchmarks.bagging.plain import Net, train_plainly
from pipelines.data.fits import Progress
from pipelines.nn.by_hand import StackedWeights, epoch_order, first_weights
from pipelines.nn.inputs import Inputs
from pipelines.nn.networks import log_certainty, network_to_ask
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.space import NetworkSpec
from pipelines.nn.stack import (
    DeviceRows,
    Stack,
    StackPart,
    place_rows,
    relative_scaling,
)
from pipelines.nn.train import train_stack

from .conftest import DIGITS, WINE
from .one_member import generators_of, without_progress

CONV = NetworkSpec("conv", 11, 0.05, 0.7, n_conv_layer=3, kernel_size=3)
LARGEST_KERNEL = NetworkSpec("conv", 6, 0.05, 0.3, n_conv_layer=4, kernel_size=8)
MLP = NetworkSpec("mlp", 9, 0.05, 0.5)
CASES = pytest.mark.parametrize("spec", [CONV, LARGEST_KERNEL, MLP])


def copied(slot, weights):
    return {name: array.numpy().copy() for name, array in weights.items()}


def train_parts(spec, inputs, rows, parts, training, collect):
    return without_progress(train_stack(Stack(spec, inputs, rows, parts), training, collect))


def gradient(parameter):
    assert parameter.grad is not None
    return parameter.grad


def parts_of(n_rows, seed=5, sizes=(200, 203, 191)):
    """Networks whose rows differ in number, so that their last batches do, too."""
    generators = generators_of(seed, len(sizes))
    chosen = np.random.default_rng(0)
    return [
        StackPart(chosen.integers(0, n_rows, size), generator)
        for size, generator in zip(sizes, generators, strict=True)
    ]


def assert_close(arrays, expected, tolerance=2e-5):
    assert list(arrays) == list(expected)
    for name in arrays:
        np.testing.assert_allclose(
            np.asarray(arrays[name]), np.asarray(expected[name]), rtol=0, atol=tolerance
        )


@CASES
def test_gradients_are_those_of_autograd(digits, spec):
    rows = place_rows(digits, DIGITS, TrainingSettings())
    stack = StackedWeights(Stack(spec, DIGITS, rows, parts_of(len(digits.y))))
    batch = torch.from_numpy(np.random.default_rng(3).integers(0, 300, (3, 10)))
    nets = []
    for slot in range(3):
        net = Net(spec, DIGITS)
        net.put({name: array[slot] for name, array in stack.weights.items()})
        target = rows.targets[batch[slot]].argmax(1)
        loss = torch.nn.functional.cross_entropy(net(rows.X[batch[slot]]), target)
        loss.backward()
        nets.append((net, loss.item()))
    stack.step(batch)
    for slot, (net, loss) in enumerate(nets):
        # Velocities begin at nothing, so that after one step they are the gradients.
        velocities = {name: array[slot] for name, array in stack.velocities.items()}
        assert_close(velocities, net.ours(gradient), 1e-6)
        assert stack.loss[slot].item() == pytest.approx(10 * loss, rel=1e-5)


@CASES
def test_a_stack_trains_as_torch_does(digits, spec):
    training = TrainingSettings(max_epochs=3, least_fall=-math.inf)  # all three epochs
    rows, parts = place_rows(digits, DIGITS, TrainingSettings()), parts_of(len(digits.y))
    trained = train_parts(spec, DIGITS, rows, parts, training, copied)
    pairs = torch.utils.data.TensorDataset(rows.X, torch.from_numpy(digits.y.astype(np.int64)))
    for part, generator, network in zip(parts, generators_of(5, 3), trained, strict=True):
        weights = first_weights(spec, DIGITS, [generator], torch.device("cpu"))
        net = Net(spec, DIGITS)
        net.put({name: first[0] for name, first in weights.items()})
        losses = train_plainly(
            net,
            pairs,
            lambda rows=part.rows, generator=generator: epoch_order(rows, generator),
            spec,
            batch_size=training.batch_size,
            max_epochs=3,
            least_fall=-math.inf,
        )
        assert network.losses == pytest.approx(losses, rel=1e-4)
        assert_close(network.result, net.ours(), 1e-4)


def test_the_share_of_epochs_is_told(digits):
    training = TrainingSettings(max_epochs=6, least_fall=0.2)
    rows, parts = place_rows(digits, DIGITS, TrainingSettings()), parts_of(len(digits.y))
    items = list(train_stack(Stack(CONV, DIGITS, rows, parts), training, copied))
    shares = [item.fraction for item in items if isinstance(item, Progress)]
    trained = without_progress(items)
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert len(set(shares)) >= max(len(network.losses) for network in trained)
    assert 0.5 < shares[-1] < 1  # what ends early is done with


@CASES
def test_stacked_and_alone_give_the_same_weights(digits, spec):
    """Each ends by itself, some of them while the others go on."""
    training = TrainingSettings(max_epochs=9, least_fall=0.2)
    rows = place_rows(digits, DIGITS, TrainingSettings())
    stacked = train_parts(spec, DIGITS, rows, parts_of(len(digits.y)), training, copied)
    alone = []
    for slot in range(3):
        part = parts_of(len(digits.y))[slot]
        alone += train_parts(spec, DIGITS, rows, [part], training, copied)
    for network, other in zip(stacked, alone, strict=True):
        assert len(network.losses) == len(other.losses)
        assert network.losses == pytest.approx(other.losses, rel=1e-4)
        assert_close(network.result, other.result)


def test_networks_end_by_themselves(digits):
    """Of a stack that ends at different epochs: the rule holds for each, and the weights stay."""
    training = TrainingSettings(max_epochs=12, least_fall=0.2)
    rows = place_rows(digits, DIGITS, TrainingSettings())
    parts = parts_of(len(digits.y), sizes=(300, 20, 160, 40))
    trained = train_parts(CONV, DIGITS, rows, parts, training, copied)
    assert len({len(network.losses) for network in trained}) > 1
    for network in trained:
        falls = 1 - np.array(network.losses[1:]) / np.array(network.losses[:-1])
        assert (falls[:-1] > 0.2).all()
        assert len(network.losses) == 12 or falls[-1] <= 0.2


def test_a_loss_that_is_no_number_ends_one_network_alone(digits):
    rows = place_rows(digits, DIGITS, TrainingSettings())
    X = rows.X.clone()
    X[7] = math.nan
    with_seven, without = np.r_[np.arange(60), 7], np.arange(10, 70)
    parts = [
        StackPart(drawn_rows, generator)
        for drawn_rows, generator in zip((with_seven, without), generators_of(0, 2), strict=True)
    ]
    spoilt, sound = train_parts(
        CONV, DIGITS, DeviceRows(X, rows.targets), parts, TrainingSettings(max_epochs=2), copied
    )
    assert spoilt.status == "diverged"
    assert len(spoilt.losses) == 1
    assert sound.status == "ok"
    assert all(np.isfinite(array).all() for array in sound.result.values())


def test_a_table_is_standardised_on_each_networks_own_rows(wine):
    spec, training = NetworkSpec("mlp", 8, 0.1, 0.5), TrainingSettings(max_epochs=3)
    whole = place_rows(wine, WINE, TrainingSettings())
    chosen = [np.arange(0, 60), np.arange(25, 89)]
    parts = [
        StackPart(drawn_rows, generator, relative_scaling(wine, drawn_rows))
        for drawn_rows, generator in zip(chosen, generators_of(0, 2), strict=True)
    ]
    trained = train_parts(spec, WINE, whole, parts, training, copied)
    for drawn_rows, generator, network in zip(chosen, generators_of(0, 2), trained, strict=True):
        # The same on rows that know nothing of those left out.
        X = wine.scaling.fit(wine.X[drawn_rows]).transform(wine.X).astype(np.float32)
        rows = DeviceRows(torch.from_numpy(X), whole.targets)
        (alone,) = train_parts(
            spec, WINE, rows, [StackPart(drawn_rows, generator)], training, copied
        )
        assert_close(network.result, alone.result)


def test_first_weights_lie_within_the_bounds_of_torch():
    inputs = Inputs(28 * 28, 10, (28, 28))
    spec = NetworkSpec("conv", 200, 0.1, 0.1, n_conv_layer=16, kernel_size=6)
    ours = first_weights(spec, inputs, generators_of(0, 1), torch.device("cpu"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        theirs = Net(spec, inputs).ours()
    for name, array in theirs.items():
        assert ours[name][0].shape == array.shape
        bound = array.abs().max().item()
        assert ours[name].abs().max().item() == pytest.approx(bound, rel=0.35)
    spread = ours["hidden.weight"].std().item()
    assert spread == pytest.approx(theirs["hidden.weight"].std().item(), rel=0.01)


@CASES
def test_certainty_is_that_of_torch(spec):
    X = torch.randn(17, 64, generator=torch.Generator().manual_seed(0))
    weights = first_weights(spec, DIGITS, generators_of(0, 1), torch.device("cpu"))
    net_weights = {name: array[0] for name, array in weights.items()}
    net = Net(spec, DIGITS)
    net.put(net_weights)
    expected = torch.log_softmax(net(X), 1).detach()
    network = network_to_ask(spec, DIGITS, X.device)
    torch.testing.assert_close(log_certainty(network, net_weights, X, DIGITS), expected)
