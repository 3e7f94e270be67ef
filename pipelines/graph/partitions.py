"""A graph in partitions by destination, on disk, and the tasks that write them and iterate.

A partition has the nodes of one range, the edges that point at them, and their ranks. Any worker
that can reach the folder can run any of these tasks: a task maps the edges of its partition from
their files, so that no process holds all edges.
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

from pipelines.graph.edge_files import EdgeFile, FilePart
from pipelines.graph.edges import both_ways
from pipelines.graph.graph import CompressedRows, add_out, are_usual, make_rows
from pipelines.graph.iteration import Array, RandomSurfer, rounding_error
from pipelines.graph.layout import NamesAreText
from pipelines.graph.node_names import to_one_type
from pipelines.graph.pull import PullRows, pull, reciprocal_of
from pipelines.graph.random_graphs import RandomGraph
from pipelines.run_folder.names import replacing

PIECES = "pieces"
# numpy parses the header of a file as Python code. Python 3.11 counts the depth of the syntax trees
# of all threads in one variable, and raises SystemError if two threads parse at once
# (python/cpython#106905).
_PARSING = threading.Lock()


@dataclass(frozen=True)
class Partitioning:
    """A graph in partitions on disk.

    Attributes
    ----------
    folder : str
    bounds : tuple of int
        Partition p has the nodes from bounds[p] to bounds[p + 1] - 1.
    weighted : bool, default False
        Whether edges have weights.
    n_edges : int, default 0
        The number of edges in all partitions.
    """

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
        """The file of an array of partition p."""
        return Path(self.folder) / f"partition-{p:03d}" / f"{name}.npy"

    def rows(self, p: int, mmap_mode: Literal["c"] | None = None) -> CompressedRows:
        """The edges of partition p; with ``mmap_mode`` mapped from their files."""
        first, source = (read_array(self.path(p, name), mmap_mode) for name in ("first", "source"))
        weight = read_array(self.path(p, "weight"), mmap_mode) if self.weighted else None
        return CompressedRows(first, source, weight)

    def checkpoint(self, p: int, iteration: int) -> Path:
        """The file with the ranks of partition p after an iteration."""
        return self.path(p, f"ranks-{iteration:06d}")

    def nbytes(self) -> int:
        """Bytes of the files that an iteration reads."""
        names = ("first", "source", "weight") if self.weighted else ("first", "source")
        return sum(
            self.path(p, name).stat().st_size for p in range(self.n_partitions) for name in names
        )

    def rounding_error(self, precision: type = np.float64) -> float:
        """A bound for the rounding error of an iteration; see ``iteration.rounding_error``."""
        firsts = (read_array(self.path(p, "first")) for p in range(self.n_partitions))
        return max(rounding_error(np.diff(first), precision) for first in firsts)


@dataclass(frozen=True, eq=False)
class PartitionState:
    """A partition of n_p nodes after an iteration.

    Attributes
    ----------
    ranks : float64 array of shape (n_p, k)
    contributions : float32 or float64 array of shape (n_p, k)
        What each node contributes along an edge of weight 1.
    change, dangling_rank : float64 arrays of shape (k,)
        The L1 norm of the change, and the rank of dangling nodes, summed over these nodes.
    """

    ranks: Array
    contributions: NDArray[Any]
    change: Array
    dangling_rank: Array


@dataclass(frozen=True, eq=False)
class Exchange:
    """What all partitions need from each other after an iteration.

    Attributes
    ----------
    contributions : array of shape (n, k)
        The values of all nodes.
    dangling_rank : array of shape (k,)
        The sum over all nodes.
    changes : tuple of float
        The change of every iteration since the last checkpoint, each the largest of the k vectors.
    done : bool, default False
        Whether the iteration has ended by its tolerance.
    """

    contributions: NDArray[Any]
    dangling_rank: Array
    changes: tuple[float, ...] = ()
    done: bool = False


def names_in_part(edges: EdgeFile, part: FilePart) -> tuple[pa.Array, int] | None:
    """The names of nodes in a part, and its number of comments; None if names are not integers."""
    try:
        block = edges.read(part)
        return block.names, block.n_comments
    except NamesAreText:
        return None
    finally:
        pa.default_memory_pool().release_unused()  # arrow would keep hundreds of MB


def union(parts: Iterable[tuple[pa.Array, int] | None]) -> tuple[pa.Array, int] | None:
    """The names in any of several parts, and the sum of their comments; None if a part is None."""
    all_parts = list(parts)
    integer_parts = [part for part in all_parts if part is not None]
    if len(integer_parts) < len(all_parts):
        return None
    arrays, n_comments = zip(*integer_parts, strict=True)
    return pc.unique(pa.chunked_array(to_one_type(list(arrays)))), sum(n_comments)


def read_nodes(path: Path) -> pd.Index:
    """The names of all nodes, from the file that ``distributed`` wrote."""
    return pd.Index(pd.read_parquet(path)["node"])


def balanced_bounds(n_in: NDArray[np.int64], n_nodes: int, n_partitions: int) -> tuple[int, ...]:
    """Divide the nodes into partitions with about the same number of nodes and edges together.

    Parameters
    ----------
    n_in : int64 array
        The number of edges that point into each of equal ranges of nodes; cuts lie between ranges.
    n_nodes, n_partitions : int

    Returns
    -------
    tuple of int
        The n_partitions + 1 bounds, from 0 to n_nodes.
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
    """Write the edges of a part, sorted by target, so that a partition has them side by side.

    Parameters
    ----------
    edges : EdgeFile or RandomGraph
    folder : str
    n_ranges : int
        Equal ranges of nodes in which edges are counted.
    nodes : pandas.Index
        Names of all nodes.
    undirected : bool
        Whether edges count both ways.
    number : int
        The part's number.
    part : FilePart or int

    Returns
    -------
    n_in : int64 array of shape (n_ranges,)
        The number of edges that point into each range.
    is_usual : bool
        Whether no weight is very large or very small; see ``are_usual``.
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
    """Gather the edges of partition p from all pieces, write them as rows, and return their number.

    Parameters
    ----------
    graph : Partitioning
    self_loops, repeated : str
        See ``make_rows``.
    n_pieces : int
    has_usual_weights : bool
        If not, weights are divided by the largest that leaves the same node.
    p : int
        The partition.
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
    """Write 1 / the weight that leaves each node.

    Parameters
    ----------
    graph : Partitioning
    dependencies : object
        The results of ``write_rows``, so that Dask runs this task after them.
    """
    out = np.zeros(graph.n_nodes)
    for p in range(graph.n_partitions):
        out[read_array(graph.path(p, "out-node"))] += read_array(graph.path(p, "out-weight"))
    reciprocal = reciprocal_of(out)
    for p in range(graph.n_partitions):
        save_array(graph.path(p, "reciprocal"), reciprocal[graph.bounds[p] : graph.bounds[p + 1]])


