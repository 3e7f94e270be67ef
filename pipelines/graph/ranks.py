"""PageRank as a function: ``compute_pagerank(edges)``."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from pipelines.errors import InputError, opt
from pipelines.graph import cugraph
from pipelines.graph.edges import check_choice
from pipelines.graph.graph import Graph, graph_of
from pipelines.graph.iteration import (
    Array,
    Callback,
    IterationResult,
    RandomSurfer,
    StoppingRule,
    ignore,
    surfer_on,
)
from pipelines.graph.pull import pull_ranks, reciprocal_of


@dataclass(frozen=True, eq=False, kw_only=True)
class Ranks(IterationResult):
    """The answer: what the iteration gave, of named nodes.

    Attributes
    ----------
    nodes : pandas Index of the n names
    vectors : list of str
        Names of the k columns of ``values``; k is 1 without personalisation. Each adds up to 1
        (less with dangling "none").
    residual : float
        The L1 norm of what one more iteration in float64 would change, largest of the vectors.
    notes : tuple of str
        What was noticed in the edges: left out, converted, taken for names of columns.
    n_partitions : int or None
        In which the edges were; None in memory.

    Raises
    ------
    InputError
        A rank is infinite or no number.
    """

    nodes: pd.Index
    vectors: list[str]
    alpha: float
    residual: float
    n_edges: int
    notes: tuple[str, ...] = ()
    n_partitions: int | None = None

    def __post_init__(self) -> None:
        if not np.isfinite(self.values).all() or not np.isfinite(self.residual):
            raise InputError(
                f"{opt('edges')} must have finite ranks, some are infinite or no number; look at "
                f"{opt('weight')} and {opt('personalise')}"
            )

    @property
    def change(self) -> float:
        """The L1 norm of the last change; where it is not known, of that of one more iteration."""
        return self.residual if math.isnan(self.changes[-1]) else self.changes[-1]

    @property
    def bound(self) -> float:
        """An upper bound of the error of the ranks, as an L1 norm.

        An iteration brings any two vectors closer by alpha, so the distance that is left is at
        most alpha / (1 - alpha) times the last change; what the iteration was rounded by adds
        1 / (1 - alpha) times itself.
        """
        following = self.residual if math.isnan(self.changes[-1]) else self.alpha * self.change
        return (following + self.rounding) / (1 - self.alpha)

    def frame(self) -> pd.DataFrame:
        """Return ranks with nodes as index and a column for each vector."""
        return pd.DataFrame(self.values, index=self.nodes, columns=self.vectors)

    def top(self, n: int = 10, vector: int = 0) -> pd.Series:
        """Return the n highest ranks of a vector; equal ones in the order of nodes."""
        order = np.argsort(-self.values[:, vector], kind="stable")[:n]
        return pd.Series(
            self.values[order, vector], index=self.nodes[order], name=self.vectors[vector]
        )


def compute_pagerank(
    edges: Any,
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    nodes: int | None = None,
    self_loops: str = "keep",
    repeated: str = "sum",
    undirected: bool = False,
    header: bool | None = None,
    encoding: str | None = None,
    alpha: float = 0.85,
    personalise: Any = None,
    dangling: str = "uniform",
    start: Any = None,
    tol: float | None = 1e-6,
    iterations: int | None = None,
    device: str = "cpu",
    n_jobs: int | None = None,
    callback: Callback = ignore,
) -> Ranks:
    """Return PageRank of a graph (Page, Brin, Motwani and Winograd 1998).

    Parameters
    ----------
    edges : path, DataFrame, arrow table, tuple, array, sparse matrix, EdgeFile, RandomGraph, Graph
        The path of an edge list (``open_edges`` says of what form); a table with a row for each
        edge; a tuple of two or three columns: sources, targets, weights; an integer array of
        shape (m, 2); or a sparse matrix, whose entry (i, j) is an edge from i to j.
    source : str, optional
        Column of the nodes that edges leave, of a file or table; by default the first.
    target : str, optional
        Column of the nodes that edges point at; by default the second.
    weight : str, optional
        Column of weights, each at least 0; by default every edge counts 1.
    nodes : int, optional
        The nodes are the numbers from 0 to ``nodes`` - 1, whether they have edges or not; by
        default the nodes are the names that occur.
    self_loops : {"keep", "drop"}, default "keep"
    repeated : {"sum", "once"}, default "sum"
        An edge counts as often as it stands there, or once.
    undirected : bool, default False
        Edges count both ways; self-loops once.
    header : bool, optional
        Whether the first line of a file of text has the names of columns; by default it is looked
        at.
    encoding : str, optional
        Of a file of text; by default UTF-8, or what its bytes look like.
    alpha : float, default 0.85
        The damping factor, strictly between 0 and 1.
    personalise : optional
        Where to jump, by node: one vector or several (``surfer_on`` says of what form);
        several are iterated at once. By default to every node alike.
    dangling : {"uniform", "personalised", "none"}, default "uniform"
        Where the rank of nodes goes that no weight leaves.
    start : optional
        Ranks to begin with, of a graph that was much like this one: ``Ranks``, the folder of a run,
        or in the forms of ``personalise``, with one column or those of the vectors. By default
        what a jump gives. It decides how many iterations it takes, and not what they end in.
    tol : float or None, default 1e-6
        Ends when the L1 norm of the change is this small; None: never.
    iterations : int, optional
        At most, at least 1; by default as many as ``tol`` can need.
    device : {"cpu", "gpu"}, default "cpu"
        By compressed rows in numba, or by cuGraph.
    n_jobs : int, optional
        Threads on a CPU; None and -1 take every core.
    callback : function, optional
        Called with the number of each iteration and its change; cuGraph tells of none.

    Returns
    -------
    Ranks; an iteration that ended before ``tol`` says so in ``converged``

    Raises
    ------
    InputError
        Edges or a parameter break a rule; one line that names it.
    """
    stop = StoppingRule(tol, iterations)
    RandomSurfer(1, alpha, None, dangling)  # before edges are read
    check_choice("device", device, ("cpu", "gpu"))
    if device == "gpu":
        cugraph.check(dangling, personalise is not None)
    graph = graph_of(
        edges,
        source,
        target,
        weight,
        nodes,
        self_loops,
        repeated,
        undirected=undirected,
        header=header,
        encoding=encoding,
    )
    surfer, vectors, notes = surfer_on(graph.nodes, alpha, dangling, personalise, start)
    graph = replace(graph, notes=(*graph.notes, *notes))
    for note in graph.notes:
        logging.getLogger(__name__).warning(note)
    n_threads = None if n_jobs == -1 else n_jobs
    return GraphProblem(graph, surfer, vectors, stop, device, n_threads).solve(callback=callback)


@dataclass(frozen=True, eq=False)
class GraphProblem:
    """A graph in memory, how its ranks are defined, and where they are computed.

    vectors : names of the k vectors
    """

    graph: Graph
    surfer: RandomSurfer
    vectors: list[str]
    stop: StoppingRule
    device: str = "cpu"
    n_threads: int | None = None

    def solve(self, task: RankTask | None = None, callback: Callback = ignore) -> Ranks:
        """Return the ranks; on a worker it is the one task of a run."""
        graph, surfer = self.graph, self.surfer
        if self.device == "gpu":
            iterated = cugraph.rank_graph(graph, surfer, self.stop)
        else:
            iterated = pull_ranks(graph, surfer, self.stop, self.n_threads, callback)
        return Ranks(
            **vars(iterated),
            nodes=graph.nodes,
            vectors=self.vectors,
            alpha=surfer.alpha,
            residual=residual(graph, surfer, iterated.values),
            n_edges=graph.n_edges,
            notes=graph.notes,
        )


@dataclass(frozen=True)
class RankTask:
    """The one task of a run on one worker."""

    name: str = "pagerank"
    cost: float = 1.0


def residual(graph: Graph, surfer: RandomSurfer, ranks: Array) -> float:
    """Return the L1 norm of the change by a float64 iteration, the largest of the vectors.

    By scipy, so that it does not share the code that made the ranks.
    """
    rows, n = graph.rows, graph.n_nodes
    weight = np.ones(rows.n_edges) if rows.weight is None else rows.weight
    matrix = sparse.csr_matrix((weight, rows.source, rows.first), shape=(n, n))
    reciprocal = reciprocal_of(graph.out_weight)
    first, second = surfer.jump_weights(ranks[reciprocal == 0].sum(axis=0))
    next_ranks = (
        surfer.alpha * (matrix @ (reciprocal[:, None] * ranks)) + surfer.jump * first + second
    )
    return float(abs(next_ranks - ranks).sum(axis=0).max())
