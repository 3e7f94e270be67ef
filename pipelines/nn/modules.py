"""Train any module, the networks of a stack side by side, by ``torch.vmap`` where that works.

All networks take their steps together: one forward and backward pass through a module whose weights
have the networks as their first axis, on which torch's optimiser works. Each network has its own
rows, orders and random numbers, so that it does not depend on the networks beside it.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, stack_module_state
from torch.nn import functional

from pipelines.data.fits import Progress
from pipelines.nn.augment import augment_images
from pipelines.nn.inputs import Inputs
from pipelines.nn.networks import (
    CNN,
    as_network_takes,
    autocast,
    drawing_from,
    draws,
    make_network,
)
from pipelines.nn.recording import RecordedStep
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.stack import (
    DIVERGED,
    OK,
    Result,
    TrainedNetwork,
    squared_loss,
    stack_scaling,
)

if TYPE_CHECKING:
    from pipelines.nn.stack import Stack

Tensors = dict[str, torch.Tensor]
Learn = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
# Up to this batch size a CPU gains from vmap; a larger batch fills it with one network at a time.
MOST_TOGETHER = 32
WARM_UP = 0.3  # the fraction of a one-cycle schedule in which the rate rises
STEPS_BETWEEN = 16  # steps from one progress event to the next


def train_modules(
    stack: Stack,
    training: TrainingSettings,
    collect: Callable[[int, Tensors], Result],
) -> Iterator[Progress | TrainedNetwork[Result]]:
    """Train one network for each part of a stack; see ``pipelines.nn.train.train_stack``.

    Every network takes the same number of steps in an epoch, on batches of equal size. The rows
    that are left over, fewer than a batch, are different ones in each epoch.
    """
    networks = [
        make_network(stack.spec, stack.inputs, seed_from(part.generator)) for part in stack.parts
    ]
    slots = list(range(len(networks)))
    is_faster = training.device != "cpu" or training.batch_size <= MOST_TOGETHER
    together = len(slots) > 1 and is_faster and vmap_can(networks[0], stack.inputs)
    for turn in [slots] if together else [[slot] for slot in slots]:
        trainer = _Trainer(stack, training, turn, [networks[slot] for slot in turn])
        for item in trainer.train(collect):
            if isinstance(item, Progress):
                item = item.within(turn[0] / len(slots), len(turn) / len(slots))
            yield item


def vmap_can(network: nn.Module, inputs: Inputs) -> bool:
    """Whether copies of a network can be trained side by side."""
    if _draws(network, inputs):  # all networks would share torch's one generator
        return False
    rows = as_network_takes(torch.zeros(2, inputs.n_features), inputs)
    try:
        forward = _Networks(
            [copy.deepcopy(network), copy.deepcopy(network)], torch.device("cpu"), "fp32"
        )
        forward(torch.stack([rows, rows], 1)).sum().backward()
    except Exception:  # whatever vmap cannot do
        return False
    return True


def _draws(network: nn.Module, inputs: Inputs) -> bool:
    """Whether a network draws random numbers in a forward pass, as dropout does."""
    return draws(network, as_network_takes(torch.zeros(2, inputs.n_features), inputs))


def seed_from(generator: np.random.Generator) -> int:
    """A seed for torch's generators, drawn from numpy's."""
    return int(generator.integers(0, 2**62))


class _Networks:
    """Networks of one architecture as one function of all their batches.

    Attributes
    ----------
    weights, buffers : dict of str to tensors of shape (n_networks, *shape)
    """

    def __init__(self, networks: Sequence[nn.Module], device: torch.device, precision: str) -> None:
        weights, self.buffers = stack_module_state([network.to(device) for network in networks])
        self.weights = {}
        for name, tensor in weights.items():
            weight = tensor.detach()
            if weight.ndim == 5:  # a convolution: in NHWC, the layout of CPUs and tensor cores
                weight = weight.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)
            self.weights[name] = weight.requires_grad_()
        self._precision, self._device = precision, device.type
        self._n, network = len(networks), copy.deepcopy(networks[0]).to("meta").train()
        self._network = network.in_groups(self._n) if isinstance(network, CNN) else network
        self._by_vmap = self._n > 1 and not isinstance(network, CNN)

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Outputs, (n_networks, n_rows, n_outputs), for X, (n_rows, n_networks, ...)."""
        if self._by_vmap:
            of_all: Any = torch.vmap(self._call, (0, 0, 1))
            outputs: torch.Tensor = of_all(self.weights, self.buffers, X)
            return outputs
        weights, buffers = (
            {
                name: tensor.flatten(0, 1) if tensor.ndim > 1 else tensor[0]
                for name, tensor in arrays.items()
            }
            for arrays in (self.weights, self.buffers)
        )
        outputs = self._call(weights, buffers, X.flatten(1, 2))
        return outputs.unflatten(1, (self._n, -1)).transpose(0, 1)

    def _call(self, weights: Tensors, buffers: Tensors, X: torch.Tensor) -> torch.Tensor:
        tensors = weights | buffers
        with autocast(self._device, self._precision):
            outputs: torch.Tensor = functional_call(self._network, tensors, (X,))
        for name, buffer in buffers.items():
            if tensors[name] is not buffer:  # the module assigned a new tensor
                buffer.copy_(tensors[name])
        return outputs.float()


