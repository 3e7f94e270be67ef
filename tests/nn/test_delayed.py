"""Updates put off: the weights that ``torch.optim.SGD`` has, at every step."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pipelines.data.placement import FoldedData
from pipelines.nn import delayed
from pipelines.nn.delayed import SETTLE_STEPS, DelayedUpdates, pays, steps_kept
from pipelines.nn.device_rows import place_rows
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import Training
from pipelines.nn.space import Candidate
from pipelines.nn.stack import Trained

from .conftest import DIGITS
from .test_train import assert_close, copied, parts_of, train_parts

MNIST = Inputs(784, 10, (28, 28))
MOMENTA = pytest.mark.parametrize("momentum", [0.01, 0.3, 0.7, 0.9])
ROUNDING = 2.0**-23


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed, "_FEWEST_WEIGHTS", 0)
    monkeypatch.setattr(delayed, "_THIN", math.inf)


@MOMENTA
def test_weights_at_every_step_are_those_of_sgd(momentum: float) -> None:
    """In double precision, so that what is left out shows: the gradients that are too old."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    candidate = Candidate("mlp", 7, 0.1, momentum)
    start, bias = draw(2, 12, 7), draw(2, 1, 7)
    largest = 10 * ROUNDING / (1 - momentum)  # a velocity is a sum of so many gradients
    layer = DelayedUpdates(candidate, start.clone(), 4)
    parameter = torch.nn.Parameter(start.clone())
    optimiser = torch.optim.SGD([parameter], lr=0.1, momentum=momentum)
    for step in range(3 * steps_kept(momentum) + 5):
        size = 3 if step % 11 == 10 else 4  # the last of an epoch is smaller
        x, d = draw(2, size, 12), draw(2, size, 7)
        outputs, by_inputs = torch.empty(2, size, 7).double(), torch.empty(2, size, 12).double()
        layer.outputs(x, bias, out=outputs)
        layer.by_inputs(d, out=by_inputs)
        weights = parameter.detach()
        torch.testing.assert_close(outputs, torch.baddbmm(bias, x, weights), rtol=0, atol=largest)
        torch.testing.assert_close(by_inputs, d @ weights.mT, rtol=0, atol=largest)
        layer.keep(x, d)
        parameter.grad = x.mT @ d / size
        optimiser.step()
    layer.settle()
    for slot in range(2):
        torch.testing.assert_close(
            layer.finish(slot), parameter[slot].detach(), rtol=0, atol=largest
        )


@MOMENTA
def test_training_is_the_same(
    digits: FoldedData, momentum: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Networks of unequal rows, which end at different epochs and change places."""
    rows = place_rows(digits, 10, "cpu")
    training = Training(max_epochs=9, least_fall=0.2)

    def both(candidate: Candidate) -> list[list[Trained]]:
        def once() -> list[Trained]:
            parts = parts_of(len(digits.y), sizes=(303, 20, 160, 40))
            return train_parts(candidate, DIGITS, rows, parts, training, copied)

        plain = once()
        with monkeypatch.context() as patched:
            always(patched)
            assert pays(candidate, DIGITS, 10)
            return [plain, once()]

    rate, ends = 0.05 * (1 - momentum) / 0.3, set()
    for candidate in (
        Candidate("conv", 11, rate, momentum, n_conv_layer=3, kernel_size=3),
        Candidate("mlp", 9, rate, momentum),
    ):
        plain, put_off = both(candidate)
        ends |= {len(one.losses) for one in plain}
        for one, other in zip(plain, put_off, strict=True):
            assert len(one.losses) == len(other.losses)
            assert one.losses == pytest.approx(other.losses, rel=1e-4)
            assert_close(one.result, other.result, 1e-4)
    assert len(ends) > 1


def test_rounding_is_that_of_a_product_added_to_the_weights() -> None:
    """Against double precision, after 600 steps in single.

    A CPU's product adds its terms to the weights one by one, each rounded: to settle
    rounds batch_size times as often as the plain update, which by chance is the root of
    that times as much.
    """
    rng = np.random.default_rng(1)
    candidate = Candidate("mlp", 8, 0.01, 0.4)
    start = torch.from_numpy(rng.standard_normal((1, 20, 8), dtype=np.float32))
    layer = DelayedUpdates(candidate, start.clone(), 5)
    plain, exact = (
        torch.nn.Parameter(start.clone()),
        torch.nn.Parameter(start.clone().double()),
    )
    optimisers = [torch.optim.SGD([one], lr=0.01, momentum=0.4) for one in (plain, exact)]
    for _ in range(600):
        x = torch.from_numpy(rng.standard_normal((1, 5, 20), dtype=np.float32))
        d = torch.from_numpy(rng.standard_normal((1, 5, 8), dtype=np.float32))
        layer.keep(x, d)
        plain.grad = x.mT @ d / 5
        exact.grad = x.double().mT @ d.double() / 5
        for optimiser in optimisers:
            optimiser.step()
    layer.settle()
    wrong = (layer.finish(0) - exact[0]).abs().max().item()
    assert wrong <= 2 * math.sqrt(5) * (plain[0] - exact[0]).abs().max().item()


def test_where_it_pays() -> None:
    study = Candidate("conv", 1000, 1e-3, 0.1, n_conv_layer=400, kernel_size=5)
    assert pays(study, MNIST, 10)
    assert not pays(study, MNIST, 128)  # the kept arrays are no longer thin
    for changed in (
        Candidate("conv", 1000, 1e-3, 0.95, n_conv_layer=400, kernel_size=5),
        Candidate("conv", 48, 1e-3, 0.1, n_conv_layer=6, kernel_size=5),
        Candidate("conv", 1000, 1e-3, 1.0, n_conv_layer=400, kernel_size=5),
        Candidate("mlp", 256, 1e-3, 0.1),
    ):
        assert not pays(changed, MNIST, 10)


def test_steps_are_kept_until_nothing_is_left_of_them() -> None:
    for momentum in (0.01, 0.2, 0.5, 0.9, 0.99):
        kept = steps_kept(momentum)
        assert kept >= SETTLE_STEPS
        assert momentum**kept <= 2.0**-24
    assert steps_kept(0.0) == SETTLE_STEPS


def test_most_of_the_study_has_it() -> None:
    from pipelines.nn.space import SearchSpace

    space, generator = SearchSpace.load("study"), np.random.default_rng(0)
    drawn = [space.draw(generator) for _ in range(300)]
    assert np.mean([pays(one, MNIST, 10) for one in drawn]) > 0.7
