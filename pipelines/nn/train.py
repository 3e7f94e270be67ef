"""Train networks of one architecture together, each on its own rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pipelines.data.fits import Progress
from pipelines.nn.by_hand import StackedWeights, epoch_order
from pipelines.nn.early_stopping import train_with_early_stopping
from pipelines.nn.recording import RecordedStep
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.stack import DIVERGED, OK, Result, Stack, Tensors, TrainedNetwork

BATCHES_BETWEEN = 64  # batches from one progress event to the next


def train_stack(
    networks: Stack,
    training: TrainingSettings,
    collect: Callable[[int, Tensors], Result],
) -> Iterator[Progress | TrainedNetwork[Result]]:
    """Train one network for each part of a stack, together; each ends by its own losses.

    A network takes the same steps in a stack as alone: results differ only in the order in which
    products add their terms.

    Parameters
    ----------
    networks : Stack
    training : TrainingSettings
    collect : function of the index of a part and its weights
        Called when the network has ended. The weights are views of memory that is used again: copy
        anything that should be kept.

    Yields
    ------
    TrainedNetwork or Progress
        The networks in the order of ``parts``; in between, the fraction of all epochs that is done,
        where epochs that an ended network does not need count as done.
    """
    train_all: Any = _train_by_hand
    if training.optimizer is not None:
        from pipelines.nn.modules import train_modules as train_all
    elif networks.spec.network == "table":
        train_all = train_with_early_stopping
    items = train_all(networks, training, collect)
    while True:
        # torch's settings belong to the calling thread, and are restored whenever it gets control.
        with on_device(training, inference=training.optimizer is None):
            item = next(items, None)
        if item is None:
            return
        yield item


def _train_by_hand(
    networks: Stack,
    training: TrainingSettings,
    collect: Callable[[int, Tensors], Result],
) -> Iterator[Progress | TrainedNetwork[Result]]:
    n, max_epochs = len(networks.parts), training.max_epochs
    stack = StackedWeights(networks)
    step = RecordedStep(stack.step, networks.rows.device)
    running = list(range(n))  # slot -> part
    losses: list[list[float]] = [[] for _ in range(n)]
    results: dict[int, Result] = {}
    seconds = 0.0
    for epoch in range(max_epochs):
        started = time.perf_counter()
        orders = [
            epoch_order(networks.parts[part].rows, networks.parts[part].generator)
            for part in running
        ]
        for fraction in _epoch(stack, step, orders, training.batch_size):
            yield Progress(1 - len(running) * (1 - (epoch + fraction) / max_epochs) / n)
        total = stack.loss.tolist()
        epoch_losses = [loss / len(order) for loss, order in zip(total, orders, strict=True)]
        seconds += time.perf_counter() - started
        for slot in reversed(range(len(running))):
            part, loss = running[slot], epoch_losses[slot]
            falls = epoch == 0 or loss < (1 - training.least_fall) * losses[part][-1]
            losses[part].append(loss)
            if epoch + 1 == max_epochs or not (math.isfinite(loss) and falls):
                results[part] = collect(part, {name: w[slot] for name, w in stack.weights.items()})
                # The last network moves to the empty slot, so that the stack only ever shrinks and
                # no other memory is needed.
                if slot != len(running) - 1:
                    stack.move(len(running) - 1, slot)
                    running[slot] = running[-1]
                del running[-1]
        if not running:
            break
        if len(running) != len(stack.loss):
            stack = stack.narrow(0, len(running))
            # A recorded step is of one size of the stack.
            step = RecordedStep(stack.step, networks.rows.device)
    for part, network_losses in enumerate(losses):
        status = OK if math.isfinite(network_losses[-1]) else DIVERGED
        yield TrainedNetwork(results[part], tuple(network_losses), status, seconds / n)


def _epoch(
    stack: StackedWeights, step: RecordedStep, orders: Sequence[np.ndarray], batch_size: int
) -> Iterator[float]:
    """Train every network for one epoch, and yield the fraction of it that is done."""
    import torch

    stack.loss.zero_()
    device = stack.loss.device
    n_together = min(len(order) for order in orders) // batch_size
    batched_rows = np.stack([order[: n_together * batch_size] for order in orders])
    batches = torch.from_numpy(batched_rows).to(device).view(len(orders), n_together, batch_size)
    batches = batches.transpose(0, 1).contiguous()
    for number, batch in enumerate(batches.unbind()):
        step(batch)
        if number % BATCHES_BETWEEN == 0:
            yield number / n_together
    # The remaining rows, at most two batches of each network, differ in number.
    for slot, order in enumerate(orders):
        remaining_rows = torch.from_numpy(order[n_together * batch_size :]).to(device)
        if len(remaining_rows):
            lone_stack = stack.narrow(slot, 1)
            for batch in remaining_rows.split(batch_size):
                lone_stack.step(batch[None])


@contextmanager
def on_device(training: TrainingSettings, *, inference: bool = True) -> Iterator[None]:
    """Set torch's threads and precision for a block, and restore them after it.

    On a CPU denormal numbers count as zero: the velocities of units that ReLU switched off shrink
    to such numbers, and would make it many times slower. The settings are those of the calling
    thread.
    """
    import torch

    precision_before, threads_before = torch.get_float32_matmul_precision(), torch.get_num_threads()
    if training.device == "cpu":
        torch.set_num_threads(training.n_threads)
        torch.set_flush_denormal(True)
    else:
        torch.set_float32_matmul_precision("highest" if training.precision == "fp32" else "high")
    cudnn_before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = training.precision != "fp32"
    try:
        with torch.inference_mode(inference):
            yield
    finally:
        if training.device == "cpu":  # the caller may need denormal numbers
            torch.set_flush_denormal(False)
            torch.set_num_threads(threads_before)
        torch.set_float32_matmul_precision(precision_before)
        torch.backends.cudnn.allow_tf32 = cudnn_before
