"""PageRank on CPU cores: compressed rows by destination, compiled by numba.

The method is the pull of PageRank codes for many cores (Beamer, Asanović and Patterson 2017;
Sahu 2024, arXiv 2404.08299): each row collects what the nodes that point at it contribute. Here
nodes are numbered anew for it: those that contribute something first, by how many point at them,
so that what is read most lies together and rows of one length follow each other.
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

# Sums are made chunk by chunk, and chunks do not depend on the number of threads: nor do ranks.
CHUNKS = 256

# Handing work to a thread takes longer than so many edges.
EDGES_FOR_A_THREAD = 50_000


def pull_ranks(
    graph: Graph,
    surfer: RandomSurfer,
    stop: StoppingRule,
    n_threads: int | None = None,
    callback: Callback = ignore,
) -> IterationResult:
    """Iterate until ``stop`` says so.

    Parameters
    ----------
    n_threads : None: every core this process may use
    """
    if graph.n_nodes > 2:  # compile, or load what was compiled, before anything is timed
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
    # Nodes that contribute come before those that do not, the most pointed at first.
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
    """Some rows of a graph, and what an iteration must know of them.

    rows : their edges; a source is a position among the contributions
    reciprocal : 1 / weight that leaves each row's node, 0 where none does; of shape (n_rows,)
    jump : of shape (n_rows, k), or (1, 1)
    bounds : of the chunks
    """

    rows: CompressedRows
    reciprocal: Array
    jump: Array
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, rows: CompressedRows, reciprocal: Array, jump: Array) -> PullRows:
        """Split rows into chunks with about as many edges and rows each."""
        work = rows.first + np.arange(len(rows.first))
        bounds = np.searchsorted(work, np.linspace(0, work[-1], CHUNKS + 1))
        return cls(rows, reciprocal, jump, bounds.astype(np.int64))

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.reciprocal.nbytes + self.jump.nbytes + self.bounds.nbytes

    def dangling_rank(self, ranks: Array) -> Array:
        """Return the rank on nodes that no weight leaves, of shape (k,)."""
        return np.asarray(ranks[self.reciprocal == 0].sum(axis=0))

    def contributions(self, ranks: Array, precision: type) -> NDArray[Any]:
        """Return each node's contribution along an edge of weight 1, of shape (n_rows, k)."""
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
    """Compute one iteration of some rows.

    Parameters
    ----------
    dangling_rank : of shape (k,), the rank on all nodes that no weight leaves
    ranks : float64 of shape (n_rows, k), read and written
    contributions : float32 or float64 of shape (n_sources, k)
    following : the same type, of at least n_rows, written: what the rows contribute next
    n_shares : of the chunks, each one call in the threads of ``pool``

    Returns
    -------
    change, dangling_rank : of shape (k,), of these rows
    """
    jump_weight, uniform_weight = surfer.jump_weights(dangling_rank)
    changes = np.empty((CHUNKS, ranks.shape[1]))
    dangling_ranks = np.empty_like(changes)

    # Of one vector the axis of vectors goes.
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
    """Return 1 / weight that leaves a node, and 0 where none does; of shape (n,)."""
    return np.divide(1.0, out_weight, out=np.zeros_like(out_weight), where=out_weight > 0)


@compiled()
def _renumbered(
    first: np.ndarray, source: np.ndarray, weight: np.ndarray | None, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the same edges where node ``order[i]`` is called i."""
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
    """Compute one iteration of one vector, for the rows of some chunks.

    bounds : chunk c has the rows bounds[c] to bounds[c + 1]
    contributions : what each source contributes along an edge of weight 1, in float32 or float64
    reciprocal : 1 / weight that leaves a row's node, 0 where none does
    jump : float64 of one value for each row, or of one for all
    ranks : float64, read and written
    following : written, as ``contributions``, for the next iteration
    changes, dangling_rank : float64, a chunk's L1 change and rank on dangling nodes
    """
    is_uniform = len(jump) == 1
    for chunk in range(chunks[0], chunks[1]):
        change = 0.0
        dangling = 0.0
        for row in range(bounds[chunk], bounds[chunk + 1]):
            # Four sums: an addition does not wait for the one before.
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
    """Apply ``pull_one`` to k vectors at once: an edge is read once for all of them.

    All but ``reciprocal`` and the edges have an axis more, of length k.
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
