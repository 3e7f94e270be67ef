"""Several networks of one architecture as one: a step of all is a few batched products.

The network: convolution (or none), ReLU, hidden layer, ReLU, one output for each class,
cross-entropy. Training: stochastic gradient descent with momentum as ``torch.optim.SGD``
has it, v <- momentum v + gradient, w <- w - learning_rate v. The gradients are written out,
so that each is added to its v in the product that makes it and is never stored itself: five
passes over the layer, where ``torch``'s fused SGD needs six with the gradient it is given.
That of a large hidden layer is put off, see ``pipelines.nn.delayed``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipelines.nn.delayed import LAYER, DelayedUpdates
from pipelines.nn.inputs import Inputs, fan_in, weight_shapes
from pipelines.nn.space import Candidate

if TYPE_CHECKING:
    import torch

    from pipelines.nn.device_rows import DeviceRows

Tensors = dict[str, "torch.Tensor"]


class StackedWeights:
    """The weights and velocities of ``n_slots`` networks, and a step of all of them.

    Attributes
    ----------
    weights, velocities : tensors of shape (n_slots, *shape), by name; see ``weight_shapes``
    scaling : tensors ``center`` and ``scale`` of shape (n_slots, 1, n_features), or none
        Brings the rows to the scale of each network's own training rows.
    loss : tensor of shape (n_slots,)
        Summed over the rows of all steps since it was last set to zero.
    delayed : DelayedUpdates or None
        Of the hidden layer, whose entry in ``weights`` is then what they begin from, and
        which has no velocity.
    """

    def __init__(
        self,
        candidate: Candidate,
        inputs: Inputs,
        rows: DeviceRows,
        weights: Tensors,
        velocities: Tensors,
        scaling: Tensors,
        loss: torch.Tensor,
        delayed: DelayedUpdates | None = None,
    ) -> None:
        import torch

        self._torch = torch
        self._candidate, self._inputs, self._rows = candidate, inputs, rows
        self.weights, self.velocities, self.scaling = weights, velocities, scaling
        self.loss, self.delayed = loss, delayed
        self._work: Workspace | None = None

    @property
    def n_slots(self) -> int:
        return len(self.loss)

    def narrow(self, first: int, count: int) -> StackedWeights:
        """Return a stack of some of the networks, sharing their memory."""
        slots = slice(first, first + count)
        weights, velocities, scaling = (
            {name: one[slots] for name, one in arrays.items()}
            for arrays in (self.weights, self.velocities, self.scaling)
        )
        return StackedWeights(
            self._candidate, self._inputs, self._rows, weights, velocities, scaling,
            self.loss[slots], self.delayed and self.delayed.narrow(slots),
        )  # fmt: skip

    def move(self, source: int, target: int) -> None:
        """Put the network of one slot into another, over what was there."""
        for arrays in (self.weights, self.velocities, self.scaling):
            for one in arrays.values():
                one[target].copy_(one[source])
        for one in self.delayed.arrays if self.delayed else ():
            one[target].copy_(one[source])
        self.loss[target].copy_(self.loss[source])

    def step(self, batch: torch.Tensor) -> None:
        """Make one step of every network, each on a batch of its own.

        Parameters
        ----------
        batch : int64 tensor of shape (n_slots, batch_size), on the device
            Rows of the data set.
        """
        self.compute(batch)
        self.count_step()

    def count_step(self) -> None:
        """Advance counters after a step, which a recorded graph does not contain."""
        if self.delayed:
            self.delayed.count_step()

    def settle(self) -> None:
        """Do what was put off; before ``narrow``, ``move`` and ``finish``."""
        if self.delayed:
            self.delayed.settle()

    def finish(self, slot: int) -> Tensors:
        """Return the weights of one network, which takes no further step: views of the stack's."""
        weights = {name: one[slot] for name, one in self.weights.items()}
        if self.delayed:
            weights[LAYER] = self.delayed.finish(slot)
        return weights

    def compute(self, batch: torch.Tensor) -> None:
        """Compute the part of a step that is the same each time, so that it can be recorded."""
        n, size = batch.shape
        work = self._workspace(n, size)
        aten = self._torch.ops.aten
        w, v = self.weights, self.velocities
        flat = batch.view(-1)
        scale, momentum = 1.0 / size, self._candidate.momentum

        entered = self._gather(flat, n)
        features = self._convolve(entered, work) if work.patches is not None else entered
        hidden = work.hidden
        if self.delayed:
            self.delayed.outputs(features, w["hidden.bias"], out=hidden)
        else:
            self._torch.baddbmm(w["hidden.bias"], features, w[LAYER], out=hidden)
        hidden.relu_()
        outputs = self._torch.baddbmm(w["output.bias"], hidden, w["output.weight"])
        certainty = self._torch.log_softmax(outputs, 2)
        truth = self._rows.one_hot.index_select(0, flat).view(n, size, -1)
        self.loss.sub_((certainty * truth).sum((1, 2)))

        by_output = certainty.exp_().sub_(truth)
        by_hidden = self._torch.bmm(by_output, w["output.weight"].mT)
        aten.threshold_backward.grad_input(by_hidden, hidden, 0, grad_input=by_hidden)
        v["output.weight"].baddbmm_(hidden.mT, by_output, beta=momentum, alpha=scale)
        v["output.bias"].baddbmm_(work.ones, by_output, beta=momentum, alpha=scale)
        if work.patches is not None:
            by_features = work.by_features
            if self.delayed:
                self.delayed.by_inputs(by_hidden, out=by_features)
            else:
                self._torch.bmm(by_hidden, w[LAYER].mT, out=by_features)
            aten.threshold_backward.grad_input(by_features, features, 0, grad_input=by_features)
            by_channel = by_features.view(n * size, self._candidate.n_conv_layer, -1)
            by_row = self._torch.bmm(by_channel, work.patches.mT)
            by_kernel = by_row.view(n, size, *by_row.shape[1:]).sum(1)
            v["conv.weight"].mul_(momentum).add_(by_kernel, alpha=scale)
        if self.delayed:
            self.delayed.keep(features, by_hidden)
        else:
            v[LAYER].baddbmm_(features.mT, by_hidden, beta=momentum, alpha=scale)
        v["hidden.bias"].baddbmm_(work.ones, by_hidden, beta=momentum, alpha=scale)
        self._torch._foreach_add_(
            [w[name] for name in v], list(v.values()), alpha=-self._candidate.learning_rate
        )

    def _gather(self, flat: torch.Tensor, n: int) -> torch.Tensor:
        """Return rows by index, as each network is to see them: (n, batch_size, n_features)."""
        rows = self._rows.X.index_select(0, flat).view(n, -1, self._inputs.n_features)
        if self.scaling:
            rows.sub_(self.scaling["center"]).div_(self.scaling["scale"])
        return rows

    def _convolve(self, images: torch.Tensor, work: Workspace) -> torch.Tensor:
        """Return the convolution's outputs after ReLU, (n, batch_size, channels * positions)."""
        n, size = images.shape[:2]
        candidate, patches = self._candidate, work.patches
        assert patches is not None
        _unfold_into(work.windows, images, self._inputs, candidate.kernel_size)
        kernels = self.weights["conv.weight"].unsqueeze(1).expand(-1, size, -1, -1)
        features = work.features
        flat = features.view(n * size, candidate.n_conv_layer, -1)
        self._torch.bmm(kernels.reshape(n * size, *kernels.shape[2:]), patches, out=flat)
        return features.relu_()

    def _workspace(self, n: int, size: int) -> Workspace:
        """Return the buffers for batches of this size, made at the first step."""
        if self._work is None or self._work.sizes != (n, size):
            self._work = Workspace(self._candidate, self._inputs, n, size, self._rows.device)
        return self._work


