"""A graph in compressed rows by destination: who points at whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.errors import InputError, opt
from pipelines.graph.edges import Edges
from pipelines.svm.compiled import compiled

Piece = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64] | None]

SELF_LOOPS = ("keep", "drop")
REPEATED = ("sum", "once")


@dataclass(frozen=True, eq=False)
class Rows:
    """Edges in compressed rows by destination: row i has ``first[i]`` to ``first[i + 1]``.

    first : int64 of shape (n_rows + 1,)
    source : int32 of shape (m,)
    weight : float64 of shape (m,), or None where every edge counts 1
    """

    first: NDArray[np.int64]
    source: NDArray[np.int32]
    weight: NDArray[np.float64] | None

    @property
    def n_rows(self) -> int:
        return len(self.first) - 1

    @property
    def n_edges(self) -> int:
        return len(self.source)

    @property
    def nbytes(self) -> int:
        weight = 0 if self.weight is None else self.weight.nbytes
        return self.first.nbytes + self.source.nbytes + weight


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes and the edges that point at them.

    nodes : the n names; position i is row i
    rows : the edges by destination
    """

    nodes: pd.Index
    rows: Rows

    @property
    def n_nodes(self) -> int:
        return len(self.nodes)

    @property
    def n_edges(self) -> int:
        return self.rows.n_edges

    @cached_property
    def out_weight(self) -> NDArray[np.float64]:
        """Sum of the weights of the edges that leave a node, of shape (n,)."""
        return weights_out(self.rows, self.n_nodes)


def make_graph(edges: Edges, self_loops: str = "keep", repeated: str = "sum") -> Graph:
    """Sort edges into rows by destination.

    Parameters
    ----------
    self_loops : "keep", or "drop" edges from a node to itself
    repeated : "sum" counts an edge as often as it stands there (its weights are added); "once"
        takes it once, with the weight that stands first

    Raises
    ------
    InputError
        The rule is unknown, or no edge is left.
    """
    known("self_loops", self_loops, SELF_LOOPS)
    known("repeated", repeated, REPEATED)
    pieces = [(edges.source, edges.target, edges.weight)]
    rows = make_rows(lambda: pieces, len(edges.nodes), 0, self_loops, repeated)
    if not rows.n_edges:
        raise InputError(
            f"{opt('edges')} must hold an edge that is no self-loop, got none; keep self-loops"
        )
    return Graph(edges.nodes, rows)


def make_rows(
    pieces: Callable[[], Iterable[Piece]],
    n_rows: int,
    first_node: int = 0,
    self_loops: str = "keep",
    repeated: str = "sum",
) -> Rows:
    """Rows by destination from pieces of edges, by a counting sort that holds one piece at a time.

    Parameters
    ----------
    pieces : gives all pieces, twice the same: sources, targets (int32), weights (float64 or None)
    n_rows : targets are the nodes first_node to first_node + n_rows - 1
    """
    n_in = np.zeros(n_rows, np.int64)
    weighted = False
    for _, target, weight in pieces():
        n_in += np.bincount(target - first_node, minlength=n_rows)
        weighted = weight is not None
    first = np.concatenate(([0], np.cumsum(n_in)))
    del n_in
    source = np.empty(first[-1], np.int32)
    weights = np.empty(first[-1]) if weighted else None
    place = first[:-1].copy()
    for some_source, target, weight in pieces():
        _fill(place, first_node, some_source, target, weight, source, weights)
    rows = Rows(first, source, weights)
    if self_loops == "drop":
        rows = _only(rows, _no_loop(first, source, first_node))
    if repeated == "once":
        _sort_rows(rows.first, rows.source, rows.weight)
        rows = _only(rows, _no_repeat(rows.first, rows.source))
    return rows


def known(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise InputError where a value is none of the choices."""
    if value not in choices:
        raise InputError(
            f"{opt(name)} must be one of {', '.join(choices)}, got {value!r}; choose one"
        )


def weights_out(rows: Rows, n_nodes: int) -> NDArray[np.float64]:
    """For each of ``n_nodes`` the sum of the weights of the rows' edges that leave it."""
    out = np.zeros(n_nodes)
    add_out(rows.source, rows.weight, out)
    return out


def _only(rows: Rows, kept: NDArray[np.bool_]) -> Rows:
    before = np.concatenate(([0], np.cumsum(kept)))
    weight = None if rows.weight is None else rows.weight[kept]
    return Rows(before[rows.first], rows.source[kept], weight)


@compiled()
def add_out(source: np.ndarray, weight: np.ndarray | None, out: np.ndarray) -> None:
    """Add to each node the weights of edges that leave it, in place.

    What ``np.bincount`` does, which first makes a copy of the sources twice their size.
    """
    for k in range(len(source)):
        out[source[k]] += 1.0 if weight is None else weight[k]


@compiled()
def _fill(
    place: np.ndarray,
    first_node: int,
    source: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None,
    sources: np.ndarray,
    weights: np.ndarray | None,
) -> None:
    """Put every edge into the next free place of its target's row."""
    for k in range(len(source)):
        row = target[k] - first_node
        at = place[row]
        place[row] = at + 1
        sources[at] = source[k]
        if weight is not None and weights is not None:
            weights[at] = weight[k]


@compiled()
def _sort_rows(first: np.ndarray, source: np.ndarray, weight: np.ndarray | None) -> None:
    """Sources ascending within each row; of equal ones the first stays first."""
    for row in range(len(first) - 1):
        begin, end = first[row], first[row + 1]
        if weight is None:
            source[begin:end] = np.sort(source[begin:end])
        else:
            order = np.argsort(source[begin:end], kind="mergesort")
            source[begin:end] = source[begin:end][order]
            weight[begin:end] = weight[begin:end][order]


@compiled()
def _no_loop(first: np.ndarray, source: np.ndarray, first_node: int) -> np.ndarray:
    kept = np.ones(len(source), np.bool_)
    for row in range(len(first) - 1):
        for k in range(first[row], first[row + 1]):
            kept[k] = source[k] != row + first_node
    return kept


@compiled()
def _no_repeat(first: np.ndarray, source: np.ndarray) -> np.ndarray:
    kept = np.ones(len(source), np.bool_)
    for row in range(len(first) - 1):
        for k in range(first[row] + 1, first[row + 1]):
            kept[k] = source[k] != source[k - 1]
    return kept
