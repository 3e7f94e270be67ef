"""PageRank as a function: ``pagerank(edges)``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pipelines.errors import InputError, opt
from pipelines.graph import variants
from pipelines.graph.edges import Block, Edges, make_block, number_nodes, refuse_many
from pipelines.graph.files import EdgeFile, NamesAreText, open_edges
from pipelines.graph.graph import Graph, make_graph
from pipelines.graph.iteration import Array, Iterated, Problem, Stop, Told
from pipelines.graph.personal import walk_over
from pipelines.graph.random_graphs import RandomGraph
from pipelines.graph.walk import Walk, inverse


@dataclass(frozen=True)
class Ranks:
    """The answer.

    Attributes
    ----------
    nodes : pandas Index of the n names
    values : float64 of shape (n, k)
        k is 1 without personalisation; each column adds up to 1 (less with dangling "none").
    vectors : list of str
        Names of the k columns.
    iterated : Iterated
        Changes, times, memory.
    residual : float
        The L1 norm of what one more iteration in float64 would change, largest of the vectors.
    """

    nodes: pd.Index
    values: Array
    vectors: list[str]
    iterated: Iterated
    alpha: float
    residual: float

    @property
    def converged(self) -> bool:
        """Whether the change fell to ``tol``."""
        return self.iterated.converged

    @property
    def change(self) -> float:
        """The L1 norm of the last change."""
        return self.iterated.changes[-1]

    @property
    def bound(self) -> float:
        """How far ranks may be from the exact ones, as an L1 norm: see ``Iterated.bound``."""
        return self.iterated.bound(self.alpha)

    def frame(self) -> pd.DataFrame:
        """Ranks with nodes as index and a column for each vector."""
        return pd.DataFrame(self.values, index=self.nodes, columns=self.vectors)

    def top(self, n: int = 10, vector: int = 0) -> pd.Series:
        """The n highest ranks of a vector; equal ones in the order of nodes."""
        order = np.argsort(-self.values[:, vector], kind="stable")[:n]
        return pd.Series(
            self.values[order, vector], index=self.nodes[order], name=self.vectors[vector]
        )


def pagerank(
    edges: Any,
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    nodes: int | None = None,
    self_loops: str = "keep",
    repeated: str = "sum",
    alpha: float = 0.85,
    personalise: Any = None,
    dangling: str = "uniform",
    tol: float | None = 1e-6,
    iterations: int | None = None,
    start: Ranks | pd.DataFrame | pd.Series | None = None,
    variant: str = variants.DEFAULT,
    device: str = "cpu",
    n_threads: int | None = None,
    memory_bytes: int | None = None,
    told: Told = lambda iteration, change: None,
) -> Ranks:
    """PageRank of a graph (Page, Brin, Motwani and Winograd 1998).

    Parameters
    ----------
    edges : the path of an edge list (``open_edges`` says of what form); a frame or arrow table
        with a row for each edge; a tuple of two or three columns: sources, targets, weights; an
        integer array of shape (m, 2); a sparse matrix, whose entry (i, j) is an edge from i to j;
        a ``RandomGraph``; or a ``Graph``
    source, target, weight : names of columns of a file, frame or table; by default the first two,
        and every edge counts 1
    nodes : the nodes are the numbers from 0 to ``nodes`` - 1, whether they have edges or not; by
        default the nodes are the names that occur
    self_loops : "keep" or "drop"
    repeated : "sum", an edge counts as often as it stands there, or "once"
    alpha : the damping factor, strictly between 0 and 1
    personalise : where to jump, by node: one vector or several (``personal_vectors`` says of what
        form); several are iterated at once
    dangling : where the rank of nodes goes that no weight leaves: "uniform", "personalised", "none"
    tol : ends when the L1 norm of the change is this small; None: never
    iterations : at most; None: as many as ``tol`` can need
    start : ranks of an earlier graph, to begin with
    variant : how it is computed: a name in ``pipelines.graph.variants.VARIANTS``
    device : "cpu" or "gpu"
    n_threads : of the variant "pull"; by default every core
    memory_bytes : for dense matrices; None: no limit
    told : hears the number of each iteration and its change

    Returns
    -------
    Ranks; an iteration that ended before ``tol`` says so in ``converged``

    Raises
    ------
    InputError
        Edges or a parameter break a rule; one line that names it.
    """
    stop = Stop(tol, iterations)
    Walk(1, alpha, None, dangling)  # before edges are read
    graph = graph_of(edges, source, target, weight, nodes, self_loops, repeated)
    earlier = start.frame() if isinstance(start, Ranks) else start
    earlier = None if earlier is None else pd.DataFrame(earlier)
    walk, names, begin = walk_over(graph.nodes, alpha, dangling, personalise, earlier)
    chosen = variants.find_variant(variant, device, graph.n_nodes, memory_bytes)
    problem = Problem(graph, walk, begin, stop, device, n_threads)
    iterated = variants.run(chosen, problem, told)
    return Ranks(
        graph.nodes, iterated.ranks, names, iterated, alpha, residual(graph, walk, iterated.ranks)
    )


def residual(graph: Graph, walk: Walk, ranks: Array) -> float:
    """The L1 norm of what one more iteration in float64 changes, the largest of the vectors'."""
    return float(abs(advanced(graph, walk, ranks) - ranks).sum(axis=0).max())


