"""One network of those that are trained together: its inputs and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from pipelines.data.scaling import FittedScaling

if TYPE_CHECKING:
    import torch

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
        import torch

        if self.scaling is None:
            return X
        center, scale = (
            torch.from_numpy(np.asarray(one, dtype=np.float32)).to(X.device)
            for one in (self.scaling.center, self.scaling.scale)
        )
        return X.sub_(center).div_(scale)


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
