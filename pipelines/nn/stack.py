"""Networks of one candidate that are trained together: their rows, scores and results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from pipelines.data.placement import FoldedData
from pipelines.data.preparation import Preparation
from pipelines.data.scaling import FittedScaling
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import Training, torch_device
from pipelines.nn.size import scoring_rows
from pipelines.nn.space import Candidate
from pipelines.run_folder.names import DIVERGED, OK

if TYPE_CHECKING:
    import torch

Tensors = dict[str, "torch.Tensor"]
Result = TypeVar("Result")

__all__ = ["DIVERGED", "OK"]


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Rows and their classes on a device, from which every batch is gathered by index.

    Attributes
    ----------
    X : float32 tensor of shape (n_samples, n_features)
        Scaled; a table is standardised as a whole. Images may be as they came, or uint8.
    one_hot : float32 tensor of shape (n_samples, n_classes)
    brightest : float
        Of images as they came, what is white.
    """

    X: torch.Tensor
    one_hot: torch.Tensor
    brightest: float = 1.0

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return self.X.nbytes + self.one_hot.nbytes

    @property
    def device(self) -> torch.device:
        return self.X.device


@dataclass(frozen=True)
class Part:
    """A network of a stack, with the rows that it is trained on.

    Attributes
    ----------
    rows : int array
        Of the data set, or of a stack of those that are placed; a row may occur more than once.
    generator : numpy Generator
        Draws its first weights, then the order of every epoch.
    scaling : FittedScaling, optional
        Of the placed rows; see ``relative_scaling``.
    out_of_bag : int array
        Rows that were not drawn, each once: they end the training of a network for tables.
    weights : float array, optional
        What each of those counts there; by default all alike.
    candidate : Candidate, optional
        Its own; only modules may have another learning rate and momentum than the stack's.
    """

    rows: np.ndarray
    generator: np.random.Generator
    scaling: FittedScaling | None = None
    out_of_bag: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    weights: np.ndarray | None = None
    candidate: Candidate | None = None

    def scaled(self, X: torch.Tensor) -> torch.Tensor:
        """Return placed rows, brought to the scale of the network's own where they are."""
        X = X.float()  # images are placed as bytes
        scaling = scaling_of([self], X.device)
        return X.sub_(scaling[0][0]).div_(scaling[1][0]) if scaling else X


def scaling_of(parts: Sequence[Part], device: torch.device) -> list[torch.Tensor]:
    """Return centers and scales, (n_networks, 1, n_features or 1), or none of both."""
    import torch

    if any(part.scaling is None for part in parts):
        return []
    return [
        torch.from_numpy(
            np.stack([np.atleast_1d(getattr(part.scaling, name)) for part in parts])
        ).to(device, torch.float32)[:, None]
        for name in ("center", "scale")
    ]


@dataclass(frozen=True)
class Trained(Generic[Result]):
    """A trained network.

    Attributes
    ----------
    result : what ``collect`` made of it
    losses : mean cross-entropy of each epoch, measured while the weights moved
    status : "ok" or "diverged"
    seconds : of the stack's training, shared out among its networks
    """

    result: Result
    losses: tuple[float, ...]
    status: str
    seconds: float


@dataclass(frozen=True)
class Score:
    """What a network says of some rows, its errors and its mean cross-entropy.

    Attributes
    ----------
    certainty : float32 array of shape (n_rows, n_classes), the logarithms of its probabilities
    """

    n_rows: int
    n_errors: int
    loss: float
    seconds: float
    certainty: np.ndarray


@dataclass(frozen=True, eq=False)
class Stack:
    """A candidate, rows on the device, and for each network which of them are its own.

    Row r of the data set is row ``slot * step + r`` for the network of ``parts[slot]``.

    Attributes
    ----------
    n_rows : int
        Rows of the smallest part of the task, of which this stack may be a share: a module's
        networks all take the steps that it has rows for.
    """

    candidate: Candidate
    inputs: Inputs
    rows: DeviceRows
    parts: list[Part]
    step: int = 0
    n_rows: int = 0

    def score(self, slot: int, some: np.ndarray, weights: Tensors) -> Score:
        """Score one network on rows of the data set."""
        import torch

        from pipelines.nn.networks import log_certainty, network_to_ask

        started = time.perf_counter()
        rows = self.rows
        network = network_to_ask(self.candidate, self.inputs, rows.device)
        index = torch.from_numpy(some.astype(np.int64) + slot * self.step).to(rows.device)
        n_errors, loss, said = 0, 0.0, []
        for block in index.split(scoring_rows(self.candidate, self.inputs)):
            X = self.parts[slot].scaled(rows.X.index_select(0, block))
            certainty = log_certainty(network, weights, X, self.inputs)
            truth = rows.one_hot.index_select(0, block)
            n_errors += int((certainty.argmax(1) != truth.argmax(1)).sum())
            loss -= float((certainty * truth).sum())
            said.append(certainty.cpu().numpy())
        seconds = time.perf_counter() - started
        return Score(len(some), n_errors, loss / max(1, len(some)), seconds, np.concatenate(said))


