"""A graph in partitions by destination, on disk, and the tasks that write them and iterate.

A partition has the nodes of one range, the edges that point at them, and their ranks. All
functions are plain, and any worker that reaches the folder can run any of them: edges are mapped
from their files for the length of a task, so that no process holds all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.graph.edges import both_ways
from pipelines.graph.files import EdgeFile, FilePart
from pipelines.graph.graph import CompressedRows, add_out, are_usual, make_rows
from pipelines.graph.iteration import Array, RandomSurfer, rounding_error
from pipelines.graph.layout import NamesAreText
from pipelines.graph.names import to_one_type
from pipelines.graph.pull import PullRows, pull, reciprocal_of
from pipelines.graph.random_graphs import RandomGraph
from pipelines.run_folder.names import replacing

PIECES = "pieces"
# numpy parses a file's head as Python. Python 3.11 counts the depth of all threads' syntax trees in
# one place, and raises SystemError where two parse at once (python/cpython#106905).
_PARSING = threading.Lock()


@dataclass(frozen=True)
class Partitioning:
    """A graph in partitions: p has the nodes bounds[p] to bounds[p + 1] - 1."""

    folder: str
    bounds: tuple[int, ...]
    weighted: bool = False
    n_edges: int = 0

    @property
    def n_partitions(self) -> int:
        return len(self.bounds) - 1

    @property
    def n_nodes(self) -> int:
        return self.bounds[-1]

    def path(self, p: int, name: str) -> Path:
        return Path(self.folder) / f"partition-{p:03d}" / f"{name}.npy"

    def rows(self, p: int, mmap_mode: Literal["c"] | None = None) -> CompressedRows:
        """Return the edges of a partition, mapped where told."""
        first, source = (read_array(self.path(p, name), mmap_mode) for name in ("first", "source"))
        weight = read_array(self.path(p, "weight"), mmap_mode) if self.weighted else None
        return CompressedRows(first, source, weight)

    def checkpoint(self, p: int, iteration: int) -> Path:
        """Return the file of a partition's ranks after an iteration."""
        return self.path(p, f"ranks-{iteration:06d}")

    def nbytes(self) -> int:
        """Return the bytes of the files that an iteration reads."""
        names = ("first", "source", "weight") if self.weighted else ("first", "source")
        return sum(
            self.path(p, name).stat().st_size for p in range(self.n_partitions) for name in names
        )

    def rounding_error(self, precision: type = np.float64) -> float:
        """Return the rounding error of an iteration; see ``iteration``."""
        firsts = (read_array(self.path(p, "first")) for p in range(self.n_partitions))
        return max(rounding_error(np.diff(first), precision) for first in firsts)


@dataclass(frozen=True, eq=False)
class PartitionState:
    """A partition after an iteration.

    ranks : float64 of shape (n_p, k)
    contributions : of its nodes along an edge of weight 1, float32 or float64 of shape (n_p, k)
    change, dangling_rank : sums over its nodes, of shape (k,)
    """

    ranks: Array
    contributions: NDArray[Any]
    change: Array
    dangling_rank: Array


@dataclass(frozen=True, eq=False)
class Exchange:
    """What all partitions know of each other after an iteration.

    contributions : of all nodes, of shape (n, k)
    dangling_rank : of shape (k,)
    changes : of every iteration since the last checkpoint, the largest of the vectors'
    """

    contributions: NDArray[Any]
    dangling_rank: Array
    changes: tuple[float, ...] = ()
    done: bool = False


def names_in_part(edges: EdgeFile, part: FilePart) -> tuple[pa.Array, int] | None:
    """Return the node names in a part, and how many comments it has.

    None if names are not integers, as was assumed.
    """
    try:
        block = edges.read(part)
        return block.names, block.n_comments
    except NamesAreText:
        return None
    finally:
        pa.default_memory_pool().release_unused()  # or it keeps hundreds of MB


