"""Networks of one candidate that are trained together: their rows, scores and results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from pipelines.data.placement import FoldedData
from pipelines.data.preparation import Preparation
from pipelines.data.scaling import FittedScaling
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import Training, torch_device
from pipelines.nn.size import scoring_rows
from pipelines.nn.space import Candidate

if TYPE_CHECKING:
    import torch

Tensors = dict[str, "torch.Tensor"]
Result = TypeVar("Result")
ProgressCallback = Callable[[float], None]
OK, DIVERGED = "ok", "diverged"


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
        Of the data set; a row may occur more than once.
    generator : numpy Generator
        Draws its first weights, then the order of every epoch.
    scaling : FittedScaling, optional
        Of the placed rows; see ``relative_scaling``.
    out_of_bag : int array, optional
        Rows that were not drawn, each once: they end the training of a network for tables.
    weights : float array, optional
        What each of those counts there; by default all alike.
    candidate : Candidate, optional
        Its own; only modules may have another learning rate and momentum than the stack's.
    """

    rows: np.ndarray
    generator: np.random.Generator
    scaling: FittedScaling | None = None
    out_of_bag: np.ndarray | None = None
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
    crossed : sequence of two weights by name, or empty
        Of a network for tables that its left-out rows ended: as it was where the odd ones of these
        ended it, by which the even ones (the first, the third, ...) are judged, and the reverse.
        Rows that chose the epoch themselves look better than new ones.
    """

    result: Result
    losses: tuple[float, ...]
    status: str
    seconds: float
    crossed: Sequence[Tensors] = ()


@dataclass(frozen=True)
class Score:
    """The errors and the mean cross-entropy of a network on some rows."""

    n_rows: int
    n_errors: int
    loss: float
    seconds: float


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
        n_errors, loss = 0, 0.0
        for block in index.split(scoring_rows(self.candidate, self.inputs)):
            X = self.parts[slot].scaled(rows.X.index_select(0, block))
            certainty = log_certainty(network, weights, X, self.inputs)
            truth = rows.one_hot.index_select(0, block)
            n_errors += int((certainty.argmax(1) != truth.argmax(1)).sum())
            loss -= float((certainty * truth).sum())
        seconds = time.perf_counter() - started
        return Score(len(some), n_errors, loss / max(1, len(some)), seconds)


def place_stack(
    data: FoldedData,
    candidates: Sequence[Candidate],
    drawn: Sequence[tuple[np.ndarray, np.ndarray]],
    generators: Sequence[np.random.Generator],
    inputs: Inputs,
    training: Training,
    n_rows: int,
) -> Stack:
    """Place what a stack is trained on: for each of its networks the rows drawn, and left out.

    Its candidates are of one architecture; only modules may differ in the rest.
    A table whose preparation is more than a mean and a deviation of each column is placed
    once for each network, prepared on its own rows alone.
    """
    step = 0
    scalings: list[FittedScaling | None] = [None] * len(drawn)
    if isinstance(data.scaling, Preparation):
        step = len(data.y)
        prepared = [data.scaling_for(rows).transform(data.X) for rows, _ in drawn]
        placed = _placed(np.concatenate(prepared), np.tile(data.y, len(drawn)), inputs, training)
    else:
        placed = place_rows(data, inputs, training)
        if _as_they_came(inputs, training):
            scalings = [data.scaling_for(rows) for rows, _ in drawn]
        elif data.scaling.kind == "standardise":
            scalings = [relative_scaling(data, rows) for rows, _ in drawn]
    weights = np.ones(len(data.y)) if data.weights is None else data.weights
    parts = [
        Part(slot * step + rows, own, scaling, slot * step + left_out, weights[left_out], candidate)
        for slot, ((rows, left_out), own, scaling, candidate) in enumerate(
            zip(drawn, generators, scalings, candidates, strict=True)
        )
    ]
    return Stack(candidates[0], inputs, placed, parts, step, n_rows)


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
