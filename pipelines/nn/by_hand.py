"""Several networks of one architecture trained as one: a step of all is a few batched products.

A network is a convolution (or none), ReLU, a hidden layer, ReLU and one output for each class,
trained on cross-entropy; for a regression, it has one output, trained on half the squared error.
Training is stochastic gradient descent with momentum as in ``torch.optim.SGD``:
v <- momentum v + gradient, w <- w - learning_rate v. The gradients are written out by hand, so that
the product that computes a gradient adds it to v at once and never stores it: five passes over the
layer, where torch's fused SGD, which is given a stored gradient, needs six.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipelines.nn.inputs import Inputs, fan_in, weight_shapes
from pipelines.nn.space import NetworkSpec
from pipelines.nn.stack import Stack, Tensors, squared_loss, stack_scaling

if TYPE_CHECKING:
    import torch

# On a GPU the sums of a layer of LONG inputs or more are cut into pieces; see ``hidden_of``.
LONG, MOST_PIECES = 4096, 32


class StackedWeights:
    """Weights and velocities of the networks of a stack, and the step that changes them all.

    Attributes
    ----------
    weights, velocities : dict of str to tensors of shape (n_networks, *shape)
        By the names of ``weight_shapes``.
    loss : tensor of shape (n_networks,)
        Summed over the rows of all steps since it was last set to zero.
    """

    def __init__(self, stack: Stack) -> None:
        import torch

        self._torch, parts = torch, stack.parts
        self._spec, self._inputs, self._rows = stack.spec, stack.inputs, stack.rows
        device = self._rows.device
        self.weights = first_weights(
            self._spec, self._inputs, [part.generator for part in parts], device
        )
        self.velocities = {name: torch.zeros_like(weight) for name, weight in self.weights.items()}
        self.loss = torch.zeros(len(parts), device=device)
        self._scaling = stack_scaling(parts, device)
        self._pieces = 1
        if device.type == "cuda":
            self._pieces = pieces_of(self.weights["hidden.weight"].shape[1])
        self._target = stack_scaling(parts, device, "target")

    def narrow(self, first: int, count: int) -> StackedWeights:
        """A stack of ``count`` networks from ``first`` on, which shares the memory of this one."""
        slots, part = slice(first, first + count), copy.copy(self)
        part.weights, part.velocities = (
            {name: tensor[slots] for name, tensor in arrays.items()}
            for arrays in (self.weights, self.velocities)
        )
        part._scaling = [tensor[slots] for tensor in self._scaling]
        part._target = [scale[slots] for scale in self._target]
        part.loss = self.loss[slots]
        return part

    def move(self, source: int, target: int) -> None:
        """Copy the network of one slot over that of another."""
        weights = (*self.weights.values(), *self.velocities.values())
        for tensor in (*weights, *self._scaling, *self._target, self.loss):
            tensor[target].copy_(tensor[source])

    def step(self, batch: torch.Tensor) -> None:
        """Take one training step for every network, each on its own batch.

        Parameters
        ----------
        batch : int64 tensor of shape (n_networks, batch_size), on the device
            Row numbers in the data set.
        """
        n, size = batch.shape
        aten, spec = self._torch.ops.aten, self._spec
        w, v = self.weights, self.velocities
        flat = batch.view(-1)
        scale, momentum = 1.0 / size, spec.momentum

        X = self._rows.X.index_select(0, flat).view(n, size, self._inputs.n_features)
        if self._scaling:
            X.sub_(self._scaling[0]).div_(self._scaling[1])
        if spec.network == "conv":
            # Patches below the kernel at each position: (images, kernel pixels + 1, positions).
            # The bias is multiplied with the last line, of ones.
            assert self._inputs.image_shape is not None
            k = spec.kernel_size
            images = X.view(n * size, *self._inputs.image_shape)
            windows = images.unfold(1, k, 1).unfold(2, k, 1).permute(0, 3, 4, 1, 2)
            patches = X.new_ones(n * size, k * k + 1, *windows.shape[3:])
            patches[:, :-1].unflatten(1, (k, k)).copy_(windows)
            patches = patches.flatten(2)
            kernels = w["conv.weight"].unsqueeze(1).expand(-1, size, -1, -1)
            X = self._torch.bmm(kernels.flatten(0, 1), patches).view(n, size, -1).relu_()
        hidden = hidden_of(X, w["hidden.weight"], w["hidden.bias"], self._pieces).relu_()
        outputs = self._torch.baddbmm(w["output.bias"], hidden, w["output.weight"])
        truth = self._rows.targets.index_select(0, flat).view(n, size, -1)
        if self._target:
            truth.sub_(self._target[0]).div_(self._target[1])
            self.loss.add_(squared_loss(outputs, truth).sum((1, 2)))
            by_output = outputs.sub_(truth)
        else:
            certainty = self._torch.log_softmax(outputs, 2)
            self.loss.sub_((certainty * truth).sum((1, 2)))
            # For softmax and cross-entropy together, the gradient is probability minus truth.
            by_output = certainty.exp_().sub_(truth)
        by_hidden = self._torch.bmm(by_output, w["output.weight"].mT)
        aten.threshold_backward.grad_input(by_hidden, hidden, 0, grad_input=by_hidden)
        ones = hidden.new_ones(n, 1, size)
        v["output.weight"].baddbmm_(hidden.mT, by_output, beta=momentum, alpha=scale)
        v["output.bias"].baddbmm_(ones, by_output, beta=momentum, alpha=scale)
        if spec.network == "conv":
            by_X = by_inputs_of(by_hidden, w["hidden.weight"], self._pieces)
            aten.threshold_backward.grad_input(by_X, X, 0, grad_input=by_X)
            by_channel = by_X.view(n * size, spec.n_conv_layer, -1)
            by_row = self._torch.bmm(by_channel, patches.mT)
            by_kernel = by_row.view(n, size, *by_row.shape[1:]).sum(1)
            v["conv.weight"].mul_(momentum).add_(by_kernel, alpha=scale)
        v["hidden.weight"].baddbmm_(X.mT, by_hidden, beta=momentum, alpha=scale)
        v["hidden.bias"].baddbmm_(ones, by_hidden, beta=momentum, alpha=scale)
        self._torch._foreach_add_(
            [w[name] for name in v], list(v.values()), alpha=-spec.learning_rate
        )


def hidden_of(
    X: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, n_pieces: int
) -> torch.Tensor:
    """The hidden units before ReLU.

    Parameters
    ----------
    X : float32 tensor of shape (n_networks, size, n_inputs)
    weight, bias : float32 tensors
        In the shapes of ``weight_shapes``, with the networks as first axis.
    n_pieces : int
        Pieces of the inputs that are multiplied side by side and then added. In one piece the long
        sums of a few rows keep only a few of a GPU's multiprocessors busy: 9 ms in place of 2.5 on
        an H100, for five networks of 264,500 inputs and 1,000 hidden units.

    Returns
    -------
    float32 tensor of shape (n_networks, size, n_hidden)
    """
    import torch

    if n_pieces == 1:
        return torch.baddbmm(bias, X, weight)
    pieces = X.unflatten(2, (n_pieces, -1)).transpose(1, 2).flatten(0, 1)
    sums = torch.bmm(pieces, weight.unflatten(1, (n_pieces, -1)).flatten(0, 1))
    return sums.unflatten(0, (-1, n_pieces)).sum(1).add_(bias)


def by_inputs_of(by_hidden: torch.Tensor, weight: torch.Tensor, n_pieces: int) -> torch.Tensor:
    """Gradients by the inputs of a hidden layer, (n_networks, size, n_inputs).

    For a layer that is multiplied in pieces they are computed as (n_inputs, size) and transposed:
    2.3 ms in place of 3.7 for the networks that ``hidden_of`` names.

    Parameters
    ----------
    by_hidden : float32 tensor of shape (n_networks, size, n_hidden)
        Gradients by the hidden units before ReLU.
    weight, n_pieces
        As for ``hidden_of``.
    """
    import torch

    if n_pieces == 1:
        return torch.bmm(by_hidden, weight.mT)
    return torch.bmm(weight, by_hidden.mT).mT.contiguous()


def pieces_of(n_inputs: int) -> int:
    """How many equal pieces, at most ``MOST_PIECES``, the inputs of a layer are cut into."""
    if n_inputs < LONG:
        return 1
    return max(n for n in range(1, MOST_PIECES + 1) if n_inputs % n == 0)


def first_weights(
    spec: NetworkSpec,
    inputs: Inputs,
    generators: Sequence[np.random.Generator],
    device: torch.device,
) -> Tensors:
    """Draw the first weights of a stack of networks.

    They are uniform within 1 / sqrt(inputs of the layer), biases too, as ``torch.nn.Linear`` and
    ``Conv2d`` begin. numpy draws them, so that they are the same on every device.

    Parameters
    ----------
    spec, inputs : NetworkSpec, Inputs
        Decide the shapes.
    generators : sequence of numpy.random.Generator
        One for each network.
    device : torch.device

    Returns
    -------
    dict of str to float32 tensors of shape (n_networks, *shape); see ``weight_shapes``
    """
    import torch

    shapes = weight_shapes(spec, inputs)
    stacked = {
        name: torch.empty(len(generators), *shape, device=device) for name, shape in shapes.items()
    }
    for slot, generator in enumerate(generators):
        for name, shape in shapes.items():
            bound = fan_in(name, shapes) ** -0.5
            drawn = generator.random(shape, dtype=np.float32)
            drawn *= 2 * bound
            drawn -= bound
            stacked[name][slot].copy_(torch.from_numpy(drawn))
    return stacked


def epoch_order(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The rows in a random order, for one epoch, as int64."""
    return generator.permutation(rows).astype(np.int64)
