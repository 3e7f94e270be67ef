"""Networks of one candidate that are trained together: their rows, scores and results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from pipelines.data.scaling import FittedScaling
from pipelines.nn.device_rows import DeviceRows
from pipelines.nn.inputs import Inputs
from pipelines.nn.size import scoring_rows
from pipelines.nn.space import Candidate

if TYPE_CHECKING:
    import torch

Tensors = dict[str, "torch.Tensor"]
Result = TypeVar("Result")
ProgressCallback = Callable[[float], None]
OK, DIVERGED = "ok", "diverged"


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
    """

    rows: np.ndarray
    generator: np.random.Generator
    scaling: FittedScaling | None = None
    out_of_bag: np.ndarray | None = None
    weights: np.ndarray | None = None

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
    seconds : of the stack's training up to the end of this network, shared out among
        the networks that were trained meanwhile
    """

    result: Result
    losses: tuple[float, ...]
    status: str
    seconds: float


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
