"""A graph in partitions by destination, on disk and in memory: the tasks of many workers.

A partition has the nodes of one range, the edges that point at them, and their ranks. Each
iteration it asks of every other only what the nodes hand out that its edges come from. All
functions are plain; whatever a lost worker held can be made again from the folder, which every
worker reaches.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.graph.edges import names_in, number_nodes, sorted_names
from pipelines.graph.files import EdgeFile, NamesAreText, Part
from pipelines.graph.graph import Piece, Rows, add_out, make_rows
from pipelines.graph.iteration import Array, rounding_of
from pipelines.graph.random_graphs import RandomGraph
from pipelines.graph.variants.pull import RowsToPull, pull
from pipelines.graph.walk import Walk
from pipelines.graph.walk import inverse as inverse_of
from pipelines.svm.compiled import compiled

NODES = "nodes.parquet"
WHOLE_NUMBERS = "nodes.npy"
PIECES = "pieces"
PIECE = ("source", "target", "weight")
# Edges that become rows together: 4 to 12 bytes each.
EDGES_AT_ONCE = 1 << 22
# Of an iteration, after each of which the edges that were read are given back.
SHARES = 16


@dataclass(frozen=True)
class Source:
    """Where edges come from: a file, read in parts, or a random graph, drawn in blocks."""

    edges: EdgeFile | RandomGraph
    text: bool = False

    def parts(self, part_bytes: int) -> list[Part | int]:
        if isinstance(self.edges, RandomGraph):
            return list(range(self.edges.n_blocks))
        return list(self.edges.parts(part_bytes))

    def names(self, part: Part | int) -> pa.Array:
        """The nodes that occur in a part."""
        assert isinstance(self.edges, EdgeFile)
        assert isinstance(part, Part)
        with memory_given_back():
            return names_in(self.edges.read(part, self.text))

    def read(self, part: Part | int, nodes: pd.Index) -> Piece:
        """The edges of a part between numbered nodes."""
        if isinstance(self.edges, RandomGraph):
            assert isinstance(part, int)
            source, target = self.edges.block(part)
            return source, target, None
        assert isinstance(part, Part)
        with memory_given_back():
            return self._numbered(part, nodes)

    def _numbered(self, part: Part, nodes: pd.Index) -> Piece:
        assert isinstance(self.edges, EdgeFile)
        block = self.edges.read(part, self.text)
        if not len(block.source):
            none = np.empty(0, np.int32)
            return none, none, None if block.weight is None else np.empty(0)
        edges = number_nodes([block], nodes)
        return edges.source, edges.target, edges.weight


@dataclass(frozen=True)
class Split:
    """How nodes are dealt to partitions: p has the nodes bounds[p] to bounds[p + 1] - 1."""

    folder: str
    bounds: tuple[int, ...]
    self_loops: str = "keep"
    repeated: str = "sum"

    @property
    def n_partitions(self) -> int:
        return len(self.bounds) - 1

    def size(self, p: int) -> int:
        return self.bounds[p + 1] - self.bounds[p]

    def path(self, p: int, name: str) -> Path:
        return Path(self.folder) / f"partition-{p:03d}" / f"{name}.npy"


@contextmanager
def memory_given_back() -> Iterator[None]:
    """Afterwards pyarrow and the C library keep none of the memory that was used and is free.

    They keep hundreds of MB by default, and Dask pauses a worker for what its process holds.
    """
    try:
        yield
    finally:
        pa.default_memory_pool().release_unused()
        if trim := _malloc_trim():
            trim(0)


@lru_cache(maxsize=1)
def _malloc_trim() -> Any:
    """glibc's; other C libraries have none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None


def survey(source: Source, part: Part | int) -> pa.Array | None:
    """The names of a part, for ``union``; None where they are not the whole numbers they were
    taken for."""
    try:
        return source.names(part)
    except NamesAreText:
        return None


def union(names: Sequence[pa.Array | None]) -> pa.Array | None:
    """Names that occur in any of several arrays, sorted; None if one of them is None."""
    if any(some is None for some in names):
        return None
    return pa.array(sorted_names([some for some in names if some is not None]))


def write_nodes(folder: str, nodes: pd.Index) -> None:
    """The names of all nodes, for all workers."""
    if nodes.dtype == np.int64:
        _save(Path(folder) / WHOLE_NUMBERS, nodes.to_numpy())
    else:
        frame = pd.DataFrame({"node": nodes})
        _atomically(Path(folder) / NODES, lambda path: frame.to_parquet(path))