def advanced(graph: Graph, walk: Walk, ranks: Array) -> Array:
    """One iteration in float64, by scipy: ranks of shape (n, k) to ranks of shape (n, k)."""
    from pipelines.graph.variants.on_scipy import OnCPU

    factors = inverse(graph.out_weight)
    onto_jump, everywhere = walk.shares(ranks[factors == 0].sum(axis=0))
    pulled = OnCPU().sparse(graph) @ (factors[:, None] * ranks)
    return np.asarray(walk.alpha * pulled + (walk.jump * onto_jump + everywhere))


def graph_of(
    edges: Any,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    nodes: int | None = None,
    self_loops: str = "keep",
    repeated: str = "sum",
) -> Graph:
    """The graph of what ``pagerank`` takes as edges, or of an ``EdgeFile``; raises as it does."""
    if isinstance(edges, Graph):
        return edges
    if nodes is not None:
        refuse_many(nodes)
        if nodes < 1:
            raise InputError(f"{opt('nodes')} must be at least 1, got {nodes}; leave it out")
    known = None if nodes is None else pd.RangeIndex(nodes)
    return make_graph(_edges(edges, source, target, weight, known), self_loops, repeated)


def _edges(
    edges: Any, source: str | None, target: str | None, weight: str | None, nodes: pd.Index | None
) -> Edges:
    if isinstance(edges, str | Path):
        edges = open_edges(edges, source, target, weight)
    if isinstance(edges, EdgeFile):
        return read_edges(edges, nodes)
    if isinstance(edges, RandomGraph):
        sources, targets = (np.concatenate(part) for part in zip(*edges.blocks(), strict=True))
        return Edges(sources, targets, None, pd.RangeIndex(edges.n_nodes))
    if hasattr(edges, "tocoo"):
        return _edges_of_matrix(edges)
    return number_nodes([_block(edges, source, target, weight)], nodes)


def read_edges(file: EdgeFile, nodes: pd.Index | None = None) -> Edges:
    """All edges of a file; names are whole numbers where all of them are."""
    known = file.nodes if nodes is None else nodes
    try:
        return number_nodes(file.blocks(), known)
    except NamesAreText:
        return number_nodes(file.blocks(text=True), known)


def _edges_of_matrix(matrix: Any) -> Edges:
    entries = matrix.tocoo()
    if entries.shape[0] != entries.shape[1]:
        raise InputError(
            f"{opt('edges')} must be a square matrix, got {entries.shape[0]} rows and "
            f"{entries.shape[1]} columns; a row and a column are one node"
        )
    refuse_many(entries.shape[0])
    block = make_block(entries.row, entries.col, entries.data)
    return number_nodes([block], pd.RangeIndex(entries.shape[0]))


def _block(edges: Any, source: str | None, target: str | None, weight: str | None) -> Block:
    if isinstance(edges, pd.DataFrame | pa.Table):
        columns = list(edges.columns if isinstance(edges, pd.DataFrame) else edges.column_names)
        if len(columns) < 2:
            raise InputError(
                f"{opt('edges')} must have two columns, got {columns}; name nodes in both"
            )
        chosen = {"source": source or columns[0], "target": target or columns[1], "weight": weight}
        for role, name in chosen.items():
            if name is not None and name not in columns:
                raise InputError(
                    f"{opt(role)} must be the name of a column, got {name!r}; there are "
                    f"{', '.join(map(repr, columns[:10]))}"
                )
        parts = {role: None if name is None else edges[name] for role, name in chosen.items()}
        return make_block(parts["source"], parts["target"], parts["weight"])
    if isinstance(edges, tuple) and len(edges) in (2, 3):
        return make_block(*edges)
    pairs = np.asarray(edges)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(
            f"{opt('edges')} must be a path, a table, a tuple of columns or an array of shape (m, "
            f"2), got {type(edges).__name__}; pass one of these"
        )
    return make_block(np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))