def write_start(graph: Partitioning, surfer: RandomSurfer, ranks: Array) -> None:
    """Write the initial ranks of each partition, and where the surfer jumps in it."""
    for p in range(graph.n_partitions):
        part = slice(graph.bounds[p], graph.bounds[p + 1])
        jump = surfer.jump if surfer.personalisation is None else surfer.jump[part]
        save_array(graph.checkpoint(p, 0), ranks[part])
        save_array(graph.path(p, "jump"), jump)


def begin_partition(graph: Partitioning, p: int, iteration: int, precision: type) -> PartitionState:
    """The state of partition p at the checkpoint of an iteration.

    Parameters
    ----------
    graph : Partitioning
    p : int
        The partition.
    iteration : int
        0 for the ranks to begin with.
    precision : type
        The dtype of the contributions.
    """
    ranks = read_array(graph.checkpoint(p, iteration))
    rows = _rows(graph, p)
    change = np.full(ranks.shape[1], np.inf)
    contributions = rows.contributions(ranks, precision)
    return PartitionState(ranks, contributions, change, rows.dangling_rank(ranks))


def advance(
    graph: Partitioning, surfer: RandomSurfer, p: int, state: PartitionState, exchange: Exchange
) -> PartitionState:
    """Compute one iteration of partition p; if the iteration has ended, the state stays the same.

    Parameters
    ----------
    graph : Partitioning
    surfer : RandomSurfer
        Without its vectors, which are in the folder.
    p : int
        The partition.
    state : PartitionState
        After the iteration before.
    exchange : Exchange
        The exchange of all partitions, after the iteration before.
    """
    if exchange.done:
        return state
    ranks, following = state.ranks.copy(), np.empty_like(state.contributions)
    # Arrays from Dask may be read-only or unaligned, for which numba would compile a second time.
    contributions = np.require(exchange.contributions, requirements=["A", "W"])
    change, dangling_rank = pull(
        _rows(graph, p), surfer, exchange.dangling_rank, ranks, contributions, following
    )
    return PartitionState(ranks, following, change, dangling_rank)


def shared(state: PartitionState) -> tuple[NDArray[Any], Array, Array]:
    """What other partitions need from a state: everything but its ranks."""
    return state.contributions, state.change, state.dangling_rank


def exchange(
    previous: Exchange | None, tol: float | None, parts: list[tuple[NDArray[Any], Array, Array]]
) -> Exchange:
    """Combine what the partitions share after an iteration, and decide whether it was the last.

    Parameters
    ----------
    previous : Exchange or None
        After the iteration before; None at a checkpoint.
    tol : float or None
        See ``StoppingRule``.
    parts : list of tuple
        What ``shared`` gives for each partition, in their order.
    """
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
    """Write the ranks of partition p as a checkpoint.

    Parameters
    ----------
    graph : Partitioning
    p : int
    iteration : int
        The iteration of the checkpoint before.
    state : PartitionState
    exchange : Exchange
        Its changes tell how many iterations have been done since.
    """
    save_array(graph.checkpoint(p, iteration + len(exchange.changes)), state.ranks)


def _rows(graph: Partitioning, p: int) -> PullRows:
    """The rows of partition p, mapped from their files.

    They are mapped as copy-on-write although nothing is written: numba then takes them for
    writable arrays, and does not compile a second time for read-only ones.
    """
    reciprocal, jump = (read_array(graph.path(p, name), "c") for name in ("reciprocal", "jump"))
    return PullRows.of(graph.rows(p, "c"), reciprocal, jump)


def read_array(path: Path, mmap_mode: Literal["r", "c"] | None = None) -> NDArray[Any]:
    """The array in a file, with ``mmap_mode`` mapped; safe in several threads at once."""
    with _PARSING:
        return np.asarray(np.load(path, mmap_mode=mmap_mode))


def save_array(path: Path, values: NDArray[Any]) -> None:
    """Write an array to a file, which appears only when it is complete."""
    path.parent.mkdir(exist_ok=True)
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        np.save(file, values)
