"""A graph in compressed rows by destination, and how it is built from whatever has edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.errors import InputError, opt
from pipelines.graph.edges import (
    Piece,
    both_ways,
    check_choice,
    check_node_count,
    check_number,
    chosen_columns,
    make_block,
    no_edges_error,
    number_nodes,
)
from pipelines.graph.files import EdgeFile, open_edges
from pipelines.graph.random_graphs import RandomGraph
from pipelines.svm.compiled import compiled

SELF_LOOPS = ("keep", "drop")
REPEATED = ("sum", "once")

# Weights other than 0 are usual within these bounds: sums of them, and ranks divided by such sums,
# are then within the range of float32, in which an iteration may hold contributions.
LEAST_WEIGHT, MOST_WEIGHT = 1e-30, 1e24


@dataclass(frozen=True, eq=False)
class CompressedRows:
    """m edges in compressed rows by destination: row i has those from first[i] to first[i + 1] - 1.

    Attributes
    ----------
    first : int64 array of shape (n_rows + 1,)
    source : int32 array of shape (m,)
    weight : float64 array of shape (m,) or None
        None if every edge counts 1.
    """

    first: NDArray[np.int64]
    source: NDArray[np.int32]
    weight: NDArray[np.float64] | None

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

    Attributes
    ----------
    nodes : pandas.Index
        The n names; the node at position i is that of row i.
    rows : CompressedRows
        The edges by destination.
    notes : tuple of str
        What was noticed in the edges, each a phrase.
    """

    nodes: pd.Index
    rows: CompressedRows
    notes: tuple[str, ...] = ()

    @property
    def n_nodes(self) -> int:
        return len(self.nodes)

    @property
    def n_edges(self) -> int:
        return self.rows.n_edges

    @cached_property
    def out_weight(self) -> NDArray[np.float64]:
        """For each node, the sum of the weights of the edges that leave it, of shape (n,)."""
        out = np.zeros(self.n_nodes)
        add_out(self.rows.source, self.rows.weight, out)
        return out


def graph_of(
    edges: Any,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    nodes: int | None = None,
    self_loops: str = "keep",
    repeated: str = "sum",
    undirected: bool = False,
    header: bool | None = None,
    encoding: str | None = None,
) -> Graph:
    """Build a graph from edges; the parameters are those of ``compute_pagerank``.

    Returns
    -------
    Graph

    Raises
    ------
    InputError
        Edges or a parameter break a rule, or there are no edges.
    """
    if isinstance(edges, Graph):
        return edges
    check_choice("self_loops", self_loops, SELF_LOOPS)
    check_choice("repeated", repeated, REPEATED)
    if nodes is not None:
        check_number("nodes", nodes, whole=True)
        check_node_count(nodes)
        if nodes < 1:
            raise InputError(f"{opt('nodes')} must be at least 1, got {nodes}; leave it out")
    number_range = None if nodes is None else pd.RangeIndex(nodes)
    if isinstance(edges, str | Path):
        edges = open_edges(edges, source, target, weight, header=header, encoding=encoding)
    piece, names, notes = _numbered(edges, source, target, weight, number_range)
    if not len(piece[0]):
        raise no_edges_error()
    if undirected:
        piece = both_ways(piece)
    if isinstance(edges, EdgeFile):
        notes = [*edges.edge_notes(undirected), *notes]
    rows = make_rows(piece, len(names), 0, self_loops, repeated)
    if not rows.n_edges:
        raise InputError(
            f"{opt('edges')} must hold an edge that is no self-loop, got none; keep self-loops"
        )
    return Graph(names, scaled(rows, len(names)), tuple(notes))


def are_usual(weight: NDArray[np.float64]) -> bool:
    """Whether all weights are 0 or within the usual bounds, so that they need not be scaled."""
    return not ((weight > MOST_WEIGHT) | ((weight > 0) & (weight < LEAST_WEIGHT))).any()


def scaled(rows: CompressedRows, n_nodes: int) -> CompressedRows:
    """Divide weights by the largest that leaves the same node, if any is very large or small.

    Ranks do not change, as they depend only on the ratios of the weights that leave a node.
    """
    if rows.weight is None or are_usual(rows.weight):
        return rows
    largest = np.zeros(n_nodes)
    np.maximum.at(largest, rows.source, rows.weight)
    largest[largest == 0] = 1
    return replace(rows, weight=rows.weight / largest[rows.source])


