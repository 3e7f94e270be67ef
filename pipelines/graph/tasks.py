"""The tasks of an iteration on many workers: ranks of partitions, and what these exchange.

Each iteration a partition asks of every other only the contributions of the nodes that its edges
come from. All functions are plain; whatever a lost worker had in memory is loaded again from the
folder, which every worker reaches.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.graph.files import trim_memory
from pipelines.graph.graph import Rows
from pipelines.graph.iteration import Array, RandomSurfer
from pipelines.graph.partitions import Partitioning, save_array
from pipelines.graph.pull import PullRows, pull, reciprocal_of

# Of an iteration, after each of which the pages of edges that were read are released.
SHARES = 16


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition in memory: what does not change while ranks do.

    Where Dask moves it, as from a worker that retires, it is loaded again from the folder.

    needed_by : for each partition, the positions of the nodes it needs from here
    maps : the files that its edges are read from
    """

    partitioning: Partitioning
    p: int
    surfer: RandomSurfer
    rows: PullRows
    needed_by: tuple[NDArray[np.int32], ...]
    maps: tuple[mmap.mmap, ...]

    def __reduce__(self) -> Any:
        return load_partition, (self.partitioning, self.surfer, self.p)

    def release_pages(self) -> None:
        """Count the edges that were read no longer as memory of this process.

        They stay in the system's cache as long as that has room; Dask pauses, and its nanny ends,
        a worker for what is mapped into it.
        """
        for one in self.maps:
            one.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, eq=False)
class PartitionState:
    """The ranks of a partition, float64 (n_p, k), and sums over its nodes (k,)."""

    ranks: Array
    change: Array
    dangling_rank: Array


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums over all partitions after an iteration.

    dangling_rank : (k,)
    changes : of every iteration since the last checkpoint, the largest of the vectors'
    """

    dangling_rank: Array
    changes: tuple[float, ...] = ()
    done: bool = False


@trim_memory()
def load_partition(partitioning: Partitioning, surfer: RandomSurfer, p: int) -> Partition:
    """Load a partition from the folder; ``surfer`` lacks its vectors, which are there, too."""
    out = np.load(partitioning.path(p, "out-own"))
    needed_by = []
    for q in range(partitioning.n_partitions):
        needed = np.load(partitioning.path(q, f"needs-{p:03d}"))
        out[needed] += np.load(partitioning.path(q, f"out-{p:03d}"))
        needed_by.append(needed)
    # Pages come when they are read, and can be released. Copied on write, though nothing is
    # written: what is compiled for arrays in memory serves it.
    names = ("source", "weight") if partitioning.weighted else ("source",)
    edges: list[Any] = [np.load(partitioning.path(p, name), mmap_mode="c") for name in names]
    weight = np.asarray(edges[1]) if partitioning.weighted else None
    rows = Rows(np.load(partitioning.path(p, "first")), np.asarray(edges[0]), weight)
    jump = np.load(partitioning.path(p, "jump"))
    maps = tuple(one.base for one in edges if isinstance(one.base, mmap.mmap))
    pull_rows = PullRows.of(rows, reciprocal_of(out), jump)
    return Partition(partitioning, p, surfer, pull_rows, tuple(needed_by), maps)


def read_state(
    partition: Partition, partitioning: Partitioning, p: int, iteration: int
) -> PartitionState:
    """Return the ranks of a checkpoint."""
    ranks = np.load(partitioning.checkpoint(p, iteration))
    change = np.full(ranks.shape[1], np.inf)
    return PartitionState(ranks, change, partition.rows.dangling_rank(ranks))


def contributions_to(
    partition: Partition, state: PartitionState, totals: Totals, to: int, precision: type
) -> NDArray[Any]:
    """Return what another partition needs from this one, of shape (its needs, k)."""
    needed = partition.needed_by[to][: 0 if totals.done else None]
    contributions = state.ranks[needed] * partition.rows.reciprocal[needed, None]
    return np.asarray(contributions.astype(precision))


def advance(
    partition: Partition,
    state: PartitionState,
    totals: Totals,
    precision: type,
    *received: NDArray[Any],
) -> PartitionState:
    """Compute one iteration of a partition; the same state if the iteration has ended.

    received : contributions of each other partition, in their order
    """
    if totals.done:
        return state
    own = partition.rows.contributions(state.ranks, precision)
    ranks = state.ranks.copy()
    change, dangling_rank = pull(
        partition.rows, partition.surfer, totals.dangling_rank, ranks,
        np.concatenate([own, *received]), own,
        n_shares=SHARES, after_share=partition.release_pages,
    )  # fmt: skip
    return PartitionState(ranks, change, dangling_rank)


def sums(state: PartitionState) -> tuple[Array, Array]:
    """Return a state's change and dangling rank."""
    return state.change, state.dangling_rank


def add_up(before: Totals | None, tol: float | None, *parts: tuple[Array, Array]) -> Totals:
    """Reduce the partitions' states once an iteration, to decide whether it was the last."""
    if before is not None and before.done:
        return before
    change = float(np.sum([change for change, _ in parts], axis=0).max())
    dangling_rank = np.sum([rank for _, rank in parts], axis=0)
    if before is None:
        return Totals(dangling_rank)
    return Totals(dangling_rank, (*before.changes, change), tol is not None and change <= tol)


def save_state(
    partitioning: Partitioning, p: int, state: PartitionState, totals: Totals, begun: int
) -> int:
    """Write a partition's ranks as a checkpoint; the number of its iteration."""
    iteration = begun + len(totals.changes)
    save_array(partitioning.checkpoint(p, iteration), state.ranks)
    return iteration
