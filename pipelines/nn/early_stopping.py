"""Networks for tables, trained together, each until its out-of-bag loss no longer falls.

Rows go through in large batches, weighted by how often a network drew them. An out-of-bag row has
no weight in a network's gradient but takes part in the same products, so that its loss, which
decides when training ends, costs nothing extra. A step of all networks is a few batched products,
as in ``pipelines.nn.by_hand``, with the same hidden layer. The rule of the steps differs: Adam with
decoupled weight decay [1]_ as in ``torch.optim.AdamW``, a learning rate that falls along a cosine,
and smoothed labels [2]_.

References
----------
.. [1] Loshchilov and Hutter, Decoupled weight decay regularization, ICLR 2019.
.. [2] Szegedy et al., Rethinking the Inception architecture for computer vision, CVPR 2016.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipelines.data.fits import Progress
from pipelines.nn.by_hand import epoch_order, first_weights
from pipelines.nn.inputs import Inputs, weight_shapes
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.space import NetworkSpec
from pipelines.nn.stack import (
    DIVERGED,
    OK,
    DeviceRows,
    Result,
    Stack,
    StackPart,
    Tensors,
    TrainedNetwork,
    squared_loss,
    stack_scaling,
)

if TYPE_CHECKING:
    import torch

# With more inputs than this the learning rate falls in proportion. A step of Adam moves every
# weight alike, so that with thousands of inputs the first steps would carry predictions beyond any
# target. Yang and Hu, Feature learning in infinite-width neural networks, ICML 38 (2021).
WIDE = 256
# The smallest fall of the out-of-bag loss, in nats, that counts as progress: where rows are told
# apart perfectly, the loss goes on falling for ever.
LEAST_FALL = 1e-3
REGRESSION_FALL = 1e-3  # relative, as the loss of a regression may come near 0
# The last epoch whose loss is within this fraction of the least is kept: a vote is best where its
# members are trained a little too long. Sollich and Krogh, Learning with ensembles: how
# over-fitting can be useful, NeurIPS 8 (1995).
SLACK = 0.1
SQUARES, EPSILON = 0.999, 1e-8  # beta2 and epsilon of Adam


class StackBatch(NamedTuple):
    """The rows of one step, one line of each tensor for each network; padding has weight 0.

    Attributes
    ----------
    X, targets : float32 tensors of shape (n_networks, size, n)
        Scaled.
    drawn : float32 tensor of shape (n_networks, size)
        Weights of the drawn rows; over an epoch those of a network sum to 1.
    out_of_bag : float32 tensor of shape (n_networks, 2, size)
        Weights of the two halves of the out-of-bag rows; over an epoch both together sum to 1.
    n_drawn : int
        Beyond the first ``n_drawn`` rows of a line no row is drawn.
    """

    X: torch.Tensor
    targets: torch.Tensor
    drawn: torch.Tensor
    out_of_bag: torch.Tensor
    n_drawn: int


class FlatNetworks:
    """Networks of one specification, each with all its weights in one line of ``flat``.

    A step of Adam is then a few operations on whole matrices, for all layers together.

    Attributes
    ----------
    flat, mean, squares : float32 tensors of shape (n_networks, n_weights)
        Weights, and Adam's means of gradients and of their squares.
    """

    def __init__(
        self,
        spec: NetworkSpec,
        inputs: Inputs,
        initial_weights: Tensors,
        training: TrainingSettings,
        n_batches: int,
    ) -> None:
        import torch

        self._torch, self._spec = torch, spec
        self._n_batches, self._max_steps = n_batches, training.max_epochs * n_batches
        self._smoothing = training.label_smoothing
        self._rate = spec.learning_rate * min(1.0, WIDE / inputs.n_features)
        self._shapes, self._is_regression = weight_shapes(spec, inputs), inputs.is_regression
        self.flat = torch.cat([initial_weights[name].flatten(1) for name in self._shapes], 1)
        self.mean, self.squares = torch.zeros_like(self.flat), torch.zeros_like(self.flat)
        self._gradient = torch.zeros_like(self.flat)
        self._weights, self._by = self.views_of(self.flat), self.views_of(self._gradient)
        # Biases do not decay.
        self._decay = torch.zeros_like(self.flat[:1])
        for name, decay in self.views_of(self._decay).items():
            decay.fill_(0.0 if name.endswith("bias") else training.weight_decay)
        self._steps = 0

    def views_of(self, flat: torch.Tensor) -> Tensors:
        """Views of a matrix laid out like ``flat``: (n_networks, *shape), by name."""
        views, first = {}, 0
        for name, shape in self._shapes.items():
            size = math.prod(shape)
            views[name] = flat[:, first : first + size].unflatten(1, shape)
            first += size
        return views

    def step(self, batch: StackBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Take one training step for every network.

        Returns
        -------
        of_drawn : float32 tensor of shape (n_networks,)
            The batch's share of the epoch's loss on the drawn rows, before the step.
        of_left_out : float32 tensor of shape (n_networks, 2)
            The same for the two halves of the out-of-bag rows.
        """
        torch, w, by = self._torch, self._weights, self._by
        hidden = torch.baddbmm(w["hidden.bias"], batch.X, w["hidden.weight"]).relu_()
        outputs = torch.baddbmm(w["output.bias"], hidden, w["output.weight"])
        if self._is_regression:
            losses = squared_loss(outputs, batch.targets).sum(2)
        else:
            outputs = torch.log_softmax(outputs, 2)
            losses = (outputs * batch.targets).sum(2).neg_()
        of_drawn = (losses * batch.drawn).sum(1)
        of_left_out = (losses[:, None] * batch.out_of_bag).sum(2)

        # Only drawn rows have a gradient.
        X, targets, hidden, outputs, weights = (
            tensor[:, : batch.n_drawn]
            for tensor in (batch.X, batch.targets, hidden, outputs, batch.drawn[..., None])
        )
        if self._is_regression:
            by_output = outputs - targets
        else:
            smoothed = targets * (1 - self._smoothing) + self._smoothing / targets.shape[2]
            by_output = outputs.exp().sub_(smoothed)
        by_output.mul_(weights * self._n_batches)
        by_hidden = torch.bmm(by_output, w["output.weight"].mT)
        by_hidden = torch.ops.aten.threshold_backward(by_hidden, hidden, 0)
        by["output.weight"].copy_(torch.bmm(hidden.mT, by_output))
        by["output.bias"].copy_(by_output.sum(1, keepdim=True))
        by["hidden.weight"].copy_(torch.bmm(X.mT, by_hidden))
        by["hidden.bias"].copy_(by_hidden.sum(1, keepdim=True))
        progress = self._steps / self._max_steps
        rate = self._rate * (1 + math.cos(math.pi * progress)) / 2
        self._steps += 1
        momentum = self._spec.momentum
        self.flat.addcmul_(self.flat, self._decay, value=-rate)
        self.mean.lerp_(self._gradient, 1 - momentum)
        self.squares.mul_(SQUARES).addcmul_(self._gradient, self._gradient, value=1 - SQUARES)
        correction = math.sqrt(1 - SQUARES**self._steps)
        scale = self.squares.sqrt().div_(correction).add_(EPSILON)
        self.flat.addcdiv_(self.mean, scale, value=-rate / (1 - momentum**self._steps))
        return of_drawn, of_left_out