def place_stack(
    data: FoldedData, parts: Sequence[Part], inputs: Inputs, training: Training, n_rows: int
) -> Stack:
    """Place what a stack is trained on, for each of its networks the rows drawn, and left out.

    Their candidates are of one architecture; only modules may differ in the rest.
    A table whose preparation is more than a mean and a deviation of each column is placed
    once for each network, prepared on its own rows alone.
    """
    step = 0
    scalings: list[FittedScaling | None] = [None] * len(parts)
    if isinstance(data.scaling, Preparation):
        step = len(data.y)
        prepared = [data.scaling_for(part.rows).transform(data.X) for part in parts]
        placed = _placed(np.concatenate(prepared), np.tile(data.y, len(parts)), inputs, training)
    else:
        placed = place_rows(data, inputs, training)
        if _as_they_came(inputs, training):
            scalings = [data.scaling_for(part.rows) for part in parts]
        elif data.scaling.kind == "standardise":
            scalings = [relative_scaling(data, part.rows) for part in parts]
    weights = np.ones(len(data.y)) if data.weights is None else data.weights
    on_device = []
    for slot, (part, scaling) in enumerate(zip(parts, scalings, strict=True)):
        rows, left_out = slot * step + part.rows, slot * step + part.out_of_bag
        weighs = weights[part.out_of_bag]
        placed_part = replace(part, rows=rows, out_of_bag=left_out, scaling=scaling, weights=weighs)
        on_device.append(placed_part)
    candidate = parts[0].candidate
    assert candidate is not None
    return Stack(candidate, inputs, placed, on_device, step, n_rows)


def place_rows(data: FoldedData, inputs: Inputs, training: Training) -> DeviceRows:
    """Place the training rows of every network on the device, once in this process.

    Images for a module stay as they came, bytes or numbers, so that they can be augmented, and
    each network scales its batches.
    """
    as_they_came = _as_they_came(inputs, training)

    def place() -> DeviceRows:
        if as_they_came:
            X = np.ascontiguousarray(data.X, None if data.X.dtype == np.uint8 else np.float32)
            return _placed(X, data.y, inputs, training, brightest_of(X))
        X = data.scaling_for(None).transform(data.X).astype(np.float32, copy=False)
        return _placed(X, data.y, inputs, training)

    return data.placement.get(("torch", training.device, as_they_came), place)


def _as_they_came(inputs: Inputs, training: Training) -> bool:
    return training.optimizer is not None and inputs.image_shape is not None


def _placed(
    X: np.ndarray, y: np.ndarray, inputs: Inputs, training: Training, *brightest: float
) -> DeviceRows:
    import torch

    where = torch_device(training.device)
    one_hot = np.eye(inputs.n_classes, dtype=np.float32)[y]
    return DeviceRows(
        torch.from_numpy(X).to(where), torch.from_numpy(one_hot).to(where), *brightest
    )


def brightest_of(X: np.ndarray) -> float:
    """Return what is white in images: 1 where no pixel is above it, else 255."""
    return 1.0 if X.dtype != np.uint8 and X.max(initial=0) <= 1 else 255.0


def relative_scaling(data: FoldedData, rows: np.ndarray) -> FittedScaling:
    """Return the map from rows standardised as a whole to rows standardised on ``rows``.

    It takes out again what the placed rows know of the rows left out.
    """
    whole, own = data.scaling_for(None), data.scaling_for(rows)
    assert isinstance(whole, FittedScaling)
    assert isinstance(own, FittedScaling)
    return FittedScaling((own.center - whole.center) / whole.scale, own.scale / whole.scale)