class _Trainer:
    """The training of the networks in ``slots`` of a stack, which take their steps together."""

    def __init__(
        self, stack: Stack, training: TrainingSettings, slots: list[int], networks: list[nn.Module]
    ) -> None:
        self._stack, self._training, self._slots = stack, training, slots
        rows, self._parts = stack.rows, [stack.parts[slot] for slot in slots]
        self._networks = _Networks(networks, rows.device, training.precision)
        self._draws = len(slots) == 1 and _draws(networks[0], stack.inputs)
        self._seeds = [np.random.default_rng(seed_from(part.generator)) for part in self._parts]
        self._generators = [
            torch.Generator().manual_seed(seed_from(part.generator)) for part in self._parts
        ]
        self._is_regression = stack.inputs.is_regression
        self._targets = rows.targets if self._is_regression else rows.targets.argmax(1)
        self._scaling = stack_scaling(self._parts, rows.device)
        self._target = stack_scaling(self._parts, rows.device, "target")
        self._batch_size = min(training.batch_size, stack.n_rows)
        self._n_steps = stack.n_rows // self._batch_size
        total = self._n_steps * training.max_epochs
        specs = [part.spec or stack.spec for part in self._parts]
        self._alike = len(set(specs)) == 1
        # Only our own module is recorded as a CUDA graph: any other may do something else at each
        # step, or wait for the device.
        self._records = isinstance(networks[0], CNN) and rows.device.type == "cuda"
        self._optimizer = _optimizer(
            self._networks.weights,
            specs[:1] if self._alike else specs,
            training,
            self._records,
        )
        self._schedule = _schedule(self._optimizer, training, total)

    def train(
        self, collect: Callable[[int, Tensors], Result]
    ) -> Iterator[Progress | TrainedNetwork[Result]]:
        training, n = self._training, len(self._slots)
        max_epochs, patience = training.max_epochs, training.patience
        losses: list[list[float]] = [[] for _ in self._slots]
        least, stale_epochs = [math.inf] * n, [0] * n
        kept_weights = [self._weights_of(number) for number in range(n)] if patience else []
        learn: Learn = self._learn
        if self._records:
            learn = RecordedStep(self._learn, self._stack.rows.device)
        started = time.perf_counter()
        for epoch in range(max_epochs):
            running = [
                number for number in range(n) if not patience or stale_epochs[number] < patience
            ]
            running = [
                number
                for number in running
                if not losses[number] or math.isfinite(losses[number][-1])
            ]
            if not running:
                break
            total = torch.zeros(n, device=self._stack.rows.device)
            for fraction in self._epoch(learn, total):
                yield Progress((epoch + fraction) / max_epochs)
            of_epoch = (total / self._n_steps).tolist()
            for number in running:
                losses[number].append(of_epoch[number])
                if patience:
                    part, slot, loss = self._parts[number], self._slots[number], of_epoch[number]
                    if len(part.out_of_bag):
                        rows = part.out_of_bag - slot * self._stack.step
                        loss = self._stack.score(slot, rows, self._weights_of(number)).loss
                    stale_epochs[number] += 1
                    if loss < least[number]:
                        least[number], stale_epochs[number] = loss, 0
                        weights = self._weights_of(number)
                        kept_weights[number] = {
                            name: tensor.clone() for name, tensor in weights.items()
                        }
        seconds = (time.perf_counter() - started) / n
        for number, slot in enumerate(self._slots):
            weights = kept_weights[number] if patience else self._weights_of(number)
            status = OK if all(map(math.isfinite, losses[number])) else DIVERGED
            yield TrainedNetwork(collect(slot, weights), tuple(losses[number]), status, seconds)

    def _weights_of(self, number: int) -> Tensors:
        arrays = self._networks.weights | self._networks.buffers
        return {name: tensor.detach()[number] for name, tensor in arrays.items()}

    def _epoch(self, learn: Learn, total: torch.Tensor) -> Iterator[float]:
        """Take the steps of one epoch and add each network's losses to ``total``.

        Yields
        ------
        float
            The fraction of the epoch that is done.
        """
        n_rows = self._n_steps * self._batch_size
        orders = np.stack([part.generator.permutation(part.rows)[:n_rows] for part in self._parts])
        index = torch.from_numpy(orders.astype(np.int64)).to(self._stack.rows.device)
        for step, batch in enumerate(index.split(self._batch_size, 1)):
            if step % STEPS_BETWEEN == 0:
                yield step / self._n_steps
            total += self._step(learn, batch)

    def _step(self, learn: Learn, batch: torch.Tensor) -> torch.Tensor:
        n, size = batch.shape
        flat = batch.reshape(-1)
        X = self._stack.rows.X.index_select(0, flat).float().view(n, size, -1)
        stack, augment = self._stack, self._training.augment
        if augment != "none":
            images = as_network_takes(X, stack.inputs)
            X = augment_images(images, augment, self._generators, stack.rows.brightest).view_as(X)
        losses = learn(X, self._targets.index_select(0, flat))
        self._schedule.step()
        return losses

    def _learn(self, X: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        """Take one training step for every network, each on its own batch.

        Parameters
        ----------
        X : float32 tensor of shape (n_networks, size, n_features)
            Overwritten.
        truth : int64 tensor of shape (n_networks * size,), or float32, (n_networks * size, 1)
            Class numbers, or for a regression the targets, which are overwritten.

        Returns
        -------
        float32 tensor of shape (n_networks,)
            The losses before the step.
        """
        n, size, _ = X.shape
        if self._scaling:
            X = X.sub_(self._scaling[0]).div_(self._scaling[1])
        X = as_network_takes(X, self._stack.inputs)
        if X.ndim == 5:  # vmap's convolution wants the networks next to the channels
            X = X.permute(1, 3, 4, 0, 2).contiguous().permute(3, 0, 4, 1, 2)
        X = X.transpose(0, 1)
        if self._draws:
            with drawing_from(seed_from(self._seeds[0]), X.device):
                outputs = self._networks(X)
        else:
            outputs = self._networks(X)
        if self._is_regression:
            truth = truth.view(n, size, 1).sub_(self._target[0]).div_(self._target[1])
            row_losses = squared_loss(outputs.view_as(truth), truth)
        else:
            row_losses = functional.cross_entropy(
                outputs.flatten(0, 1),
                truth,
                reduction="none",
                label_smoothing=self._training.label_smoothing,
            )
        losses = row_losses.view(n, size).mean(1)
        losses.sum().backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=self._alike)
        return losses.detach()


