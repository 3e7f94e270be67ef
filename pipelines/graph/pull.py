"""PageRank on CPU cores: compressed rows by destination, compiled by numba.

This is the pull form of PageRank (Beamer et al. 2017; Sahu 2024): each row collects what the nodes
that point at it contribute. The nodes are renumbered for it: those that contribute come first, in
descending order of the number of edges that point at them. So the contributions that are read most
often lie together, and rows of equal length follow each other.

References
----------
S. Beamer, K. Asanović and D. Patterson, Reducing PageRank communication via propagation blocking,
IEEE International Parallel and Distributed Processing Symposium, 2017.

S. Sahu, Efficient GPU implementation of static and incrementally expanding DF-P PageRank for
dynamic graphs, arXiv 2404.08299, 2024.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.graph.graph import CompressedRows, Graph
from pipelines.graph.iteration import (
    Array,
    Callback,
    IterationResult,
    RandomSurfer,
    StoppingRule,
    ignore,
    rounding_error,
)
from pipelines.svm.compiled import NO_NAN, compiled

# Sums are over chunks, which do not depend on the number of threads; so neither do the ranks.
CHUNKS = 256

# A thread gets at least this many edges; for fewer, handing work to it takes longer than the work.
EDGES_FOR_A_THREAD = 50_000


def pull_ranks(
    graph: Graph,
    surfer: RandomSurfer,
    stop: StoppingRule,
    n_threads: int | None = None,
    callback: Callback = ignore,
) -> IterationResult:
    """Compute the ranks of a graph in memory by the power iteration, on CPU cores.

    Parameters
    ----------
    graph : Graph
    surfer, stop : RandomSurfer, StoppingRule
    n_threads : int, optional
        By default one for each core that this process may use.
    callback : function, optional
        Called with the number of each iteration and its change.

    Returns
    -------
    IterationResult
    """
    if graph.n_nodes > 2:  # so that compiling, or loading what was compiled, is not timed
        weight = None if graph.rows.weight is None else np.ones(1)
        two_rows = CompressedRows(np.array([0, 0, 1], np.int64), np.zeros(1, np.int32), weight)
        halves = None if surfer.personalisation is None else np.full((2, surfer.n_vectors), 0.5)
        small_surfer = RandomSurfer(2, surfer.alpha, halves, surfer.dangling)
        small_graph = Graph(graph.nodes[:2], two_rows)
        pull_ranks(small_graph, small_surfer, replace(stop, iterations=1), 1)
    began = time.perf_counter()
    dtype = stop.precision(surfer.alpha)
    reciprocal = reciprocal_of(graph.out_weight)
    n_in = np.diff(graph.rows.first)
    # Nodes that contribute come before those that do not; within both, by descending in-degree.
    max_in = int(n_in.max())
    keys = (max_in - n_in) + np.where(reciprocal > 0, 0, max_in + 1)
    order = np.argsort(keys, kind="stable").astype(np.int32)
    jump = surfer.jump if surfer.personalisation is None else surfer.jump[order]
    moved_rows = CompressedRows(
        *_renumbered(graph.rows.first, graph.rows.source, graph.rows.weight, order)
    )
    rows = PullRows.of(moved_rows, reciprocal[order], np.ascontiguousarray(jump))
    ranks = surfer.start()[order]
    dangling_rank = rows.dangling_rank(ranks)
    contributions = rows.contributions(ranks, dtype)
    following = np.empty_like(contributions)
    arrays = (order, ranks, contributions, following)
    nbytes = rows.nbytes + sum(array.nbytes for array in arrays)
    n_threads = n_threads or len(os.sched_getaffinity(0))
    n_slices = max(1, min(n_threads, graph.n_edges // EDGES_FOR_A_THREAD))
    setup_seconds = time.perf_counter() - began
    changes, seconds = list[float](), list[float]()
    with ThreadPoolExecutor(n_threads) as pool:
        while not stop.reached(changes) and len(changes) < stop.most(surfer.alpha):
            began = time.perf_counter()
            change, dangling_rank = pull(
                rows, surfer, dangling_rank, ranks, contributions, following, pool, n_slices
            )
            contributions, following = following, contributions
            changes.append(float(change.max()))
            seconds.append(time.perf_counter() - began)
            callback(len(changes), changes[-1])
    in_order = np.empty_like(ranks)
    in_order[order] = ranks
    converged, rounding = stop.reached(changes), rounding_error(n_in, dtype)
    return IterationResult(in_order, changes, converged, rounding, seconds, setup_seconds, nbytes)


@dataclass(frozen=True, eq=False)
class PullRows:
    """Rows of a graph, of all its nodes or of a partition, and what an iteration needs with them.

    Attributes
    ----------
    rows : CompressedRows
        Their edges; a source is a position among the contributions.
    reciprocal : float64 array of shape (n_rows,)
        1 / the weight that leaves each row's node; 0 if none does.
    jump : float64 array of shape (n_rows, k) or (1, 1)
        Where to jump; see ``RandomSurfer.jump``.
    bounds : int64 array
        Chunk c has the rows from bounds[c] to bounds[c + 1] - 1.
    """

    rows: CompressedRows
    reciprocal: Array
    jump: Array
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, rows: CompressedRows, reciprocal: Array, jump: Array) -> PullRows:
        """Split rows into chunks, of which edges and rows together are about equal in number."""
        work = rows.first + np.arange(len(rows.first))
        bounds = np.searchsorted(work, np.linspace(0, work[-1], CHUNKS + 1))
        return cls(rows, reciprocal, jump, bounds.astype(np.int64))

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.reciprocal.nbytes + self.jump.nbytes + self.bounds.nbytes

    def dangling_rank(self, ranks: Array) -> Array:
        """The sum of the ranks of nodes that no weight leaves, of shape (k,)."""
        return np.asarray(ranks[self.reciprocal == 0].sum(axis=0))

    def contributions(self, ranks: Array, precision: type) -> NDArray[Any]:
        """What each node contributes along an edge of weight 1, of shape (n_rows, k)."""
        return (ranks * self.reciprocal[:, None]).astype(precision)


def pull(
    rows: PullRows,
    surfer: RandomSurfer,
    dangling_rank: Array,
    ranks: Array,
    contributions: NDArray[Any],
    following: NDArray[Any],
    pool: Executor | None = None,
    n_slices: int = 1,
) -> tuple[Array, Array]:
    """Compute one iteration of these rows.

    Parameters
    ----------
    rows : PullRows
    surfer : RandomSurfer
    dangling_rank : array of shape (k,)
        The sum of the ranks of all nodes that no weight leaves.
    ranks : float64 array of shape (n_rows, k)
        Read, and overwritten with the new ranks.
    contributions : float32 or float64 array of shape (n_sources, k)
        The contributions of all nodes.
    following : array of shape (n_rows, k) or longer, of the same dtype
        Overwritten with the rows' contributions to the next iteration.
    pool : concurrent.futures.Executor, optional
        A pool of threads; by default everything runs in this thread.
    n_slices : int, default 1
        Calls into which the chunks are divided for the threads.

    Returns
    -------
    change, dangling_rank : float64 arrays of shape (k,)
        The L1 norm of the change, and the sum of the new ranks of dangling nodes, of these rows.
    """
    jump_weight, uniform_weight = surfer.jump_weights(dangling_rank)
    changes = np.empty((CHUNKS, ranks.shape[1]))
    dangling_ranks = np.empty_like(changes)

    # With one vector the kernel works on arrays without the axis of vectors.
    kernel, vectors = (pull_one, 0) if ranks.shape[1] == 1 else (pull_many, slice(None))
    edges = (rows.rows.first, rows.rows.source, rows.rows.weight)
    nodes = (contributions[:, vectors], rows.reciprocal, rows.jump[:, vectors])
    numbers: list[Any] = [surfer.alpha, jump_weight[vectors], uniform_weight[vectors]]
    output_arrays = [array[:, vectors] for array in (ranks, following, changes, dangling_ranks)]

    def pull_chunks(chunks: tuple[int, int]) -> None:
        kernel(rows.bounds, chunks, *edges, *nodes, *numbers, *output_arrays)

    slices = [(CHUNKS * i // n_slices, CHUNKS * (i + 1) // n_slices) for i in range(n_slices)]
    list((map if pool is None else pool.map)(pull_chunks, slices))
    return changes.sum(axis=0), dangling_ranks.sum(axis=0)


def reciprocal_of(out_weight: Array) -> Array:
    """1 / the weight that leaves each node, and 0 if none does; of shape (n,)."""
    return np.divide(1.0, out_weight, out=np.zeros_like(out_weight), where=out_weight > 0)


@compiled()
def _renumbered(
    first: np.ndarray, source: np.ndarray, weight: np.ndarray | None, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The same edges after node ``order[i]`` has got the number i."""
    number = np.empty_like(order)
    for position in range(len(order)):
        number[order[position]] = position
    edge = 0
    moved_first = np.empty_like(first)
    moved_source = np.empty_like(source)
    moved_weight = None if weight is None else np.empty_like(weight)
    for row in range(len(order)):
        moved_first[row] = edge
        for k in range(first[order[row]], first[order[row] + 1]):
            moved_source[edge] = number[source[k]]
            if weight is not None and moved_weight is not None:
                moved_weight[edge] = weight[k]
            edge += 1
    moved_first[len(order)] = edge
    return moved_first, moved_source, moved_weight


