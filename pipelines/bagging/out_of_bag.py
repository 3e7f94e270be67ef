"""Out-of-bag predictions: those for training rows, by members whose samples lack them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np


class OutOfBagPrediction(NamedTuple):
    """A member's predictions for the third of the rows that its bootstrap sample left out.

    Attributes
    ----------
    rows : int32 array of shape (n_left_out,)
    probabilities, distance : as of ``Prediction``
    """

    rows: np.ndarray
    probabilities: np.ndarray
    distance: np.ndarray


@dataclass(frozen=True, eq=False)
class OutOfBag:
    """Training rows that at least one member left out, and what those members say together.

    Breiman, Out-of-bag estimation (1996): a row is judged as a new sample would be, though by
    a third of the members.

    Attributes
    ----------
    mean : float32 array of shape (n_rows, n_classes)
        Mean certainty of the members that left a row out.
    vote : int64 array of shape (n_rows,), class codes
    truth : int32 array of shape (n_rows,), class codes
    distance : float32 array of shape (n_rows,)
        Mean of those members' distances of their last hidden layers.
    """

    mean: np.ndarray
    vote: np.ndarray
    truth: np.ndarray
    distance: np.ndarray

    @classmethod
    def of(cls, predictions: Iterable[OutOfBagPrediction], y: np.ndarray, n_classes: int) -> Self:
        """Pool what members say; ``y`` are the codes of all training rows."""
        total = np.zeros((len(y), n_classes))
        votes = np.zeros((len(y), n_classes), dtype=np.int64)
        n_members, distances = np.zeros(len(y), dtype=np.int64), np.zeros(len(y))
        for rows, probabilities, distance in predictions:
            total[rows] += probabilities
            distances[rows] += distance
            votes[rows, probabilities.argmax(axis=1)] += 1
            n_members[rows] += 1
        assessed = n_members > 0
        mean = total[assessed] / n_members[assessed, None]
        vote = (votes[assessed] + mean / 2).argmax(axis=1)  # the tie rule of the ensemble
        distance = (distances[assessed] / n_members[assessed]).astype(np.float32)
        return cls(mean.astype(np.float32), vote, y[assessed].astype(np.int32), distance)

    @property
    def certainty(self) -> np.ndarray:
        """Return the mean certainty of the class that was voted for, of shape (n_rows,)."""
        return self.mean[np.arange(len(self.vote)), self.vote]

    @property
    def is_wrong(self) -> np.ndarray:
        """Bool array of shape (n_rows,)."""
        return self.vote != self.truth