def widen_weights(weights: Tensors) -> Tensors:
    """Rescale first weights within 1 / sqrt(inputs) to sqrt(6 / (inputs + outputs)) [1]_.

    scikit-learn's networks begin with these, and members then differ more.

    References
    ----------
    .. [1] Glorot and Bengio, Understanding the difficulty of training deep feedforward neural
       networks, AISTATS 2010.
    """
    shapes = {name: weights[name.replace("bias", "weight")].shape[1:] for name in weights}
    bounds = {name: math.sqrt(6 * n / (n + n_outputs)) for name, (n, n_outputs) in shapes.items()}
    return {name: weight * bounds[name] for name, weight in weights.items()}


def train_with_early_stopping(
    stack: Stack,
    training: TrainingSettings,
    collect: Callable[[int, Tensors], Result],
) -> Iterator[Progress | TrainedNetwork[Result]]:
    """Train one network for each part of a stack; see ``pipelines.nn.train.train_stack``.

    A network is kept as it was after the last epoch whose out-of-bag loss, measured while the
    weights moved, was within ``SLACK`` of the least; for a regression, after the best epoch.
    A network without out-of-bag rows is judged by the rows it drew. The epoch is looked for three
    times, by all out-of-bag rows and by each half of them (see ``TrainedNetwork.crossed``), each
    time until ``patience`` epochs have brought no progress.
    """
    import torch

    spec, inputs, rows, parts = stack.spec, stack.inputs, stack.rows, stack.parts
    patience = training.patience or training.max_epochs
    slack = 0.0 if inputs.is_regression else SLACK
    generators = [part.generator for part in parts]
    initial_weights = widen_weights(first_weights(spec, inputs, generators, rows.device))
    epoch_rows = _EpochRows(rows, parts, training.batch_size)
    nets = FlatNetworks(spec, inputs, initial_weights, training, epoch_rows.n_batches)
    # First axis: judged by all out-of-bag rows, by their first half, by their second half.
    kept_weights = nets.flat.expand(3, -1, -1).clone()
    least = np.full((3, len(parts)), np.inf, dtype=np.float32)
    stale_epochs, left_out_weights = np.zeros_like(least), epoch_rows.left_out_weights
    losses: list[np.ndarray] = []
    epochs_lasted = np.zeros(len(parts), dtype=np.int64)
    started = time.perf_counter()
    for epoch in range(training.max_epochs):
        yield Progress(epoch / training.max_epochs)
        sums = [nets.step(batch) for batch in epoch_rows.batches()]
        # A few numbers for each network, with which numpy is faster than torch.
        drawn_losses, left_out_losses = (
            torch.stack(batch_losses).sum(0).cpu().numpy()
            for batch_losses in zip(*sums, strict=True)
        )
        losses.append(drawn_losses)
        goes_on = stale_epochs < patience
        epochs_lasted += goes_on[0]
        assessed_losses = np.stack([drawn_losses] * 3)
        np.divide(
            np.vstack([left_out_losses.sum(1), left_out_losses.T]),
            left_out_weights,
            out=assessed_losses,
            where=left_out_weights > 0,
        )
        limits = least * (1 - REGRESSION_FALL) if inputs.is_regression else least - LEAST_FALL
        is_better = (assessed_losses < limits) & goes_on
        least = np.where(is_better, assessed_losses, least)
        is_near = torch.from_numpy((assessed_losses <= (1 + slack) * least) & goes_on)
        torch.where(is_near.to(rows.device)[..., None], nets.flat, kept_weights, out=kept_weights)
        stale_epochs = np.where(is_better, 0, stale_epochs + 1)
        if (stale_epochs >= patience).all():
            break
    seconds = (time.perf_counter() - started) / len(parts)
    by_part = np.stack(losses, 1).tolist()
    weights, *by_half = map(nets.views_of, kept_weights)
    for number, (n_epochs, best) in enumerate(
        zip(epochs_lasted.tolist(), least[0].tolist(), strict=True)
    ):
        final_weights, *crossed_weights = (
            {name: array[number] for name, array in tensors.items()}
            for tensors in (weights, *reversed(by_half))
        )
        is_finite = math.isfinite(best) and bool(torch.isfinite(kept_weights[:, number]).all())
        status, of_epochs = OK if is_finite else DIVERGED, tuple(by_part[number][:n_epochs])
        yield TrainedNetwork(
            collect(number, final_weights), of_epochs, status, seconds, crossed_weights
        )