@compiled(*NO_NAN)
def pull_one(
    bounds: np.ndarray,
    chunks: tuple[int, int],
    first: np.ndarray,
    source: np.ndarray,
    weight: np.ndarray | None,
    contributions: np.ndarray,
    reciprocal: np.ndarray,
    jump: np.ndarray,
    alpha: float,
    jump_weight: float,
    uniform_weight: float,
    ranks: np.ndarray,
    following: np.ndarray,
    changes: np.ndarray,
    dangling_rank: np.ndarray,
) -> None:
    """Compute one iteration of one vector, for the rows of a range of chunks.

    Parameters
    ----------
    bounds : int64 array
        Chunk c has the rows from bounds[c] to bounds[c + 1] - 1.
    chunks : tuple of int
        The range of chunks.
    first, source, weight : arrays
        See ``CompressedRows``.
    contributions : float32 or float64 array
        What each source contributes along an edge of weight 1.
    reciprocal : float64 array
        1 / the weight that leaves a row's node; 0 if none does.
    jump : float64 array
        A value for each row, or one for all.
    alpha : float
    jump_weight, uniform_weight : float
        See ``RandomSurfer.jump_weights``.
    ranks : float64 array
        Read and overwritten.
    following : array of the dtype of ``contributions``
        Overwritten with the contributions to the next iteration.
    changes, dangling_rank : float64 arrays
        Overwritten with the L1 change of each chunk, and the rank of its dangling nodes.
    """
    is_uniform = len(jump) == 1
    for chunk in range(chunks[0], chunks[1]):
        change = 0.0
        dangling = 0.0
        for row in range(bounds[chunk], bounds[chunk + 1]):
            # Four sums in turn, so that an addition need not wait for the one before it.
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            k, end = first[row], first[row + 1]
            if weight is None:
                while k + 4 <= end:
                    a += contributions[source[k]]
                    b += contributions[source[k + 1]]
                    c += contributions[source[k + 2]]
                    d += contributions[source[k + 3]]
                    k += 4
                while k < end:
                    a += contributions[source[k]]
                    k += 1
            else:
                while k < end:
                    a += weight[k] * contributions[source[k]]
                    k += 1
            jumped = jump_weight * jump[0 if is_uniform else row] + uniform_weight
            rank = alpha * ((a + b) + (c + d)) + jumped
            change += abs(rank - ranks[row])
            ranks[row] = rank
            following[row] = rank * reciprocal[row]
            if reciprocal[row] == 0.0:
                dangling += rank
        changes[chunk] = change
        dangling_rank[chunk] = dangling


