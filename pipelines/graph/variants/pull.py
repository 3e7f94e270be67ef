"""``pull``, the default: compressed rows by destination on CPU cores, compiled by numba.

The method is the pull of PageRank codes for many cores (Beamer, Asanović and Patterson 2017;
Sahu 2024, arXiv 2404.08299). Here nodes are numbered anew for it: those that hand something out
first, by how many point at them, so that what is read most lies together and rows of one length
follow each other.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.graph.graph import Graph, Rows
from pipelines.graph.iteration import (
    SINGLE,
    Array,
    Iterated,
    Problem,
    Stop,
    Told,
    iterate,
    rounding,
)
from pipelines.graph.pull import pull_many, pull_one
from pipelines.graph.walk import Walk, inverse
from pipelines.svm.compiled import compiled

# Sums are made chunk by chunk, and chunks do not depend on the number of threads: nor do ranks.
CHUNKS = 256

# Handing work to a thread takes longer than so many edges.
EDGES_FOR_A_THREAD = 50_000


def run(name: str, problem: Problem, told: Told) -> Iterated:
    """PageRank by ``pull``; see ``pipelines.graph.variants.run``."""
    n_threads = problem.n_threads or len(os.sched_getaffinity(0))
    _compile(problem)
    with ThreadPoolExecutor(n_threads) as pool:
        return iterate(lambda: Pull(problem, pool, n_threads), problem, told)


def _compile(problem: Problem) -> None:
    """Have numba compile what is needed, or load it, before anything is timed."""
    graph, walk = problem.graph, problem.walk
    first, source = np.array([0, 0, 1], np.int64), np.zeros(1, np.int32)
    rows = Rows(first, source, None if graph.rows.weight is None else np.ones(1))
    personal = None if walk.personal is None else np.ones((2, walk.n_vectors))
    few = Walk(2, walk.alpha, personal, walk.dangling)
    small = Problem(Graph(graph.nodes[:2], rows), few, few.start(), problem.stop)
    with ThreadPoolExecutor(1) as pool:
        Pull(small, pool, 1).advance()


class Pull:
    """The step of ``pull`` for a graph."""

    def __init__(self, problem: Problem, pool: Executor, n_threads: int):
        graph, walk = problem.graph, problem.walk
        kind = precision(problem.stop, walk.alpha)
        inverses = inverse(graph.out_weight)
        self._order = by_use(np.diff(graph.rows.first), inverses)
        jump = walk.jump if walk.personal is None else walk.jump[self._order]
        self._walk = walk
        self._rows = RowsToPull.of(
            renumber(graph.rows, self._order), inverses[self._order], np.ascontiguousarray(jump)
        )
        self._ranks = problem.start[self._order]
        self._lost = self._rows.lost(self._ranks)
        self._handed_out = self._rows.hands_out(self._ranks, kind)
        self._hands_out = np.empty_like(self._handed_out)
        self._pool = pool
        self._n_threads = max(1, min(n_threads, graph.n_edges // EDGES_FOR_A_THREAD))
        self.roundoff = rounding(graph.rows) + (SINGLE if kind is np.float32 else 0)

    @property
    def nbytes(self) -> int:
        arrays = (self._order, self._ranks, self._handed_out, self._hands_out)
        return self._rows.nbytes + sum(array.nbytes for array in arrays)

    def advance(self) -> Array:
        change, self._lost = pull(
            self._rows, self._walk, self._lost, self._ranks, self._handed_out, self._hands_out,
            self._pool, self._n_threads,
        )  # fmt: skip
        self._handed_out, self._hands_out = self._hands_out, self._handed_out
        return change

    def ranks(self) -> Array:
        ranks = np.empty_like(self._ranks)
        ranks[self._order] = self._ranks
        return ranks


@dataclass(frozen=True, eq=False)
class RowsToPull:
    """Some rows of a graph, and what an iteration must know of them.

    rows : their edges; a source is a position in what is handed out
    inverse : 1 / weight that leaves each row's node, 0 where none does; of shape (n_rows,)
    jump : of shape (n_rows, k), or (1, 1)
    bounds : of the chunks
    """

    rows: Rows
    inverse: Array
    jump: Array
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Rows, inverse: Array, jump: Array) -> RowsToPull:
        """With chunks of about as many edges and rows each."""
        work = rows.first + np.arange(len(rows.first))
        bounds = np.searchsorted(work, np.linspace(0, work[-1], CHUNKS + 1))
        return cls(rows, inverse, jump, bounds.astype(np.int64))

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.inverse.nbytes + self.jump.nbytes + self.bounds.nbytes

    def lost(self, ranks: Array) -> Array:
        """The rank on nodes that no weight leaves, of shape (k,)."""
        return np.asarray(ranks[self.inverse == 0].sum(axis=0))

    def hands_out(self, ranks: Array, precision: type) -> NDArray[Any]:
        """What each node hands to an edge of weight 1, of shape (n_rows, k)."""
        return (ranks * self.inverse[:, None]).astype(precision)


def pull(
    rows: RowsToPull,
    walk: Walk,
    lost: Array,
    ranks: Array,
    handed_out: NDArray[Any],
    hands_out: NDArray[Any],
    pool: Executor | None = None,
    n_shares: int = 1,
    after_share: Callable[[], None] = lambda: None,
) -> tuple[Array, Array]:
    """One iteration of some rows.

    Parameters
    ----------
    lost : of shape (k,), the rank on all nodes that no weight leaves
    ranks : float64 of shape (n_rows, k), read and written
    handed_out : float32 or float64 of shape (n_sources, k)
    hands_out : the same type, of at least n_rows, written: what the rows hand out next
    n_shares : of the chunks, each one call; at once in the threads of ``pool``, else in turn
    after_share : called when one is through

    Returns
    -------
    change, lost : of shape (k,), of these rows
    """
    onto_jump, everywhere = walk.shares(lost)
    changes = np.empty((CHUNKS, ranks.shape[1]))
    losses = np.empty_like(changes)

    def pull_chunks(chunks: tuple[int, int]) -> None:
        edges = (rows.bounds, chunks, rows.rows.first, rows.rows.source, rows.rows.weight)
        if ranks.shape[1] == 1:
            pull_one(
                *edges, handed_out[:, 0], rows.inverse, rows.jump[:, 0], walk.alpha,
                onto_jump[0], everywhere[0], ranks[:, 0], hands_out[:, 0], changes[:, 0],
                losses[:, 0],
            )  # fmt: skip
        else:
            pull_many(
                *edges, handed_out, rows.inverse, rows.jump, walk.alpha, onto_jump, everywhere,
                ranks, hands_out, changes, losses,
            )  # fmt: skip

        after_share()

    shares = [(CHUNKS * i // n_shares, CHUNKS * (i + 1) // n_shares) for i in range(n_shares)]
    list((map if pool is None else pool.map)(pull_chunks, shares))
    return changes.sum(axis=0), losses.sum(axis=0)


def precision(stop: Stop, alpha: float) -> type:
    """Of contributions: single where rounding cannot keep the change above what ends the iteration.

    Ranks may end in a cycle of roundings. Each adds at most SINGLE to either of two vectors that
    an iteration brings closer by alpha: their distance ends below 2 SINGLE / (1 - alpha).
    """
    seen = 2 * SINGLE / (1 - alpha)
    return np.float32 if stop.tol is not None and stop.tol >= seen else np.float64


def by_use(n_in: NDArray[np.int64], inverse: Array) -> NDArray[np.int32]:
    """Nodes that hand something out before those that do not, the most pointed at first."""
    most = int(n_in.max())
    keys = (most - n_in) + np.where(inverse > 0, 0, most + 1)
    return np.argsort(keys, kind="stable").astype(np.int32)


def renumber(rows: Rows, order: NDArray[np.int32]) -> Rows:
    """The same edges where node ``order[i]`` is called i."""
    number = np.empty_like(order)
    number[order] = np.arange(len(order), dtype=np.int32)
    return Rows(*_renumbered(rows.first, rows.source, rows.weight, order, number))


@compiled()
def _renumbered(
    first: np.ndarray,
    source: np.ndarray,
    weight: np.ndarray | None,
    order: np.ndarray,
    number: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    to = 0
    moved_first = np.empty_like(first)
    moved_source = np.empty_like(source)
    moved_weight = None if weight is None else np.empty_like(weight)
    for row in range(len(order)):
        moved_first[row] = to
        for k in range(first[order[row]], first[order[row] + 1]):
            moved_source[to] = number[source[k]]
            if weight is not None and moved_weight is not None:
                moved_weight[to] = weight[k]
            to += 1
    moved_first[len(order)] = to
    return moved_first, moved_source, moved_weight