def read_nodes(folder: str, n_nodes: int, first: int | None) -> pd.Index:
    """The nodes: whole numbers from ``first`` on, or the names that ``write_nodes`` wrote."""
    if first is not None:
        return pd.RangeIndex(first, first + n_nodes)
    numbers = Path(folder) / WHOLE_NUMBERS
    path = numbers if numbers.exists() else Path(folder) / NODES
    return _kept_nodes(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _kept_nodes(path: Path, written: int) -> pd.Index:
    if path.name == WHOLE_NUMBERS:
        return pd.Index(np.load(path))
    return pd.Index(pd.read_parquet(path)["node"])


@memory_given_back()
def forget_nodes() -> None:
    """Edges are numbered: names, and the table that finds them, may go."""
    _kept_nodes.cache_clear()


def balanced_bounds(n_in: NDArray[np.int64], n_nodes: int, n_partitions: int) -> tuple[int, ...]:
    """Ranges of nodes with about as many nodes and edges each, cut between cells.

    Parameters
    ----------
    n_in : edges that point into each of equal ranges of nodes
    """
    ends = cell_ends(len(n_in), n_nodes)[1:]
    work = np.cumsum(n_in) + ends
    wanted = work[-1] * np.arange(1, n_partitions) / n_partitions
    inner = ends[np.minimum(np.searchsorted(work, wanted), len(ends) - 1)]
    return (0, *(int(bound) for bound in inner), n_nodes)


def deal(
    source: Source, folder: str, nodes: pd.Index, n_cells: int, part: Part | int, number: int
) -> NDArray[np.int64]:
    """Write the edges of a part to the folder, by cell of their target.

    Returns how many edges point into each of ``n_cells`` equal ranges of nodes.
    """
    piece = source.read(part, nodes)
    cell = (piece[1].astype(np.int64) * n_cells // len(nodes)).astype(np.int32)
    counts = np.bincount(cell, minlength=n_cells)
    order = np.argsort(cell, kind="stable")
    for name, values in zip(PIECE, piece, strict=True):
        if values is not None:
            _save(_piece(folder, number, name), values[order])
    _save(_piece(folder, number, "ends"), np.concatenate(([0], np.cumsum(counts))))
    return counts


@memory_given_back()
def compress(split: Split, p: int, n_in: NDArray[np.int64], n_pieces: int) -> int:
    """Turn a partition's edges into rows, with sources in its own numbers, and write them.

    Some cells at a time, so that no process holds all edges of a partition. Its own nodes come
    first, then those of the others that its edges come from, ascending. Of these it writes which
    they are and the weight by which they point here, for their owners.

    Parameters
    ----------
    n_in : edges that point into each cell, as all calls of ``deal`` gave it

    Returns
    -------
    the number of edges
    """
    begin, end, n_nodes = split.bounds[p], split.bounds[p + 1], split.bounds[-1]
    ends = cell_ends(len(n_in), n_nodes)
    cells = np.searchsorted(ends, [begin, end])
    out, occurs, lengths = np.zeros(n_nodes), np.zeros(n_nodes, np.bool_), [np.zeros(1, np.int64)]
    groups = _groups(n_in[cells[0] : cells[1]])
    for number, (low, high) in enumerate(groups):
        low, high = int(cells[0]) + low, int(cells[0]) + high
        pieces = partial(_pieces, split.folder, n_pieces, low, high)
        some = slice(int(ends[low]), int(ends[high]))
        rows = make_rows(
            pieces, some.stop - some.start, some.start, split.self_loops, split.repeated
        )
        _mark(rows.source, occurs)
        add_out(rows.source, rows.weight, out)
        lengths.append(np.diff(rows.first))
        _save(split.path(p, f"group-{number:06d}-source"), rows.source)
        if rows.weight is not None:
            _save(split.path(p, f"group-{number:06d}-weight"), rows.weight)
    first = np.cumsum(np.concatenate(lengths))
    occurs[begin:end] = False
    others = np.flatnonzero(occurs)
    number_of = np.empty(n_nodes, np.int32)
    number_of[begin:end] = np.arange(end - begin)
    number_of[others] = np.arange(end - begin, end - begin + len(others))
    _save(split.path(p, "out-own"), out[begin:end])
    cuts = np.searchsorted(others, split.bounds)
    for q in range(split.n_partitions):
        mine = others[cuts[q] : cuts[q + 1]]
        _save(split.path(p, f"needs-{q:03d}"), (mine - split.bounds[q]).astype(np.int32))
        _save(split.path(p, f"out-{q:03d}"), out[mine])
    _save(split.path(p, "first"), first)
    _join(split, p, "source", len(groups), int(first[-1]), number_of)
    if split.path(p, "group-000000-weight").exists():
        _join(split, p, "weight", len(groups), int(first[-1]), None)
    for number in range(len(groups)):
        for name in ("source", "weight"):
            split.path(p, f"group-{number:06d}-{name}").unlink(missing_ok=True)
    return int(first[-1])


def cell_ends(n_cells: int, n_nodes: int) -> NDArray[np.int64]:
    """Cell c has the nodes ends[c] to ends[c + 1] - 1."""
    return -(-np.arange(n_cells + 1, dtype=np.int64) * n_nodes // n_cells)


def _groups(n_in: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Ranges of cells with at most ``EDGES_AT_ONCE`` edges, or one cell with more."""
    groups, begin, held = list[tuple[int, int]](), 0, 0
    for cell, n_edges in enumerate(n_in):
        if cell > begin and held + n_edges > EDGES_AT_ONCE:
            groups.append((begin, cell))
            begin, held = cell, 0
        held += int(n_edges)
    return [*groups, (begin, len(n_in))]


def _join(split: Split, p: int, name: str, n_groups: int, n_edges: int, number: Any) -> None:
    """The groups' columns in one file, sources by their new numbers."""

    def write(path: Path) -> None:
        kind = "<i4" if name == "source" else "<f8"
        header = {"descr": kind, "fortran_order": False, "shape": (n_edges,)}
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for group in range(n_groups):
                values = np.load(split.path(p, f"group-{group:06d}-{name}"))
                file.write((values if number is None else number[values]).data)

    _atomically(split.path(p, name), write)


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


def sees(path: str) -> bool:
    """Whether a file is there, for who asks from elsewhere."""
    return Path(path).is_file()


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
    split: Split
    walk: Walk
    p: int
    weighted: bool

    def __hash__(self) -> int:
        return hash((self.token, self.p))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Holding) and (self.token, self.p) == (other.token, other.p)

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
    _save(checkpoint(split, p, iteration), state.ranks)
    return iteration


def checkpoint(split: Split, p: int, iteration: int) -> Path:
    """The file of a partition's ranks after an iteration."""
    return split.path(p, f"ranks-{iteration:06d}")


def write_start(split: Split, p: int, ranks: Array, jump: Array) -> None:
    """Where a partition's ranks begin, and where the surfer jumps."""
    _save(checkpoint(split, p, 0), ranks)
    _save(split.path(p, "jump"), jump)


def _piece(folder: str, number: int, name: str) -> Path:
    return Path(folder) / PIECES / f"{number:06d}-{name}.npy"


def _pieces(folder: str, n_pieces: int, low: int, high: int) -> Iterator[Piece]:
    """Of each part the edges that point into some cells."""
    for number in range(n_pieces):
        ends = np.load(_piece(folder, number, "ends"), mmap_mode="r")
        some = slice(int(ends[low]), int(ends[high]))
        if some.start == some.stop and number:  # the first of them says whether there are weights
            continue
        yield tuple(_some(_piece(folder, number, name), some) for name in PIECE)  # type: ignore[misc]


def _some(path: Path, some: slice) -> NDArray[Any] | None:
    """A part of an array in a file, or None where there is no file."""
    if not path.exists():
        return None
    return np.array(np.load(path, mmap_mode="r")[some])


@compiled()
def _mark(source: np.ndarray, occurs: np.ndarray) -> None:
    """``occurs[source] = True``, for which numpy copies the sources as 64-bit numbers."""
    for k in range(len(source)):
        occurs[source[k]] = True


def _save(path: Path, values: NDArray[Any]) -> None:
    _atomically(path, lambda unfinished: _write(unfinished, values))


def _write(path: Path, values: NDArray[Any]) -> None:
    with path.open("wb") as file:
        np.save(file, values)


def _atomically(path: Path, write: Any) -> None:
    """A file is there whole or not at all, whichever of two workers wrote it last."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    write(unfinished)
    os.replace(unfinished, path)
