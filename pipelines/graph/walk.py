"""The surfer of PageRank: where it goes from a node, and where it jumps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError, opt
from pipelines.graph.graph import known

Array = NDArray[np.float64]

DANGLING = ("uniform", "personalised", "none")


@dataclass(frozen=True, eq=False)
class Walk:
    """Follow an edge with probability alpha, in proportion to its weight, else jump.

    Attributes
    ----------
    alpha : float
        The damping factor, strictly between 0 and 1.
    personal : float64 of shape (n_nodes, k), or None
        Where to jump: k vectors, each at least 0 and of sum 1. None: anywhere alike, k = 1.
    dangling : str
        What happens at a node that no weight leaves: a jump anywhere alike ("uniform") or as
        ``personal`` says ("personalised"); "none": the surfer is lost, and ranks add up to
        less than 1.

    Raises
    ------
    InputError
        alpha is not between 0 and 1, or the rule is unknown.
    """

    n_nodes: int
    alpha: float = 0.85
    personal: Array | None = None
    dangling: str = "uniform"

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise InputError(
                f"{opt('alpha')} must lie strictly between 0 and 1, got {self.alpha}; 0.85 is usual"
            )
        known("dangling", self.dangling, DANGLING)

    @property
    def n_vectors(self) -> int:
        return 1 if self.personal is None else self.personal.shape[1]

    @cached_property
    def jump(self) -> Array:
        """Where to jump, of shape (n_nodes, k), or (1, 1) where that is anywhere alike."""
        return np.full((1, 1), 1 / self.n_nodes) if self.personal is None else self.personal

    def start(self) -> Array:
        """Ranks to begin with, of shape (n_nodes, k): a jump from nowhere."""
        return np.ascontiguousarray(np.broadcast_to(self.jump, (self.n_nodes, self.n_vectors)))

    def shares(self, lost: Array) -> tuple[Array, Array]:
        """What a node gets that follows no edge: ``first * jump + second``.

        Parameters
        ----------
        lost : of shape (k,)
            The rank on nodes that no weight leaves.

        Returns
        -------
        first, second : of shape (k,)
        """
        onto_jump = np.full_like(lost, 1 - self.alpha)
        if self.dangling == "none":
            return onto_jump, np.zeros_like(lost)
        if self.personal is None or self.dangling == "personalised":
            return onto_jump + self.alpha * lost, np.zeros_like(lost)
        return onto_jump, self.alpha * lost / self.n_nodes


def inverse(out_weight: Array) -> Array:
    """1 / weight that leaves a node, and 0 where none does; of shape (n,)."""
    return np.divide(1.0, out_weight, out=np.zeros_like(out_weight), where=out_weight > 0)