def union(parts: Iterable[tuple[pa.Array, int] | None]) -> tuple[pa.Array, int] | None:
    """Return names that occur in any of several arrays; None if one of them is None."""
    all_parts = list(parts)
    integer_parts = [part for part in all_parts if part is not None]
    if len(integer_parts) < len(all_parts):
        return None
    arrays, n_comments = zip(*integer_parts, strict=True)
    return pc.unique(pa.chunked_array(to_one_type(list(arrays)))), sum(n_comments)


def read_nodes(path: Path) -> pd.Index:
    """Return the names of all nodes, as ``distributed`` wrote them."""
    return pd.Index(pd.read_parquet(path)["node"])


def balanced_bounds(n_in: NDArray[np.int64], n_nodes: int, n_partitions: int) -> tuple[int, ...]:
    """Return ranges of nodes with about as many nodes and edges each.

    Parameters
    ----------
    n_in : edges that point into each of equal ranges of nodes, between which is cut
    """
    ends = -(-np.arange(1, len(n_in) + 1, dtype=np.int64) * n_nodes // len(n_in))
    work = np.cumsum(n_in) + ends
    targets = work[-1] * np.arange(1, n_partitions) / n_partitions
    inner = ends[np.minimum(np.searchsorted(work, targets), len(ends) - 1)]
    return (0, *(int(bound) for bound in inner), n_nodes)


def write_piece(
    edges: EdgeFile | RandomGraph,
    folder: str,
    n_ranges: int,
    nodes: pd.Index,
    undirected: bool,
    number: int,
    part: Any,
) -> tuple[NDArray[np.int64], bool]:
    """Write the edges of a part in the order of their targets.

    Returns
    -------
    how many of them point into each of ``n_ranges`` equal ranges of nodes, and whether their
    weights are neither very large nor very small
    """
    source, target, weight = edges.piece(part, nodes)
    if undirected:
        source, target, weight = both_ways((source, target, weight))
    order = np.argsort(target, kind="stable")
    for name, values in (("source", source), ("target", target), ("weight", weight)):
        if values is not None:
            save_array(Path(folder, PIECES, f"{number:06d}-{name}.npy"), values[order])
    ranges = target.astype(np.int64) * n_ranges // len(nodes)
    is_usual = weight is None or are_usual(weight)
    return np.bincount(ranges, minlength=n_ranges), is_usual


def write_rows(
    graph: Partitioning,
    self_loops: str,
    repeated: str,
    n_pieces: int,
    has_usual_weights: bool,
    p: int,
) -> int:
    """Gather a partition's edges from all pieces, and write them as rows; return their number.

    usual : else weights are divided by the largest that leaves the same node
    """
    begin, end = graph.bounds[p], graph.bounds[p + 1]

    def mapped(number: int, name: str) -> NDArray[Any]:
        return read_array(Path(graph.folder, PIECES, f"{number:06d}-{name}.npy"), mmap_mode="r")

    bounds = np.array([begin, end], np.int32)
    ends = [np.searchsorted(mapped(number, "target"), bounds) for number in range(n_pieces)]

    def column(name: str) -> NDArray[Any]:
        parts = (mapped(number, name)[slice(*ends[number])] for number in range(n_pieces))
        return np.concatenate(list(parts))

    weight = column("weight") if graph.weighted else None
    edges = (column("source"), column("target"), weight)
    if weight is not None and not has_usual_weights:
        largest = np.zeros(graph.n_nodes)
        for number in range(n_pieces):
            source, all_weights = mapped(number, "source"), mapped(number, "weight")
            is_counted = slice(None) if self_loops == "keep" else source != mapped(number, "target")
            np.maximum.at(largest, source[is_counted], all_weights[is_counted])
        largest[largest == 0] = 1
        edges = (*edges[:2], weight / largest[edges[0]])
    rows = make_rows(edges, end - begin, begin, self_loops, repeated)
    save_array(graph.path(p, "first"), rows.first)
    save_array(graph.path(p, "source"), rows.source)
    if rows.weight is not None:
        save_array(graph.path(p, "weight"), rows.weight)
    out = np.zeros(graph.n_nodes)
    add_out(rows.source, rows.weight, out)
    sources = np.flatnonzero(out)
    save_array(graph.path(p, "out-node"), sources.astype(np.int32))
    save_array(graph.path(p, "out-weight"), out[sources])
    return rows.n_edges


def write_reciprocals(graph: Partitioning, dependencies: Any = None) -> None:
    """Write 1 / the weight that leaves each node, once all rows are written."""
    out = np.zeros(graph.n_nodes)
    for p in range(graph.n_partitions):
        out[read_array(graph.path(p, "out-node"))] += read_array(graph.path(p, "out-weight"))
    reciprocal = reciprocal_of(out)
    for p in range(graph.n_partitions):
        save_array(graph.path(p, "reciprocal"), reciprocal[graph.bounds[p] : graph.bounds[p + 1]])


def write_start(graph: Partitioning, surfer: RandomSurfer, ranks: Array) -> None:
    """Write the initial ranks of each partition, and where its surfer jumps."""
    for p in range(graph.n_partitions):
        part = slice(graph.bounds[p], graph.bounds[p + 1])
        jump = surfer.jump if surfer.personalisation is None else surfer.jump[part]
        save_array(graph.checkpoint(p, 0), ranks[part])
        save_array(graph.path(p, "jump"), jump)


def begin_partition(graph: Partitioning, p: int, iteration: int, precision: type) -> PartitionState:
    """Return the state of a partition at a checkpoint."""
    ranks = read_array(graph.checkpoint(p, iteration))
    rows = _rows(graph, p)
    change = np.full(ranks.shape[1], np.inf)
    contributions = rows.contributions(ranks, precision)
    return PartitionState(ranks, contributions, change, rows.dangling_rank(ranks))


def advance(
    graph: Partitioning, surfer: RandomSurfer, p: int, state: PartitionState, exchange: Exchange
) -> PartitionState:
    """Compute one iteration of a partition; the same state if the iteration has ended.

    surfer : without its vectors, which are in the folder
    """
    if exchange.done:
        return state
    ranks, following = state.ranks.copy(), np.empty_like(state.contributions)
    # What Dask brings may be read-only or unaligned, for which numba would compile anew.
    contributions = np.require(exchange.contributions, requirements=["A", "W"])
    change, dangling_rank = pull(
        _rows(graph, p), surfer, exchange.dangling_rank, ranks, contributions, following
    )
    return PartitionState(ranks, following, change, dangling_rank)


def shared(state: PartitionState) -> tuple[NDArray[Any], Array, Array]:
    """Return what others need of a state: all but its ranks."""
    return state.contributions, state.change, state.dangling_rank


def exchange(
    previous: Exchange | None, tol: float | None, parts: list[tuple[NDArray[Any], Array, Array]]
) -> Exchange:
    """Put together what the partitions share after an iteration; decide whether it was the last."""
    if previous is not None and previous.done:
        return previous
    contributions, changes, dangling_ranks = zip(*parts, strict=True)
    dangling_rank = np.sum(dangling_ranks, axis=0)
    if previous is None:
        return Exchange(np.concatenate(contributions), dangling_rank)
    change = float(np.sum(changes, axis=0).max())
    done = tol is not None and change <= tol
    return Exchange(np.concatenate(contributions), dangling_rank, (*previous.changes, change), done)


def save_state(
    graph: Partitioning, p: int, iteration: int, state: PartitionState, exchange: Exchange
) -> None:
    """Write a partition's ranks as a checkpoint."""
    save_array(graph.checkpoint(p, iteration + len(exchange.changes)), state.ranks)


def _rows(graph: Partitioning, p: int) -> PullRows:
    """Map a partition's edges. Copied on write, though nothing is written: what is compiled for
    arrays in memory serves them.
    """
    reciprocal, jump = (read_array(graph.path(p, name), "c") for name in ("reciprocal", "jump"))
    return PullRows.of(graph.rows(p, "c"), reciprocal, jump)


def read_array(path: Path, mmap_mode: Literal["r", "c"] | None = None) -> NDArray[Any]:
    """Return the array in a file, mapped where told; for any number of threads at once."""
    with _PARSING:
        return np.asarray(np.load(path, mmap_mode=mmap_mode))


def save_array(path: Path, values: NDArray[Any]) -> None:
    """Write a file that is there whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        np.save(file, values)