class _EpochRows:
    """The rows of every network in the order of an epoch, cut into equally many batches for each.

    Each network draws its orders from its own generator, as if it were trained alone.
    """

    def __init__(self, rows: DeviceRows, parts: Sequence[StackPart], batch_size: int) -> None:
        self._rows, self._parts = rows, parts
        self._scaling = stack_scaling(parts, rows.device)
        self._target = stack_scaling(parts, rows.device, "target")
        # For each network: its rows, the weights of the drawn ones, and those of the two halves of
        # the out-of-bag rows, which are the even and the odd ones of them.
        self._row_sets = []
        for part in parts:
            out_of_bag = part.out_of_bag
            distinct, counts = np.unique(part.rows, return_counts=True)
            weights = np.ones(len(out_of_bag)) if part.weights is None else part.weights
            drawn_weights = np.concatenate([counts / counts.sum(), np.zeros(len(out_of_bag))])
            left_out_weights = np.zeros((2, len(drawn_weights)))
            number = np.arange(len(weights))
            left_out_weights[number % 2, len(distinct) + number] = weights / (weights.sum() or 1)
            row_numbers = np.concatenate([distinct, out_of_bag]).astype(np.int64)
            self._row_sets.append((row_numbers, drawn_weights, left_out_weights))
        halves = np.array([row_set[2].sum(1) for row_set in self._row_sets]).T
        self.left_out_weights = np.concatenate([halves.sum(0)[None], halves]).astype(np.float32)
        self.n_batches = math.ceil(max(len(row_set[0]) for row_set in self._row_sets) / batch_size)
        # In a single batch the order of rows does not matter: it is made once for all epochs.
        self._whole = list(self._cut()) if self.n_batches == 1 else None

    def batches(self) -> Iterable[StackBatch]:
        """The batches of an epoch."""
        return self._whole or self._cut()

    def _cut(self) -> Iterator[StackBatch]:
        import torch

        orders = [
            epoch_order(np.arange(len(row_set[0])), part.generator)
            for row_set, part in zip(self._row_sets, self._parts, strict=True)
        ]
        cuts = [np.array_split(order, self.n_batches) for order in orders]
        device = self._rows.device
        for pieces in zip(*cuts, strict=True):
            size = max(map(len, pieces))
            index = np.zeros((len(pieces), size), dtype=np.int64)
            weights = np.zeros((3, len(pieces), size), dtype=np.float32)
            for number, (order, row_set) in enumerate(zip(pieces, self._row_sets, strict=True)):
                # Drawn rows come first, so that a step can drop the others before the gradient.
                piece = order[np.argsort(row_set[1][order] == 0, kind="stable")]
                index[number, : len(piece)] = row_set[0][piece]
                weights[:, number, : len(piece)] = row_set[1][piece], *row_set[2][:, piece]
            flat = torch.from_numpy(index).to(device).view(-1)
            X, targets = (
                tensor.index_select(0, flat).view(len(pieces), size, -1)
                for tensor in (self._rows.X, self._rows.targets)
            )
            if self._scaling:
                X.sub_(self._scaling[0]).div_(self._scaling[1])
            if self._target:
                targets.sub_(self._target[0]).div_(self._target[1])
            drawn, *halves = torch.from_numpy(weights).to(device)
            n_drawn = int((weights[0] > 0).sum(1).max())
            yield StackBatch(X, targets, drawn, torch.stack(halves, 1), n_drawn)
