"""The lines of ``benchmarks.pagerank``: each takes a graph, made before, to ranks.

All are brought to end by one rule: an iteration whose ranks differ from those before by at most
``tol`` in the L1 norm is the last. How each is made to follow it stands at its function. Peers are
optional: one that is not installed is named and left out. And how fast this machine reads its
memory, which an iteration is held against.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from benchmarks.pagerank_study import ScipyArrays, rank_by_matrices
from pipelines.graph.graph import Graph
from pipelines.graph.iteration import Array, IterationResult, RandomSurfer, StoppingRule
from pipelines.graph.pull import pull_ranks

ARRAY_BYTES = 1 << 28  # larger than any cache


@dataclass(frozen=True)
class Ran:
    """One turn of a line.

    ranks : float64 of shape (n,)
    n_iterations : None where the peer does not say
    preparing : seconds from the graph as the peer holds it to its first iteration, where known
    """

    ranks: Array
    n_iterations: int | None
    preparing: float = 0.0
    iterating: float = 0.0


Line = Callable[[], Ran]


@dataclass(frozen=True)
class Lines:
    """Lines by name, the seconds it took each to make its graph, and the peers that are missing."""

    lines: dict[str, Line]
    making: dict[str, float]
    missing: list[str]


def make_lines(graph: Graph, tol: float, n_threads: int) -> Lines:
    """All lines that can be run here, each with its own form of the graph.

    Parameters
    ----------
    graph : unweighted, no edge twice
    """
    target = np.repeat(np.arange(graph.n_nodes, dtype=np.int32), np.diff(graph.rows.first))
    source = graph.rows.source
    surfer, stop, scipy = RandomSurfer(graph.n_nodes), StoppingRule(tol), ScipyArrays("cpu")
    lines: dict[str, Line] = {
        "pull": lambda: _ran(pull_ranks(graph, surfer, stop, n_threads)),
        "scipy": lambda: _ran(rank_by_matrices(scipy, "sparse", "broadcast", graph, stop)),
    }
    making, missing = {"pull": 0.0, "scipy": 0.0}, []
    peers = {"networkit": _networkit, "igraph": _igraph, "networkx": _networkx}
    for name, make in peers.items():
        if importlib.util.find_spec(name) is None:
            missing.append(name)
            continue
        began = time.perf_counter()
        lines[name] = make(graph.n_nodes, source, target, surfer.alpha, tol, n_threads)
        making[name] = time.perf_counter() - began
    return Lines(lines, making, missing)


def _ran(done: IterationResult) -> Ran:
    return Ran(done.values[:, 0], len(done.changes), done.setup_seconds, sum(done.seconds))


def _networkit(n: int, source: Any, target: Any, alpha: float, tol: float, n_threads: int) -> Line:
    """Its L1 norm and its ``tol`` are our rule; sinks are distributed, or ranks would be others."""
    import networkit

    networkit.setNumberOfThreads(n_threads)
    graph = networkit.GraphFromCoo(
        (source.astype(np.uint64), target.astype(np.uint64)), n, directed=True
    )

    def rank() -> Ran:
        sinks = networkit.centrality.SinkHandling.DistributeSinks
        algorithm = networkit.centrality.PageRank(graph, alpha, tol, distributeSinks=sinks)
        algorithm.norm = networkit.centrality.Norm.L1_NORM
        algorithm.run()
        return Ran(np.asarray(algorithm.scores()), int(algorithm.numberOfIterations()))

    return rank


def _igraph(n: int, source: Any, target: Any, alpha: float, tol: float, n_threads: int) -> Line:
    """PRPACK has no tolerance to set (its own is 1e-10): it gives more than is asked for."""
    import igraph

    graph = igraph.Graph(n=n, edges=np.stack([source, target], axis=1), directed=True)
    return lambda: Ran(np.asarray(graph.pagerank(damping=alpha, implementation="prpack")), None)


def _networkx(n: int, source: Any, target: Any, alpha: float, tol: float, n_threads: int) -> Line:
    """It ends at an L1 norm below n tol, so it is given tol / n; it is one thread of scipy."""
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(zip(source.tolist(), target.tolist(), strict=True))

    def rank() -> Ran:
        ranks = networkx.pagerank(graph, alpha=alpha, tol=tol / n, max_iter=1000)
        return Ran(np.fromiter(ranks.values(), np.float64, n), None)

    return rank


@njit(nogil=True, fastmath=True)  # type: ignore[untyped-decorator]
def _total(values: np.ndarray) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


def read_bandwidth(n_threads: int, repeats: int = 5) -> float:
    """Bytes a second that ``n_threads`` read together from arrays of their own, the best turn."""
    arrays = [np.ones(ARRAY_BYTES // 8) for _ in range(n_threads)]
    _total(arrays[0][:8])
    best = 0.0
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in range(repeats):
            began = time.perf_counter()
            list(pool.map(_total, arrays))
            best = max(best, n_threads * ARRAY_BYTES / (time.perf_counter() - began))
    return best


def iteration_bytes(graph: Graph) -> int:
    """What an iteration of ``pull`` must read and write at least, each byte once.

    For an edge its source (int32); for a node where its row begins (int64), 1 / weight (float64),
    its rank, read and written (float64), what it handed out and hands out (float32).
    """
    return 4 * graph.n_edges + (8 + 8 + 16 + 8) * graph.n_nodes
