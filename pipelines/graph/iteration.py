"""The random surfer, when the power iteration ends, and how far off its ranks may be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.data.tables.words import counted, short
from pipelines.errors import InputError, opt
from pipelines.graph.edges import check_choice, check_number
from pipelines.graph.vectors import vectors_by_node

Array = NDArray[np.float64]

# Called with the number of each iteration, from 1, and its change.
Callback = Callable[[int, float], None]

DOUBLE = 2.0**-53
SINGLE = 2.0**-24
DANGLING = ("uniform", "personalised", "none")


def ignore(iteration: int, change: float) -> None:
    """Do nothing: the default callback."""


@dataclass(frozen=True, eq=False)
class RandomSurfer:
    """Follow an edge with probability alpha, in proportion to its weight, else jump.

    Attributes
    ----------
    alpha : float
        The damping factor, strictly between 0 and 1.
    personalisation : float64 of shape (n_nodes, k), or None
        Where to jump: k vectors, each at least 0 and of sum 1. None: anywhere alike, k = 1.
    dangling : str
        What happens at a dangling node, which no weight leaves: a jump anywhere alike ("uniform")
        or as ``personalisation`` says ("personalised"); "none": the surfer is lost, and ranks add
        up to less than 1.
    initial : float64 of shape (n_nodes, k), or None
        Ranks to begin with.

    Raises
    ------
    InputError
        alpha is not between 0 and 1, or the rule is unknown.
    """

    n_nodes: int
    alpha: float = 0.85
    personalisation: Array | None = None
    dangling: str = "uniform"
    initial: Array | None = None

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha)
        if not 0 < self.alpha < 1:
            raise InputError(
                f"{opt('alpha')} must lie strictly between 0 and 1, got {self.alpha}; 0.85 is usual"
            )
        check_choice("dangling", self.dangling, DANGLING)

    @property
    def n_vectors(self) -> int:
        return 1 if self.personalisation is None else self.personalisation.shape[1]

    @cached_property
    def jump(self) -> Array:
        """The personalisation vectors, of shape (n_nodes, k), or (1, 1) if uniform."""
        if self.personalisation is None:
            return np.full((1, 1), 1 / self.n_nodes)
        return self.personalisation

    def start(self) -> Array:
        """Ranks to begin with, of shape (n_nodes, k); unless known, a jump from nowhere."""
        if self.initial is not None:
            return self.initial
        return np.ascontiguousarray(np.broadcast_to(self.jump, (self.n_nodes, self.n_vectors)))

    def jump_weights(self, dangling_rank: Array) -> tuple[Array, Array]:
        """Return ``first`` and ``second``: a node gets ``first * jump + second`` by jumps.

        Parameters
        ----------
        dangling_rank : of shape (k,)
            The sum of the ranks of dangling nodes.
        """
        first = np.full_like(dangling_rank, 1 - self.alpha)
        if self.dangling == "none":
            return first, np.zeros_like(dangling_rank)
        if self.personalisation is None or self.dangling == "personalised":
            return first + self.alpha * dangling_rank, np.zeros_like(dangling_rank)
        return first, self.alpha * dangling_rank / self.n_nodes


def surfer_on(
    nodes: pd.Index, alpha: float, dangling: str, personalise: Any, start: Any = None
) -> tuple[RandomSurfer, list[str], list[str]]:
    """The surfer on these nodes, the names of the vectors, and what was noticed in files.

    Parameters
    ----------
    personalise : None; a mapping or Series from nodes to numbers of at least 0; a frame with nodes
        as its index and a column for each vector; or the path of a table, with or without a header
        line, whose first column names nodes and whose others are vectors, where what is missing
        is 0
    start : None, or ranks that are known, in the same forms: of the vectors by name, or of one
        column for all; nodes that are none of these are left out, and nodes without a rank get
        what a jump gives them

    Raises
    ------
    InputError
        As ``RandomSurfer`` does; the file cannot be read, a node is unknown or stands there twice,
        a number is negative, infinite or NaN, or a vector is 0 everywhere.
    """
    surfer, names, notes = RandomSurfer(len(nodes), alpha, None, dangling), ["rank"], list[str]()
    if personalise is not None:
        jumps, notes = vectors_by_node("personalise", personalise, nodes)
        if len(jumps.unknown):
            raise InputError(
                f"{opt('personalise')} must name nodes of the graph, got "
                f"{short(jumps.unknown[0])}, which is none; drop it or add an edge"
            )
        names = jumps.names
        surfer = RandomSurfer(len(nodes), alpha, jumps.scaled(), dangling)
    if start is not None:
        ranks, start_notes = start_ranks(start, nodes, surfer, names)
        surfer, notes = replace(surfer, initial=ranks), [*notes, *start_notes]
    return surfer, names, notes


def start_ranks(
    start: Any, nodes: pd.Index, surfer: RandomSurfer, names: list[str]
) -> tuple[Array, list[str]]:
    """Ranks to begin with, of shape (n, k) and sum 1, and what is to be said of them."""
    table, notes = vectors_by_node("start", start, nodes)
    if not table.has_row.any():
        raise InputError(
            f"{opt('start')} must have ranks of nodes of the graph, got {short(table.unknown[0])} "
            "and others, which are none; take those of a graph with the same names"
        )
    order = [table.names.index(name) for name in names if name in table.names]
    if len(order) < len(names):
        if len(table.names) > 1:
            raise InputError(
                f"{opt('start')} must have one column of ranks, or one for each vector "
                f"({', '.join(names)}), got {', '.join(table.names)}; rename or drop some"
            )
        order = [0] * len(names)
    is_new, ranks = ~table.has_row, table.values[:, order]
    if surfer.dangling != "none" or (ranks.sum(axis=0) > 1).any():  # else their sum is less than 1
        ranks = table.scaled()[:, order]
    if len(table.unknown):
        words = counted(len(table.unknown), "node that is", "nodes that are")
        notes.append(f"start: {words} not in the graph left out, such as {short(table.unknown[0])}")
    if is_new.any():
        ranks[is_new] = np.broadcast_to(surfer.jump, ranks.shape)[is_new]
        ranks /= np.maximum(ranks.sum(axis=0), 1)
        words = counted(int(is_new.sum()), "node has", "nodes have")
        first = short(nodes[int(np.argmax(is_new))])
        notes.append(f"start: {words} no rank yet, such as {first}: what a jump gives")
    return np.ascontiguousarray(ranks), notes


@dataclass(frozen=True)
class StoppingRule:
    """The stopping rule of an iteration.

    tol : the L1 norm of the change at which all vectors are done; None: never
    iterations : at most, at least 1; None: as many as ``tol`` can need

    Raises
    ------
    InputError
        Neither is given, or one is out of its range.
    """

    tol: float | None = 1e-6
    iterations: int | None = None

    def __post_init__(self) -> None:
        if self.tol is not None:
            check_number("tol", self.tol)
        if self.iterations is not None:
            check_number("iterations", self.iterations, whole=True)
        if self.tol is not None and not 1e-14 <= self.tol < 1:
            raise InputError(
                f"{opt('tol')} must be at least 1e-14 and below 1, got {self.tol}; ranks add up to "
                f"1, and double precision holds 16 digits"
            )
        if self.iterations is not None and self.iterations < 1:
            raise InputError(
                f"{opt('iterations')} must be at least 1, got {self.iterations}; take more"
            )
        if self.tol is None and self.iterations is None:
            raise InputError(
                f"{opt('tol')} or {opt('iterations')} must be given, got neither; one ends the "
                f"iteration"
            )

    def most(self, alpha: float) -> int:
        """Return the number of iterations it will not exceed.

        The change is at most 2 at first and shrinks at least by alpha each time; rounding may
        cost a few more.
        """
        if self.iterations is not None:
            return self.iterations
        assert self.tol is not None
        return math.ceil(math.log(self.tol / 2) / math.log(alpha)) + 10

    def reached(self, changes: list[float]) -> bool:
        """Return whether the last change is at most ``tol``."""
        return self.tol is not None and bool(changes) and changes[-1] <= self.tol

    def precision(self, alpha: float) -> type:
        """Return the dtype of contributions: float32 if its rounding stays below ``tol``.

        Ranks may end in a cycle of roundings. Each adds at most SINGLE to either of two vectors
        that an iteration brings closer by alpha: their distance ends below
        2 SINGLE / (1 - alpha).
        """
        single = self.tol is not None and self.tol >= 2 * SINGLE / (1 - alpha)
        return np.float32 if single else np.float64


@dataclass(frozen=True)
class IterationResult:
    """The result of an iteration.

    values : ranks, float64 of shape (n, k)
    changes : the L1 norm of each iteration's change, the largest of the k vectors'
    rounding : of the last iteration, as the L1 norm of what it adds to a vector of ranks
    seconds : of each iteration
    setup_seconds : before the first
    nbytes : what was held between iterations
    """

    values: Array
    changes: list[float]
    converged: bool
    rounding: float
    seconds: list[float] = field(default_factory=list)
    setup_seconds: float = 0.0
    nbytes: int = 0


def rounding_error(n_in: NDArray[np.int64], precision: type = np.float64) -> float:
    """Return the rounding error of an iteration with float64 sums, to first order.

    Parameters
    ----------
    n_in : how many edges point at each node
    precision : of the contributions
    """
    return DOUBLE * (int(n_in.max(initial=0)) + 4) + (SINGLE if precision is np.float32 else 0)
