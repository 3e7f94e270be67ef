"""A graph in compressed rows by destination: who points at whom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.data.errors import InputError
from pipelines.graph.edges import Edges
from pipelines.svm.compiled import compiled

SELF_LOOPS = ("keep", "drop")
REPEATED = ("sum", "once")


@dataclass(frozen=True, eq=False)
class Rows:
    """Edges in compressed rows by destination: row i has ``first[i]`` to ``first[i + 1]``.

    first : int64 of shape (n_rows + 1,)
    source : int32 of shape (m,), ascending within a row
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
    rows = sort_into_rows(edges.source, edges.target, edges.weight, len(edges.nodes))
    if self_loops == "drop":
        rows = _only(rows, _no_loop(rows.first, rows.source))
    if repeated == "once":
        rows = _only(rows, _no_repeat(rows.first, rows.source))
    if not rows.n_edges:
        raise InputError("edges must hold an edge that is no self-loop, got none; keep self-loops")
    return Graph(edges.nodes, rows)


def sort_into_rows(
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    weight: NDArray[np.float64] | None,
    n_nodes: int,
) -> Rows:
    """Two counting sorts, by source, then by target: time and memory grow as the edges do."""
    out, targets, moved = by_key(source, target, weight, n_nodes)
    return Rows(*_by_value(out, targets, moved, n_nodes))


def known(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise InputError where a value is none of the choices."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, got {value!r}; choose one")


def weights_out(rows: Rows, n_nodes: int) -> NDArray[np.float64]:
    """For each of ``n_nodes`` the sum of the weights of the rows' edges that leave it."""
    return np.bincount(rows.source, rows.weight, minlength=n_nodes).astype(np.float64)


def _only(rows: Rows, kept: NDArray[np.bool_]) -> Rows:
    before = np.concatenate(([0], np.cumsum(kept)))
    weight = None if rows.weight is None else rows.weight[kept]
    return Rows(before[rows.first], rows.source[kept], weight)


@compiled()
def by_key(
    keys: np.ndarray, values: np.ndarray, weight: np.ndarray | None, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Where each key's run begins, the values in the stable order of keys, and their weights."""
    first = np.zeros(n + 1, np.int64)
    for key in keys:
        first[key + 1] += 1
    for key in range(n):
        first[key + 1] += first[key]
    place = first[:-1].copy()
    sorted_values = np.empty(len(values), np.int32)
    moved = None if weight is None else np.empty_like(weight)
    for k in range(len(keys)):
        at = place[keys[k]]
        place[keys[k]] = at + 1
        sorted_values[at] = values[k]
        if weight is not None:
            moved[at] = weight[k]
    return first, sorted_values, moved


@compiled()
def _by_value(
    first: np.ndarray, values: np.ndarray, weight: np.ndarray | None, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The runs of ``by_key`` sorted by value, keys ascending within one."""
    turned = np.zeros(n + 1, np.int64)
    for value in values:
        turned[value + 1] += 1
    for value in range(n):
        turned[value + 1] += turned[value]
    place = turned[:-1].copy()
    keys = np.empty(len(values), np.int32)
    moved = None if weight is None else np.empty_like(weight)
    for key in range(len(first) - 1):
        for k in range(first[key], first[key + 1]):
            at = place[values[k]]
            place[values[k]] = at + 1
            keys[at] = key
            if weight is not None:
                moved[at] = weight[k]
    return turned, keys, moved


@compiled()
def _no_loop(first: np.ndarray, source: np.ndarray) -> np.ndarray:
    kept = np.ones(len(source), np.bool_)
    for row in range(len(first) - 1):
        for k in range(first[row], first[row + 1]):
            kept[k] = source[k] != row
    return kept


@compiled()
def _no_repeat(first: np.ndarray, source: np.ndarray) -> np.ndarray:
    kept = np.ones(len(source), np.bool_)
    for row in range(len(first) - 1):
        for k in range(first[row] + 1, first[row + 1]):
            kept[k] = source[k] != source[k - 1]
    return kept
