"""A backend for networkx: ``networkx.pagerank(G, backend="pleasingly")``.

networkx finds it by the entry point ``networkx.backends`` and loads it on its first call. What a
backend must have: https://networkx.org/documentation/stable/reference/backends.html
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pandas as pd

from pipelines.graph.graph import CompressedRows, Graph, graph_of
from pipelines.graph.iteration import Array, RandomSurfer, StoppingRule
from pipelines.graph.pull import pull_ranks, reciprocal_of

# On two cores the first call on a random graph of this many edges takes about as long as networkx's
# own function. Most of it is the conversion, which networkx keeps for later calls.
EDGES_WORTH_IT = 10_000
STRICTEST, LOOSEST = 1e-14, 1 - 1e-9  # the range of ``StoppingRule.tol``


@dataclass(frozen=True, eq=False)
class ConvertedGraph:
    """A converted graph of networkx, which networkx keeps until the graph changes.

    Attributes
    ----------
    nodes : list
        In networkx's order.
    rows : CompressedRows
        The edges by destination. Parallel edges of a multigraph are added, and an undirected edge
        counts both ways.
    directed, multigraph : bool
        Properties of the graph of networkx.
    """

    __networkx_backend__: ClassVar[str] = "pleasingly"

    nodes: list[Any]
    rows: CompressedRows
    directed: bool
    multigraph: bool

    @classmethod
    def of(cls, graph: Any, weight: str | None) -> ConvertedGraph:
        """Convert a graph of networkx.

        Parameters
        ----------
        graph : networkx.Graph
        weight : str or None
            The attribute with the weight of an edge; an edge without it counts 1.

        Raises
        ------
        InputError
            A weight is negative, infinite or NaN.
        """
        nodes = list(graph)
        rows = CompressedRows(np.zeros(len(nodes) + 1, np.int64), np.empty(0, np.int32), None)
        if graph.number_of_edges():
            matrix = nx.to_scipy_sparse_array(graph, nodelist=nodes, weight=weight, dtype=float)
            rows = graph_of(matrix).rows
        return cls(nodes, rows, graph.is_directed(), graph.is_multigraph())

    def __len__(self) -> int:
        return len(self.nodes)

    def is_directed(self) -> bool:
        return self.directed

    def is_multigraph(self) -> bool:
        return self.multigraph

    def vector(self, values: Mapping[Any, float]) -> Array:
        """Numbers by node as a vector with sum 1; nodes without one get 0. NaN if all are 0."""
        vector = np.array([values.get(node, 0) for node in self.nodes], dtype=np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(vector / vector.sum())


def pagerank(
    G: ConvertedGraph,
    alpha: float = 0.85,
    personalization: Mapping[Any, float] | None = None,
    max_iter: int = 100,
    tol: float = 1.0e-6,
    nstart: Mapping[Any, float] | None = None,
    weight: str | None = "weight",
    dangling: Mapping[Any, float] | None = None,
) -> dict[Any, float]:
    """Rank nodes as ``networkx.pagerank`` does, with its parameters and errors.

    Parameters
    ----------
    G : ConvertedGraph
    alpha : float, default 0.85
        The damping factor, strictly between 0 and 1.
    personalization : mapping, optional
        Where to jump, by node; by default to all nodes alike.
    max_iter : int, default 100
    tol : float, default 1e-6
        It ends when the L1 norm of the change is below this times the number of nodes.
    nstart : mapping, optional
        Ranks to begin with, by node; not used with ``dangling``.
    weight : str or None, default "weight"
        Used when the graph is converted.
    dangling : mapping, optional
        Where the rank of nodes goes that no weight leaves; by default as ``personalization`` says.

    Returns
    -------
    dict
        Node to rank.

    Raises
    ------
    networkx.PowerIterationFailedConvergence
        The change is not small enough after ``max_iter`` iterations.
    ZeroDivisionError
        ``personalization`` is 0 on all nodes of the graph.
    """
    n = len(G)
    if n == 0:
        return {}
    uniform = np.full(n, 1 / n)
    jump = uniform if personalization is None else G.vector(personalization)
    if np.isnan(jump).any():
        raise ZeroDivisionError("personalization is 0 on all nodes of the graph")
    start = jump if nstart is None and personalization is None else uniform
    start = start if nstart is None else G.vector(nstart)
    target = jump if dangling is None else G.vector(dangling)
    if max_iter < 1 or not tol > 0 or not np.isfinite([start, target]).all():
        raise nx.PowerIterationFailedConvergence(max_iter)
    limit = min(max(n * tol, STRICTEST), LOOSEST)
    graph = Graph(pd.RangeIndex(n), G.rows)
    if dangling is None:
        surfer = RandomSurfer(n, alpha, jump[:, None], "personalised", start[:, None])
        result = pull_ranks(graph, surfer, StoppingRule(limit, max_iter))
        ranks = result.values[:, 0]
    else:
        # Ranks are linear in the rank that flows in from outside. So they are computed with the
        # rule "none", once for the jumps and once for ``dangling``. Then so much of the second is
        # added that what flows in equals what dangling nodes lose. That is up to 1 / (1 - alpha)
        # times as much, and so is its error: hence the smaller limit.
        surfer = RandomSurfer(n, alpha, np.column_stack([jump, target]), "none")
        result = pull_ranks(graph, surfer, StoppingRule(max(limit * (1 - alpha), STRICTEST)))
        jump_ranks, dangling_ranks = result.values.T
        is_dangling = reciprocal_of(graph.out_weight) == 0
        back = alpha / (1 - alpha)
        lost_rank = jump_ranks[is_dangling].sum() / (1 - back * dangling_ranks[is_dangling].sum())
        ranks = jump_ranks + back * lost_rank * dangling_ranks
    if not any(change <= limit for change in result.changes[:max_iter]):
        raise nx.PowerIterationFailedConvergence(max_iter)
    return dict(zip(G.nodes, ranks.tolist(), strict=True))


class NetworkxBackend:
    """The functions that networkx calls in a backend."""

    pagerank = staticmethod(pagerank)

    @staticmethod
    def convert_from_nx(
        graph: Any, *, edge_attrs: Mapping[str, Any] | None = None, **preserved: Any
    ) -> ConvertedGraph:
        """Convert a graph, with the weights that ``edge_attrs`` names, if any."""
        return ConvertedGraph.of(graph, next(iter(edge_attrs), None) if edge_attrs else None)

    @staticmethod
    def convert_to_nx(result: Any, *, name: str | None = None) -> Any:
        """The result itself: ranks are not a graph that would have to be converted."""
        return result

    @staticmethod
    def can_run(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool | str:
        """True if this backend has the function with these arguments; otherwise why not."""
        if name != "pagerank":
            return f"pleasingly has pagerank alone, not {name}"
        values = _values(args, kwargs)
        if not 0 < values["alpha"] < 1:
            return f"alpha must lie strictly between 0 and 1, got {values['alpha']}"
        for option in ("personalization", "nstart", "dangling"):
            if any(not value >= 0 for value in (values[option] or {}).values()):
                return f"{option} must have numbers of at least 0"
        return True

    @staticmethod
    def should_run(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool | str:
        """True if the graph is large enough to be worth converting; otherwise why not.

        networkx asks this only if the backend was not named in the call.
        """
        graph = _values(args, kwargs)["G"]
        if isinstance(graph, ConvertedGraph) or graph.number_of_edges() >= EDGES_WORTH_IT:
            return True
        return f"fewer than {EDGES_WORTH_IT:,} edges"


def _values(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(pagerank).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


backend = NetworkxBackend()
