"""The plain way: a ``torch.nn.Module``, a ``DataLoader``, ``torch.optim.SGD``, fold by fold.

It begins with our first weights and takes rows in our orders, so that both ways must
come to the same numbers of epochs and, but for rounding, to the same errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Subset

from pipelines.nn.inputs import Inputs
from pipelines.nn.space import NetworkSpec

Tensors = dict[str, torch.Tensor]


class Net(torch.nn.Module):
    """The study's network, as PyTorch's tutorials write one."""

    def __init__(self, spec: NetworkSpec, inputs: Inputs) -> None:
        super().__init__()
        self.image_shape, n_inputs = inputs.image_shape, inputs.n_features
        self.conv: torch.nn.Conv2d | None = None
        if spec.network == "conv":
            height, width = inputs.positions(spec.kernel_size)
            self.conv = torch.nn.Conv2d(1, spec.n_conv_layer, spec.kernel_size)
            n_inputs = spec.n_conv_layer * height * width
        self.hidden = torch.nn.Linear(n_inputs, spec.n_hidden_layer)
        self.output = torch.nn.Linear(spec.n_hidden_layer, inputs.n_classes)
        self.activation = torch.nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs before softmax, (rows, classes), of rows (rows, features)."""
        if self.conv is not None:
            assert self.image_shape is not None
            x = self.activation(self.conv(x.view(-1, 1, *self.image_shape)))
        x = torch.flatten(x, 1)
        return self.output(self.activation(self.hidden(x)))

    def put(self, weights: Tensors) -> None:
        """Take over weights in our layout."""
        with torch.no_grad():
            if self.conv is not None and self.conv.bias is not None:
                kernels = weights["conv.weight"]
                self.conv.weight.copy_(kernels[:, :-1].reshape(self.conv.weight.shape))
                self.conv.bias.copy_(kernels[:, -1])
            for name, layer in (("hidden", self.hidden), ("output", self.output)):
                layer.weight.copy_(weights[f"{name}.weight"].mT)
                layer.bias.copy_(weights[f"{name}.bias"][0])

    def ours(self, of: Callable[[torch.Tensor], torch.Tensor] = torch.Tensor.detach) -> Tensors:
        """What ``of`` makes of each parameter, in our layout."""
        weights = {}
        if self.conv is not None and self.conv.bias is not None:
            kernels = of(self.conv.weight).flatten(1)
            weights["conv.weight"] = torch.cat([kernels, of(self.conv.bias)[:, None]], dim=1)
        for name, layer in (("hidden", self.hidden), ("output", self.output)):
            weights[f"{name}.weight"] = of(layer.weight).mT
            weights[f"{name}.bias"] = of(layer.bias)[None]
        return weights


def train_plainly(
    net: Net,
    dataset: Dataset[Any],
    next_order: Callable[[], np.ndarray],
    spec: NetworkSpec,
    *,
    batch_size: int,
    max_epochs: int,
    least_fall: float,
    device: str = "cpu",
) -> list[float]:
    """Train until an epoch's mean loss falls too little; the mean loss of each epoch."""
    optimiser = torch.optim.SGD(net.parameters(), lr=spec.learning_rate, momentum=spec.momentum)
    criterion = torch.nn.CrossEntropyLoss()
    losses: list[float] = []
    while len(losses) < max_epochs:
        order = next_order()
        total = 0.0
        loader = DataLoader(dataset, batch_size=batch_size, sampler=order.tolist())
        for X, y in loader:
            rows, target = X.to(device), y.to(device)
            optimiser.zero_grad()
            loss = criterion(net(rows), target)
            loss.backward()
            optimiser.step()
            total += loss.item() * len(y)
        losses.append(total / len(order))
        falls = len(losses) == 1 or losses[-1] < (1 - least_fall) * losses[-2]
        if not falls or not math.isfinite(losses[-1]):
            break
    return losses


def count_errors(net: Net, dataset: Dataset[Any], rows: np.ndarray, device: str = "cpu") -> int:
    """Rows of the data set that the network gets wrong."""
    n_errors = 0
    with torch.no_grad():
        for X, y in DataLoader(Subset(dataset, rows.tolist()), batch_size=1000):
            predicted = net(X.to(device)).argmax(1)
            n_errors += int((predicted != y.to(device)).sum())
    return n_errors