class Workspace:
    """Buffers that a step writes and the next one overwrites."""

    def __init__(
        self, candidate: Candidate, inputs: Inputs, n: int, size: int, device: torch.device
    ) -> None:
        import torch

        self.sizes = (n, size)
        shapes = weight_shapes(candidate, inputs)
        n_features, n_hidden = shapes["hidden.weight"]
        self.ones = torch.ones(n, 1, size, device=device)
        self.hidden = torch.empty(n, size, n_hidden, device=device)
        self.patches: torch.Tensor | None = None
        if candidate.network == "conv":
            height, width = inputs.positions(candidate.kernel_size)
            k = candidate.kernel_size
            # The last line of ones is what the bias is multiplied with.
            self.patches = torch.ones(n * size, k * k + 1, height * width, device=device)
            self.windows = self.patches[:, : k * k].unflatten(2, (height, width))
            self.windows = self.windows.unflatten(1, (k, k))
            self.features = torch.empty(n, size, n_features, device=device)
            self.by_features = torch.empty_like(self.features)


def _unfold_into(windows: torch.Tensor, images: torch.Tensor, inputs: Inputs, k: int) -> None:
    """Copy, for each pixel of the kernel, the part of each image that it meets.

    ``windows`` is (images, k, k, height, width of positions).
    """
    assert inputs.image_shape is not None
    height, width = inputs.image_shape
    lines, columns = inputs.positions(k)
    images = images.view(-1, height * width)
    windows.copy_(
        images.as_strided(
            (len(images), k, k, lines, columns), (height * width, width, 1, width, 1),
            images.storage_offset(),
        )
    )  # fmt: skip


def first_weights(
    candidate: Candidate,
    inputs: Inputs,
    generators: Sequence[np.random.Generator],
    device: torch.device,
) -> dict[str, torch.Tensor]:
    """Return first weights of a stack of networks, one for each generator.

    Uniform within 1 / sqrt(inputs of the layer), biases too, as ``torch.nn.Linear`` and
    ``Conv2d`` begin; drawn by numpy, so that they are the same on every device.

    Returns
    -------
    float32 tensors of shape (n_networks, *shape), by name; see ``weight_shapes``
    """
    import torch

    shapes = weight_shapes(candidate, inputs)
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
    """Return ``rows`` in the order of one epoch, int64."""
    return generator.permutation(rows).astype(np.int64)