def _optimizer(
    weights: Tensors, specs: Sequence[Any], training: TrainingSettings, records: bool
) -> torch.optim.Optimizer:
    """Make torch's optimiser; biases and norms do not decay.

    Where specs differ, each has its own parameter groups, of slices of the weights and of their
    gradients; the gradients then must keep their memory. Where steps are recorded, learning rates
    are tensors on the device, so that a schedule can change them between replays.

    Parameters
    ----------
    weights : dict of str to tensors of shape (n_networks, *shape)
    specs : sequence of NetworkSpec
        The spec of each network, or one for all.
    training : TrainingSettings
    records : bool
        Whether steps are recorded as a CUDA graph.
    """
    adam, groups, stop = training.optimizer != "sgd", [], 0
    for spec, networks in groupby(specs):
        start, stop = stop, stop + len(list(networks))
        with_decay, without_decay = list[torch.Tensor](), list[torch.Tensor]()
        for name, weight in weights.items():
            part = weight
            if len(specs) > 1:
                weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
                part = weight.detach()[start:stop]
                part.grad = weight.grad[start:stop]
            (with_decay if weight.ndim > 2 and not name.endswith("bias") else without_decay).append(
                part
            )
        momentum = spec.momentum
        rule = {"momentum": momentum, "nesterov": momentum > 0}
        rate = spec.learning_rate
        device = next(iter(weights.values())).device
        groups += [
            {
                "params": tensors,
                "weight_decay": decay,
                "lr": torch.tensor(rate, device=device) if records else rate,
            }
            | ({"betas": (momentum, 0.999)} if adam else rule)
            for tensors, decay in ((with_decay, training.weight_decay), (without_decay, 0.0))
            if tensors
        ]
    if adam:
        return torch.optim.AdamW(groups, fused=True, capturable=records)
    return torch.optim.SGD(groups, fused=True)


def _schedule(optimizer: torch.optim.Optimizer, training: TrainingSettings, n_steps: int) -> Any:
    schedulers = torch.optim.lr_scheduler
    if training.schedule == "onecycle":
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        return schedulers.OneCycleLR(
            optimizer, rates, total_steps=n_steps + 1, pct_start=WARM_UP, cycle_momentum=False
        )
    if training.schedule == "cosine":
        return schedulers.CosineAnnealingLR(optimizer, n_steps)
    return schedulers.ConstantLR(optimizer, 1.0)
