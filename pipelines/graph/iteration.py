"""The random surfer, the end of the power iteration, and the rounding error of its ranks."""

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

# The unit roundoff of float64 and float32.
DOUBLE = 2.0**-53
SINGLE = 2.0**-24
DANGLING = ("uniform", "personalised", "none")


def ignore(iteration: int, change: float) -> None:
    """The default callback, which does nothing."""


@dataclass(frozen=True, eq=False)
class RandomSurfer:
    """A surfer who follows an edge with probability alpha, in proportion to its weight, or jumps.

    Attributes
    ----------
    n_nodes : int
    alpha : float, default 0.85
        The damping factor, strictly between 0 and 1.
    personalisation : float64 array of shape (n_nodes, k) or None
        Where to jump: k vectors of numbers of at least 0 with sum 1. None: to all nodes alike, with
        k = 1.
    dangling : {"uniform", "personalised", "none"}, default "uniform"
        What happens at a dangling node, which no weight leaves: a jump to all nodes alike, or as
        ``personalisation`` says; with "none" the surfer is lost, and ranks add up to less than 1.
    initial : float64 array of shape (n_nodes, k) or None
        Ranks to begin with.

    Raises
    ------
    InputError
        alpha is not strictly between 0 and 1, or the rule is unknown.
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
        """Where to jump, of shape (n_nodes, k); of shape (1, 1) if to all nodes alike."""
        if self.personalisation is None:
            return np.full((1, 1), 1 / self.n_nodes)
        return self.personalisation

    def start(self) -> Array:
        """The ranks to begin with, of shape (n_nodes, k): ``initial``, or else a jump's ranks."""
        if self.initial is not None:
            return self.initial
        return np.ascontiguousarray(np.broadcast_to(self.jump, (self.n_nodes, self.n_vectors)))

    def jump_weights(self, dangling_rank: Array) -> tuple[Array, Array]:
        """How much rank jumps bring to a node in an iteration: ``first * jump + second``.

        Parameters
        ----------
        dangling_rank : array of shape (k,)
            The sum of the ranks of dangling nodes.

        Returns
        -------
        first, second : arrays of shape (k,)
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
    """Make the surfer on the nodes of a graph.

    Parameters
    ----------
    nodes : pandas.Index
        Names of all nodes.
    alpha, dangling : float, str
        See ``RandomSurfer``.
    personalise : mapping, Series, DataFrame, path or None
        Where to jump: a mapping or Series from nodes to numbers of at least 0; a frame with nodes
        as its index and a column for each vector; or the path of a table, with or without a header
        line, whose first column names nodes and whose other columns are vectors. Missing numbers
        are 0, and each vector is scaled to sum 1.
    start : mapping, Series, DataFrame, path or None
        Ranks to begin with, in the same forms: with the names of the vectors, or one column for
        all. Names that are not nodes are left out; nodes without a rank get that of a jump.

    Returns
    -------
    surfer : RandomSurfer
    names : list of str
        The names of the vectors.
    notes : list of str
        What was noticed in files.

    Raises
    ------
    InputError
        As ``RandomSurfer`` does; a file cannot be read, a node is unknown or occurs twice, a number
        is negative, infinite or NaN, or a vector is 0 on all nodes.
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
    """The ranks to begin with, of shape (n, k) and of sum 1 in each column, and notes on them.

    Parameters
    ----------
    start : mapping, Series, DataFrame or path
        See ``surfer_on``.
    nodes : pandas.Index
        Names of all nodes.
    surfer : RandomSurfer
        Without initial ranks; with the rule "none" sums of ranks may stay below 1.
    names : list of str
        The names of the k vectors.
    """
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
    if surfer.dangling != "none" or (ranks.sum(axis=0) > 1).any():  # others lost some
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

    Attributes
    ----------
    tol : float or None, default 1e-6
        It ends when the L1 norm of the change of each vector is at most this; None: never.
    iterations : int or None
        The most iterations, at least 1; None: as many as ``tol`` can need.

    Raises
    ------
    InputError
        Both are None, or one is out of its range.
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
        """An upper bound for the number of iterations.

        The first change is at most 2, and each is at most alpha times the one before. Ten more are
        allowed for rounding.
        """
        if self.iterations is not None:
            return self.iterations
        assert self.tol is not None
        return math.ceil(math.log(self.tol / 2) / math.log(alpha)) + 10

    def reached(self, changes: list[float]) -> bool:
        """Whether the last change is at most ``tol``."""
        return self.tol is not None and bool(changes) and changes[-1] <= self.tol

    def precision(self, alpha: float) -> type:
        """The dtype of contributions: float32 if its rounding cannot keep the change above ``tol``.

        Rounded ranks may end in a cycle, where the change shrinks no further. An iteration brings
        two vectors closer by alpha, and rounding adds at most SINGLE to either; so the change ends
        below 2 SINGLE / (1 - alpha).
        """
        single = self.tol is not None and self.tol >= 2 * SINGLE / (1 - alpha)
        return np.float32 if single else np.float64


@dataclass(frozen=True)
class IterationResult:
    """The result of the power iteration.

    Attributes
    ----------
    values : float64 array of shape (n, k)
        The ranks.
    changes : list of float
        The L1 norm of the change of each iteration, the largest of the k vectors.
    converged : bool
        Whether it ended by ``StoppingRule.tol``.
    rounding : float
        A bound for the rounding error of an iteration, as the L1 norm of the error of a vector.
    seconds : list of float
        Seconds of each iteration.
    setup_seconds : float, default 0.0
        Seconds before the first iteration.
    nbytes : int, default 0
        Bytes of the arrays held between iterations.
    """

    values: Array
    changes: list[float]
    converged: bool
    rounding: float
    seconds: list[float] = field(default_factory=list)
    setup_seconds: float = 0.0
    nbytes: int = 0


def rounding_error(n_in: NDArray[np.int64], precision: type = np.float64) -> float:
    """A bound for the rounding error of an iteration with float64 sums, to first order.

    Parameters
    ----------
    n_in : int64 array
        The number of edges that point at each node.
    precision : type, default numpy.float64
        The dtype of the contributions.

    Returns
    -------
    float
        The bound, as the L1 norm of the error of a vector of ranks.
    """
    return DOUBLE * (int(n_in.max(initial=0)) + 4) + (SINGLE if precision is np.float32 else 0)
