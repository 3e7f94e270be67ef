"""``pull``, the default: compressed rows by destination on CPU cores, compiled by numba.

The method is the pull of PageRank codes for many cores (Beamer, Asanović and Patterson 2017;
Sahu 2024, arXiv 2404.08299). Here nodes are numbered anew for it: those that hand something out
first, by how many point at them, so that what is read most lies together and rows of one length
follow each other.
"""

from __future__ import annotations

import os
from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from pipelines.graph.graph import Graph, Rows, by_key
from pipelines.graph.iteration import SINGLE, Array, Iterated, Stop, Told, iterate, rounding
from pipelines.graph.pull import pull_many, pull_one
from pipelines.graph.walk import Walk, inverse
from pipelines.svm.compiled import compiled

# Sums are made chunk by chunk, and chunks do not depend on the number of threads: nor do ranks.
CHUNKS = 256

# Below this change float32 contributions would be seen in it, and they become float64.
SINGLE_UNTIL = 1e-6

# Handing work to a thread takes longer than so many edges.
EDGES_FOR_A_THREAD = 50_000


def run(
    name: str,
    graph: Graph,
    walk: Walk,
    start: Array,
    stop: Stop,
    device: str,
    n_threads: int | None,
    told: Told,
) -> Iterated:
    """PageRank by ``pull``; see ``pipelines.graph.variants.run``."""
    n_threads = n_threads or len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(n_threads) as pool:
        return iterate(lambda: Pull(graph, walk, start, pool, n_threads), stop, walk.alpha, told)


class Pull:
    """The step of ``pull`` for a graph: float32 contributions, float64 sums."""

    def __init__(self, graph: Graph, walk: Walk, start: Array, pool: Executor, n_threads: int):
        inverses = inverse(graph.out_weight)
        self._order = by_use(np.diff(graph.rows.first), inverses)
        jump = walk.jump if walk.personal is None else walk.jump[self._order]
        self._iteration = PullRows(
            renumber(graph.rows, self._order), inverses[self._order], walk, jump,
            start[self._order],
        )  # fmt: skip
        self._lost = self._iteration.lost
        self._pool = pool
        self._n_threads = max(1, min(n_threads, graph.n_edges // EDGES_FOR_A_THREAD))

    @property
    def nbytes(self) -> int:
        return self._iteration.nbytes + self._order.nbytes

    @property
    def roundoff(self) -> float:
        return self._iteration.roundoff

    def advance(self) -> Array:
        change, self._lost = self._iteration.advance(self._lost, self._pool, self._n_threads)
        if change.max() < SINGLE_UNTIL:
            self._iteration.refine()
        return change

    def ranks(self) -> Array:
        ranks = np.empty_like(self._iteration.ranks)
        ranks[self._order] = self._iteration.ranks
        return ranks


class PullRows:
    """Some rows of a graph, and the ranks of their nodes.

    Parameters
    ----------
    rows : their edges; a source is a position in what is handed out
    inverse : 1 / weight that leaves each row's node, of shape (n_rows,)
    jump : of shape (n_rows, k) or (1, 1)
    start : float64 of shape (n_rows, k)
    n_sources : length of what is handed out; that of the rows themselves stands first
    """

    def __init__(
        self,
        rows: Rows,
        inverse: Array,
        walk: Walk,
        jump: Array,
        start: Array,
        n_sources: int | None = None,
    ):
        self._rows, self._inverse, self._walk = rows, inverse, walk
        self._one = start.shape[1] == 1
        self._jump = np.ascontiguousarray(jump)
        self.ranks = np.array(start, order="C")
        n_sources = rows.n_rows if n_sources is None else n_sources
        self.handed_out = np.zeros((n_sources, start.shape[1]), np.float32)
        self.handed_out[: rows.n_rows] = start * inverse[:, None]
        self._hands_out = np.empty_like(self.handed_out)
        self._bounds = balanced(rows.first, CHUNKS)
        self._changes = np.empty((CHUNKS, start.shape[1]))
        self._lost = np.empty((CHUNKS, start.shape[1]))
        self.lost = start[inverse == 0].sum(axis=0)
        self.roundoff = SINGLE + rounding(rows)

    @property
    def nbytes(self) -> int:
        arrays = (self._inverse, self._jump, self.ranks, self.handed_out, self._hands_out)
        return self._rows.nbytes + sum(array.nbytes for array in arrays)

    def refine(self) -> None:
        """From the next iteration on, contributions in float64."""
        if self.handed_out.dtype == np.float32:
            self.handed_out = self.handed_out.astype(np.float64)
            self.handed_out[: len(self.ranks)] = self.ranks * self._inverse[:, None]
            self._hands_out = np.empty_like(self.handed_out)

    def advance(
        self, lost: Array, pool: Executor | None = None, n_threads: int = 1
    ) -> tuple[Array, Array]:
        """One iteration; the change and the rank that is lost of these rows, both (k,).

        Parameters
        ----------
        lost : the rank on all nodes that no weight leaves, before
        """
        onto_jump, everywhere = self._walk.shares(lost)
        single = self.handed_out.dtype == np.float32
        self.roundoff = rounding(self._rows) + (SINGLE if single else 0)

        def advance_chunks(chunks: tuple[int, int]) -> None:
            common = (self._bounds, chunks, self._rows.first, self._rows.source, self._rows.weight)
            if self._one:
                pull_one(
                    *common, self.handed_out[:, 0], self._inverse, self._jump[:, 0],
                    self._walk.alpha, onto_jump[0], everywhere[0], self.ranks[:, 0],
                    self._hands_out[:, 0], self._changes[:, 0], self._lost[:, 0],
                )  # fmt: skip
            else:
                pull_many(
                    *common, self.handed_out, self._inverse, self._jump, self._walk.alpha,
                    onto_jump, everywhere, self.ranks, self._hands_out, self._changes, self._lost,
                )  # fmt: skip

        shares = [(CHUNKS * i // n_threads, CHUNKS * (i + 1) // n_threads) for i in range(n_threads)]
        if pool is None or n_threads == 1:
            for share in shares:
                advance_chunks(share)
        else:
            list(pool.map(advance_chunks, shares))
        self.handed_out, self._hands_out = self._hands_out, self.handed_out
        change = self._changes.sum(axis=0)
        return change, self._lost.sum(axis=0)


def balanced(first: NDArray[np.int64], n_chunks: int) -> NDArray[np.int64]:
    """Bounds of chunks of rows with about as many edges and rows each, of shape (n_chunks + 1,)."""
    work = first + np.arange(len(first))
    return np.searchsorted(work, np.linspace(0, work[-1], n_chunks + 1)).astype(np.int64)


def by_use(n_in: NDArray[np.int64], inverse: Array) -> NDArray[np.int32]:
    """Nodes that hand something out before those that do not, the most pointed at first."""
    most = int(n_in.max())
    keys = (most - n_in) + np.where(inverse > 0, 0, most + 1)
    nodes = np.arange(len(n_in), dtype=np.int32)
    return by_key(keys, nodes, None, 2 * (most + 1))[1]


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
            if weight is not None:
                moved_weight[to] = weight[k]
            to += 1
    moved_first[len(order)] = to
    return moved_first, moved_source, moved_weight
