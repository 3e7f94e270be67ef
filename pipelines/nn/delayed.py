"""The large layer's update put off: a step reads its weights twice and writes nothing.

A step's gradient of a dense layer is a product of two thin arrays: the layer's inputs
``x`` (batch, inputs) and the gradients by its outputs ``d`` (batch, outputs). Written
out and added, it costs five passes over weights and velocities, beside the two that the
products with the weights take. Here the thin arrays of the last steps are kept instead.

Of ``v <- m v + g, w <- w - r v`` (``torch.optim.SGD``) take ``z = w - r m / (1 - m) v``,
where the weights would come to rest if no gradient followed. It obeys the rule without
momentum, ``z <- z - r / (1 - m) g``, and

    w = z + r m / (1 - m) v,    v = sum over the last steps s of m ** age(s) x_s' d_s

Gradients older than ``steps_kept`` have left their whole mark on ``z``, and on ``v`` less
than a rounding error of single precision of what they once added: so ``v`` is never
stored, and ``z`` is brought up to date every ``SETTLE_STEPS`` steps only, in one product.
Nothing is approximated but by rounding. A step then makes two passes and a quarter.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

from pipelines.nn.inputs import Inputs, weight_shapes
from pipelines.nn.space import Candidate

if TYPE_CHECKING:
    import torch

LAYER = "hidden.weight"
SETTLE_STEPS = 8
_BITS = 24  # of a float32's mantissa
# The kept arrays are read twice a step, too: they must be thin against the layer.
_THIN = 0.5
# Below so many weights a step is bound by launches and caches, not by memory.
_FEWEST_WEIGHTS = 1 << 22


def steps_kept(momentum: float) -> int:
    """Return steps after which a gradient's share in the velocity is below ``2 ** -24`` of it."""
    if momentum <= 0:
        return SETTLE_STEPS
    if momentum >= 1:
        return 1 << 30
    return max(SETTLE_STEPS, math.ceil(_BITS * math.log(2) / -math.log(momentum)))


def pays(candidate: Candidate, inputs: Inputs, batch_size: int) -> bool:
    """Return whether delaying pays: the hidden layer is large, and kept arrays are thin."""
    n_inputs, n_outputs = weight_shapes(candidate, inputs)[LAYER]
    kept = steps_kept(candidate.momentum) * batch_size
    return n_inputs * n_outputs >= _FEWEST_WEIGHTS and kept <= _THIN * n_outputs


def kept_floats(candidate: Candidate, inputs: Inputs, batch_size: int) -> int:
    """Return numbers that one network's kept arrays hold."""
    n_inputs, n_outputs = weight_shapes(candidate, inputs)[LAYER]
    return steps_kept(candidate.momentum) * batch_size * (n_inputs + n_outputs)


class DelayedUpdates:
    """The hidden layer of ``n`` networks whose last gradients are kept as thin arrays.

    Attributes
    ----------
    base : float32 tensor of shape (n, inputs, outputs)
        ``z`` as it was last settled; the weights before the first step.
    xs : float32 tensor of shape (n, steps, batch_size, inputs)
    ds : float32 tensor of shape (n, steps, batch_size, outputs)
        By the mean loss.
    recent : float32 tensor of shape (n, steps)
        ``momentum ** age`` of each kept step, 0 where there was none.
    pending : float32 tensor of shape (n, steps)
        1 for a step that is not in ``base`` yet, else 0.
    place : int64 tensor of shape (n,)
        Where the next step is kept.
    """

    def __init__(self, candidate: Candidate, base: torch.Tensor, batch_size: int) -> None:
        import torch

        n, n_inputs, n_outputs = base.shape
        steps = steps_kept(candidate.momentum)
        self._torch, self._momentum, self._batch_size = torch, candidate.momentum, batch_size
        self._growth = candidate.learning_rate / (1 - candidate.momentum)
        self.base = base
        self.xs = base.new_zeros(n, steps, batch_size, n_inputs)
        self.ds = base.new_zeros(n, steps, batch_size, n_outputs)
        self.recent, self.pending = base.new_zeros(n, steps), base.new_zeros(n, steps)
        self.place = torch.zeros(n, dtype=torch.int64, device=base.device)
        self._since = 0

    @property
    def arrays(self) -> tuple[torch.Tensor, ...]:
        """All arrays of a network, networks first; ``base`` is the stack's."""
        return self.xs, self.ds, self.recent, self.pending, self.place

    def narrow(self, slots: slice) -> DelayedUpdates:
        """Return a view of some networks; all steps must be settled."""
        part = copy.copy(self)
        part.base = self.base[slots]
        part.xs, part.ds, part.recent, part.pending, part.place = (
            one[slots] for one in self.arrays
        )
        return part

    def outputs(self, features: torch.Tensor, bias: torch.Tensor, out: torch.Tensor) -> None:
        """Compute ``out = bias + features @ weights``, (n, batch, outputs)."""
        self._torch.baddbmm(bias, features, self.base, out=out)
        xs, ds = self._flat()
        out.baddbmm_(self._torch.bmm(features, xs.mT).mul_(self._shares()), ds)

    def by_inputs(self, by_outputs: torch.Tensor, out: torch.Tensor) -> None:
        """Compute ``out = by_outputs @ weights'``, (n, batch, inputs)."""
        self._torch.bmm(by_outputs, self.base.mT, out=out)
        xs, ds = self._flat()
        out.baddbmm_(self._torch.bmm(by_outputs, ds.mT).mul_(self._shares()), xs)

    def keep(self, features: torch.Tensor, by_outputs: torch.Tensor) -> None:
        """Take the step whose gradient is ``features' by_outputs / batch``; settle if it is due."""
        size, (n, steps) = features.shape[1], self.recent.shape
        places = self._torch.arange(n, device=self.place.device) * steps + self.place
        self.recent.mul_(self._momentum).view(-1).index_fill_(0, places, 1.0)
        self.pending.view(-1).index_fill_(0, places, 1.0)
        for kept, one in ((self.xs, features), (self.ds, by_outputs / size)):
            if size < self._batch_size:  # the last of an epoch: the others are rows of zeros
                lines = (0, 0, 0, self._batch_size - size)
                one = self._torch.nn.functional.pad(one, lines)
            kept.flatten(0, 1).index_copy_(0, places, one)
        self.place.add_(1).remainder_(steps)
        self._since += 1
        if self._since == SETTLE_STEPS:
            self.settle()

    def settle(self) -> None:
        """Bring ``base`` up to date with all steps; before ``narrow`` and ``finish``."""
        if self._since:
            self._add_to_base(self.pending.mul(-self._growth))
            self.pending.zero_()
            self._since = 0

    def finish(self, slot: int) -> torch.Tensor:
        """Return the weights of one network, which takes no further step."""
        one = self.narrow(slice(slot, slot + 1))
        one._add_to_base(one._step_shares())
        one.recent.zero_()
        return one.base[0]

    def _step_shares(self) -> torch.Tensor:
        """Return the factor of each kept gradient in ``w - base``; (n, steps)."""
        return self.recent.mul(self._momentum).sub_(self.pending).mul_(self._growth)

    def _shares(self) -> torch.Tensor:
        """Return ``_step_shares`` for each kept row, (n, 1, rows)."""
        return self._step_shares().repeat_interleave(self._batch_size, 1)[:, None]

    def _flat(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.xs.flatten(1, 2), self.ds.flatten(1, 2)

    def _add_to_base(self, shares: torch.Tensor) -> None:
        xs, ds = self._flat()
        rows = shares.repeat_interleave(self._batch_size, 1)[..., None]
        self.base.baddbmm_(xs.mT, ds * rows)
