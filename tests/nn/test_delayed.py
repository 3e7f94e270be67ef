"""Updates put off: the weights that ``torch.optim.SGD`` has, at every step."""

from __future__ import annotations

import math

import pytest
import torch

from pipelines.data.placement import FoldedData
from pipelines.nn import delayed
from pipelines.nn.delayed import DelayedUpdates, pays, steps_kept
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