def make_rows(
    edges: Piece, n_rows: int, first_node: int = 0, self_loops: str = "keep", repeated: str = "sum"
) -> CompressedRows:
    """Sort edges by destination, with a counting sort.

    Parameters
    ----------
    edges : Piece
        Their targets are the nodes from first_node to first_node + n_rows - 1.
    n_rows : int
    first_node : int, default 0
        The node of the first row.
    self_loops : {"keep", "drop"}, default "keep"
    repeated : {"sum", "once"}, default "sum"
        "sum" counts a repeated edge as often as it occurs; "once" takes the first, with its weight.

    Returns
    -------
    CompressedRows
    """
    from_node, target, weight = edges
    if self_loops == "drop":
        is_no_loop = from_node != target
        from_node, target = from_node[is_no_loop], target[is_no_loop]
        weight = None if weight is None else weight[is_no_loop]
    n_in = np.bincount(target - first_node, minlength=n_rows)
    first = np.concatenate(([0], np.cumsum(n_in)))
    source = np.empty(first[-1], np.int32)
    weights = None if weight is None else np.empty(first[-1])
    _fill(first[:-1].copy(), first_node, from_node, target, weight, source, weights)
    if repeated == "sum":
        return CompressedRows(first, source, weights)
    _sort_rows(first, source, weights)
    is_first = np.append(True, source[1:] != source[:-1])[: len(source)]
    is_first[first[:-1][n_in > 0]] = True
    n_before = np.concatenate(([0], np.cumsum(is_first)))
    return CompressedRows(
        n_before[first], source[is_first], None if weights is None else weights[is_first]
    )


def _numbered(
    edges: Any, source: str | None, target: str | None, weight: str | None, nodes: pd.Index | None
) -> tuple[Piece, pd.Index, list[str]]:
    if isinstance(edges, EdgeFile | RandomGraph):
        return edges.edges(nodes)
    columns: tuple[Any, ...]
    if isinstance(edges, pd.DataFrame | pa.Table):
        names = list(edges.columns if isinstance(edges, pd.DataFrame) else edges.column_names)
        chosen = chosen_columns(names, source, target, weight)
        columns = tuple(None if name is None else edges[name] for name in chosen)
    elif isinstance(edges, tuple) and len(edges) in (2, 3):
        columns = edges
    elif hasattr(edges, "tocoo"):
        n_rows, n_columns = edges.shape
        if n_rows != n_columns:
            raise InputError(
                f"{opt('edges')} must be a square matrix, got {n_rows} rows and {n_columns} "
                f"columns; a row and a column are one node"
            )
        nodes, entries = pd.RangeIndex(n_rows), edges.tocoo()
        columns = entries.row, entries.col, entries.data
    else:
        pairs = np.asarray(edges)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise InputError(
                f"{opt('edges')} must be a path, a table, a tuple of columns or an array of shape "
                f"(m, 2), got {type(edges).__name__}; pass one of these"
            )
        columns = tuple(np.ascontiguousarray(pairs.T))
    return number_nodes([make_block(*columns)], nodes)


@compiled()
def add_out(source: np.ndarray, weight: np.ndarray | None, out: np.ndarray) -> None:
    """Add to each node the weights of the edges that leave it, in place.

    ``np.bincount`` would first copy the sources as int64, twice their size.
    """
    for k in range(len(source)):
        out[source[k]] += 1.0 if weight is None else weight[k]


@compiled()
def _fill(
    next_free: np.ndarray,
    first_node: int,
    source: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None,
    sources: np.ndarray,
    weights: np.ndarray | None,
) -> None:
    """Put every edge at the next free position of its target's row."""
    for k in range(len(source)):
        row = target[k] - first_node
        position = next_free[row]
        next_free[row] = position + 1
        sources[position] = source[k]
        if weight is not None and weights is not None:
            weights[position] = weight[k]


@compiled()
def _sort_rows(first: np.ndarray, source: np.ndarray, weight: np.ndarray | None) -> None:
    """Sort the sources within each row, stably: of equal ones the first stays first."""
    for row in range(len(first) - 1):
        begin, end = first[row], first[row + 1]
        if weight is None:
            source[begin:end] = np.sort(source[begin:end])
        else:
            order = np.argsort(source[begin:end], kind="mergesort")
            source[begin:end] = source[begin:end][order]
            weight[begin:end] = weight[begin:end][order]