@compiled(*NO_NAN)
def pull_many(
    bounds: np.ndarray,
    chunks: tuple[int, int],
    first: np.ndarray,
    source: np.ndarray,
    weight: np.ndarray | None,
    contributions: np.ndarray,
    reciprocal: np.ndarray,
    jump: np.ndarray,
    alpha: float,
    jump_weight: np.ndarray,
    uniform_weight: np.ndarray,
    ranks: np.ndarray,
    following: np.ndarray,
    changes: np.ndarray,
    dangling_rank: np.ndarray,
) -> None:
    """``pull_one`` for k vectors at once, which reads each edge once for all of them.

    All arrays but ``reciprocal`` and the edges have one more axis, of length k.
    """
    k_vectors = ranks.shape[1]
    sums = np.empty(k_vectors, np.float64)
    for chunk in range(chunks[0], chunks[1]):
        changes[chunk, :] = 0.0
        dangling_rank[chunk, :] = 0.0
        for row in range(bounds[chunk], bounds[chunk + 1]):
            sums[:] = 0.0
            for k in range(first[row], first[row + 1]):
                node = source[k]
                edge_weight = 1.0 if weight is None else weight[k]
                for v in range(k_vectors):
                    sums[v] += edge_weight * contributions[node, v]
            for v in range(k_vectors):
                jumped = jump_weight[v] * jump[row, v] + uniform_weight[v]
                rank = alpha * sums[v] + jumped
                changes[chunk, v] += abs(rank - ranks[row, v])
                ranks[row, v] = rank
                following[row, v] = rank * reciprocal[row]
                if reciprocal[row] == 0.0:
                    dangling_rank[chunk, v] += rank
