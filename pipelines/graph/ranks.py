"""PageRank as a function of Python: ``compute_pagerank(edges)``."""

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
    """The ranks of named nodes, and how they were computed; made by ``compute_pagerank``.

    Beside these it has the attributes of ``IterationResult``: ``values``, ``changes``,
    ``converged`` and others.

    Attributes
    ----------
    nodes : pandas.Index
        The n names.
    vectors : list of str
        Names of the k columns of ``values``; k is 1 without personalisation. Each column adds up to
        1 (less with dangling "none").
    alpha : float
        The damping factor.
    residual : float
        The L1 norm of what one more iteration in float64 would change, the largest of the vectors.
    n_edges : int
    notes : tuple of str
        What was noticed in the edges: anything left out, converted or taken for names of columns.
    n_partitions : int or None
        The number of partitions of the edges; None if they were in memory.

    Raises
    ------
    InputError
        A rank is infinite or NaN.
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
        """The L1 norm of the last change; if it is not known, that of one more iteration."""
        return self.residual if math.isnan(self.changes[-1]) else self.changes[-1]

    @property
    def bound(self) -> float:
        """An upper bound for the error of the ranks, as an L1 norm.

        An iteration brings any two vectors closer by the factor alpha. So the distance to the exact
        ranks is at most alpha / (1 - alpha) times the last change, and the rounding of an iteration
        adds at most 1 / (1 - alpha) times itself.
        """
        following = self.residual if math.isnan(self.changes[-1]) else self.alpha * self.change
        return (following + self.rounding) / (1 - self.alpha)

    def frame(self) -> pd.DataFrame:
        """The ranks as a frame with nodes as its index and a column for each vector."""
        return pd.DataFrame(self.values, index=self.nodes, columns=self.vectors)

    def top(self, n: int = 10, vector: int = 0) -> pd.Series:
        """The n highest ranks of a vector; equal ranks in the order of nodes.

        Parameters
        ----------
        n : int, default 10
        vector : int, default 0
            The index of the vector.
        """
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
    """Compute the PageRank of a graph (Page et al. 1998).

    Parameters
    ----------
    edges : path, DataFrame, arrow table, tuple, array, sparse matrix, EdgeFile, RandomGraph, Graph
        The path of an edge list (``open_edges`` says of what form); a table with a row for each
        edge; a tuple of two or three columns: sources, targets, weights; an integer array of
        shape (m, 2); or a sparse matrix, whose entry (i, j) is an edge from i to j.
    source : str, optional
        Column of the nodes that edges leave, of a file or table; by default the first.
    target : str, optional
        Column of the nodes that edges point at; by default the second. A file's columns with names
        such as ``from`` and ``to`` come before these defaults.
    weight : str, optional
        Column of weights, each at least 0; by default every edge counts 1.
    nodes : int, optional
        The nodes are the numbers from 0 to ``nodes`` - 1, whether they have edges or not; by
        default the nodes are the names that occur.
    self_loops : {"keep", "drop"}, default "keep"
        Whether edges from a node to itself count.
    repeated : {"sum", "once"}, default "sum"
        A repeated edge counts as often as it occurs, or once, with its first weight.
    undirected : bool, default False
        Whether edges count both ways; self-loops count once.
    header : bool, optional
        Whether the first line of a text file has the names of columns; by default judged by its
        words.
    encoding : str, optional
        The encoding of a text file; by default UTF-8, or what its bytes look like.
    alpha : float, default 0.85
        The damping factor, strictly between 0 and 1.
    personalise : optional
        Where to jump, by node: one vector or several (``surfer_on`` says of what form);
        several are iterated at once. By default to all nodes alike.
    dangling : {"uniform", "personalised", "none"}, default "uniform"
        Where the rank of nodes goes that no weight leaves.
    start : optional
        Ranks to begin with, of a similar graph: ``Ranks``, the folder of a run, or the forms of
        ``personalise``, with one column or those of the vectors. By default the ranks of a jump.
        They change the number of iterations, and not what these converge to.
    tol : float or None, default 1e-6
        It ends when the L1 norm of the change is at most this; None: never.
    iterations : int, optional
        The most iterations, at least 1; by default as many as ``tol`` can need.
    device : {"cpu", "gpu"}, default "cpu"
        "cpu" is a compiled loop over compressed rows, "gpu" is cuGraph.
    n_jobs : int, optional
        Threads on a CPU; None and -1 take every core.
    callback : function, optional
        Called with the number of each iteration and its change; cuGraph reports none.

    Returns
    -------
    Ranks
        ``converged`` is False if it ended by ``iterations`` before the change was at most ``tol``.

    Raises
    ------
    InputError
        Edges or a parameter break a rule; the message is one line that names it.

    References
    ----------
    L. Page, S. Brin, R. Motwani and T. Winograd, The PageRank citation ranking: bringing order to
    the web, Stanford InfoLab, 1998.

    Examples
    --------
    >>> from pipelines import compute_pagerank
    >>> ranks = compute_pagerank((["a", "b", "c", "c"], ["b", "c", "a", "b"]))
    >>> ranks.top(2).round(3).to_dict()
    {'b': 0.397, 'c': 0.388}
    """
    stop = StoppingRule(tol, iterations)
    RandomSurfer(1, alpha, None, dangling)  # checks its arguments before edges are read
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

    Attributes
    ----------
    graph : Graph
    surfer : RandomSurfer
    vectors : list of str
        Names of the k vectors.
    stop : StoppingRule
    device : {"cpu", "gpu"}, default "cpu"
    n_threads : int or None
        None takes every core.
    """

    graph: Graph
    surfer: RandomSurfer
    vectors: list[str]
    stop: StoppingRule
    device: str = "cpu"
    n_threads: int | None = None

    def solve(self, task: RankTask | None = None, callback: Callback = ignore) -> Ranks:
        """Compute the ranks; on a worker this is the only task of a run."""
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
    """The only task of a run on one worker."""

    name: str = "pagerank"
    cost: float = 1.0


def residual(graph: Graph, surfer: RandomSurfer, ranks: Array) -> float:
    """The L1 norm of the change by one more iteration in float64, the largest of the vectors.

    It uses scipy, and so checks the ranks by other code than computed them.
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
