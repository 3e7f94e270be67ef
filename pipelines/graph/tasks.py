"""The tasks of an iteration on many workers: ranks of partitions, and what these hand over.

Each iteration a partition asks of every other only what the nodes hand out that its edges come
from. All functions are plain; whatever a lost worker held is loaded again from the folder, which
every worker reaches.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.graph.graph import Rows
from pipelines.graph.iteration import Array, rounding_of
from pipelines.graph.memory import memory_given_back
from pipelines.graph.partition import Split, save
from pipelines.graph.variants.pull import RowsToPull, pull
from pipelines.graph.walk import Walk
from pipelines.graph.walk import inverse as inverse_of

# Of an iteration, after each of which the edges that were read are given back.
SHARES = 16


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition as iterations read it: what does not change while ranks do.

    sends : for each partition, the positions of the nodes it needs from here
    maps : the files that its edges are read from
    """

    walk: Walk
    rows: RowsToPull
    sends: tuple[NDArray[np.int32], ...]
    maps: tuple[mmap.mmap, ...]

    def give_back(self) -> None:
        """Count the edges that were read no longer as memory of this process.

        They stay in the system's cache as long as that has room; Dask pauses, and its nanny ends,
        a worker for what is mapped into it.
        """
        for one in self.maps:
            one.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, eq=False)
class State:
    """The ranks of a partition after an iteration, float64 (n_p, k), and sums over them (k,)."""

    ranks: Array
    change: Array
    lost: Array


@dataclass(frozen=True, eq=False)
class Total:
    """What all partitions know after an iteration.

    lost : (k,), the rank on nodes that no weight leaves
    changes : of every iteration since the last checkpoint, the largest of the vectors'
    """

    lost: Array
    changes: tuple[float, ...] = ()
    done: bool = False


@memory_given_back()
def load_partition(split: Split, walk: Walk, p: int, weighted: bool) -> Partition:
    """A partition from the folder; ``walk`` is without its vectors, which are there too."""
    out = np.load(split.path(p, "out-own"))
    sends = []
    for q in range(split.n_partitions):
        wanted = np.load(split.path(q, f"needs-{p:03d}"))
        out[wanted] += np.load(split.path(q, f"out-{p:03d}"))
        sends.append(wanted)
    edges: list[Any] = [
        _mapped(split.path(p, name)) for name in ("source", "weight")[: 2 if weighted else 1]
    ]
    weight = np.asarray(edges[1]) if weighted else None
    rows = Rows(np.load(split.path(p, "first")), np.asarray(edges[0]), weight)
    jump = np.load(split.path(p, "jump"))
    maps = tuple(one for one in (some.base for some in edges) if isinstance(one, mmap.mmap))
    return Partition(walk, RowsToPull.of(rows, inverse_of(out), jump), tuple(sends), maps)


def _mapped(path: Path) -> NDArray[Any]:
    """A file as an array whose pages come when they are read, and can be given back.

    Copied on write, though nothing is written: what is compiled for arrays in memory serves it.
    """
    values: NDArray[Any] = np.load(path, mmap_mode="c")
    return values


# In a worker's process and not among Dask's data: when memory is short Dask writes these to disk,
# and what every iteration needs would be written, or read again, by each of its tasks.
_held: dict[Holding, Partition] = {}
_holding = threading.Lock()


@dataclass(frozen=True)
class Holding:
    """A partition that a worker's process holds; ``token`` tells one run from another."""

    token: str
    split: Split = field(compare=False)
    walk: Walk = field(compare=False)
    p: int
    weighted: bool = field(compare=False)

    def partition(self) -> Partition:
        """Loaded where this process does not have it."""
        with _holding:
            if self not in _held:
                _held[self] = load_partition(self.split, self.walk, self.p, self.weighted)
            return _held[self]


def hold(token: str, split: Split, walk: Walk, p: int, weighted: bool) -> Holding:
    """Load a partition into this process, until ``let_go``."""
    held = Holding(token, split, walk, p, weighted)
    held.partition()
    return held


@memory_given_back()
def give_back_memory() -> None:
    """What a paused worker can give back without running a task."""
    with _holding:
        for partition in _held.values():
            partition.give_back()


def let_go(token: str) -> None:
    """Give back the memory of a run's partitions."""
    with _holding:
        for held in [one for one in _held if one.token == token]:
            del _held[held]


def with_held(function: Callable[..., Any], held: Holding, *arguments: Any) -> Any:
    """A function of a partition and more, where the partition is."""
    return function(held.partition(), *arguments)


@dataclass(frozen=True)
class Size:
    """Of a partition: bytes of its rows, and the rounding of an iteration."""

    nbytes: int
    rounding: float


def size_on_disk(split: Split, p: int) -> Size:
    """The size of a partition, from its files."""
    first = np.load(split.path(p, "first"), mmap_mode="r")
    files = [split.path(p, name) for name in ("first", "source", "weight")]
    nbytes = sum(path.stat().st_size for path in files if path.exists())
    return Size(nbytes, rounding_of(int(np.diff(first).max(initial=0))))


def begin_state(partition: Partition, split: Split, p: int, iteration: int) -> State:
    """The ranks of a checkpoint."""
    ranks = np.load(checkpoint(split, p, iteration))
    return State(ranks, np.full(ranks.shape[1], np.inf), partition.rows.lost(ranks))


def hand_over(
    partition: Partition, state: State, total: Total, to: int, precision: type
) -> NDArray[Any]:
    """What another partition needs from this one, of shape (its needs, k)."""
    wanted = partition.sends[to][: 0 if total.done else None]
    handed = state.ranks[wanted] * partition.rows.inverse[wanted, None]
    return np.asarray(handed.astype(precision))


def advance(
    partition: Partition, state: State, total: Total, precision: type, *received: NDArray[Any]
) -> State:
    """One iteration of a partition; the same state where the iteration has ended.

    received : what each other partition hands over, in their order
    """
    if total.done:
        return state
    own = partition.rows.hands_out(state.ranks, precision)
    handed_out = np.concatenate([own, *received])
    ranks = state.ranks.copy()
    change, lost = pull(
        partition.rows, partition.walk, total.lost, ranks, handed_out, own,
        n_shares=SHARES, after_share=partition.give_back,
    )  # fmt: skip
    return State(ranks, change, lost)


def sums(state: State) -> tuple[Array, Array]:
    """A state's change and lost rank."""
    return state.change, state.lost


def add_up(before: Total | None, tol: float | None, *parts: tuple[Array, Array]) -> Total:
    """The one reduction of an iteration: it decides whether it was the last."""
    if before is not None and before.done:
        return before
    change = float(np.sum([change for change, _ in parts], axis=0).max())
    lost = np.sum([lost for _, lost in parts], axis=0)
    if before is None:
        return Total(lost)
    return Total(lost, (*before.changes, change), tol is not None and change <= tol)


def save_state(split: Split, p: int, state: State, total: Total, begun: int) -> int:
    """Write a partition's ranks as a checkpoint; the number of its iteration."""
    iteration = begun + len(total.changes)
    save(checkpoint(split, p, iteration), state.ranks)
    return iteration


def checkpoint(split: Split, p: int, iteration: int) -> Path:
    """The file of a partition's ranks after an iteration."""
    return split.path(p, f"ranks-{iteration:06d}")


def write_start(split: Split, p: int, ranks: Array, jump: Array) -> None:
    """Where a partition's ranks begin, and where the surfer jumps."""
    save(checkpoint(split, p, 0), ranks)
    save(split.path(p, "jump"), jump)
