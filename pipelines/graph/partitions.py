"""A graph in partitions by destination, on disk, and the tasks that write them.

A partition has the nodes of one range, the edges that point at them, and their ranks
(``tasks``). All functions are plain.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.graph.edges import Piece, sorted_names
from pipelines.graph.files import EdgeFile, NamesAreText, Part, trim_memory
from pipelines.graph.graph import add_out, make_rows
from pipelines.graph.iteration import rounding_error
from pipelines.graph.random_graphs import RandomGraph
from pipelines.svm.compiled import compiled

NODES = "nodes.parquet"
WHOLE_NUMBERS = "nodes.npy"
PIECES = "pieces"
PIECE = ("source", "target", "weight")
# Edges that become rows together: 4 to 12 bytes each.
EDGES_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Partitioning:
    """A graph in partitions: p has the nodes bounds[p] to bounds[p + 1] - 1.

    first_node : the nodes are the whole numbers from this one on; None: they have names of their
        own, which are in the folder
    """

    folder: str
    bounds: tuple[int, ...]
    weighted: bool = False
    first_node: int | None = None
    n_edges: int = 0

    @property
    def n_partitions(self) -> int:
        return len(self.bounds) - 1

    @property
    def n_nodes(self) -> int:
        return self.bounds[-1]

    def path(self, p: int, name: str) -> Path:
        return Path(self.folder) / f"partition-{p:03d}" / f"{name}.npy"

    def checkpoint(self, p: int, iteration: int) -> Path:
        """Return the file of a partition's ranks after an iteration."""
        return self.path(p, f"ranks-{iteration:06d}")

    def nbytes(self, p: int) -> int:
        """Return the bytes of the files that an iteration reads."""
        files = [self.path(p, name) for name in ("first", "source", "weight")]
        return sum(path.stat().st_size for path in files if path.exists())

    def rounding_error(self, p: int, precision: type = np.float64) -> float:
        """Return the rounding error of a partition's iteration; see ``iteration``."""
        return rounding_error(np.diff(np.load(self.path(p, "first"), mmap_mode="r")), precision)


def names_in_part(edges: EdgeFile, part: Part) -> pa.Array | None:
    """Return the node names in a part; None if they are not integers, as was assumed."""
    try:
        return edges.names(part)
    except NamesAreText:
        return None


def union(names: Iterable[pa.Array | None]) -> pa.Array | None:
    """Return names that occur in any of several arrays, sorted; None if one of them is None."""
    known = list(names)
    found = [some for some in known if some is not None]
    return pa.array(sorted_names(found)) if len(found) == len(known) else None


def write_nodes(folder: str, nodes: pd.Index) -> None:
    """Write the names of all nodes, for all workers."""
    if nodes.dtype == np.int64:
        save_array(Path(folder) / WHOLE_NUMBERS, nodes.to_numpy())
    else:
        with atomic_write(Path(folder) / NODES) as path:
            pd.DataFrame({"node": nodes}).to_parquet(path)


def read_nodes(folder: str, n_nodes: int, first: int | None) -> pd.Index:
    """Return the nodes: integers from ``first`` on, or the names that were written."""
    if first is not None:
        return pd.RangeIndex(first, first + n_nodes)
    numbers = Path(folder) / WHOLE_NUMBERS
    path = numbers if numbers.exists() else Path(folder) / NODES
    return _cached_nodes(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _cached_nodes(path: Path, written: int) -> pd.Index:
    """Return the names of all nodes from a file, read again once it was written anew."""
    if path.name == WHOLE_NUMBERS:
        return pd.Index(np.load(path))
    return pd.Index(pd.read_parquet(path)["node"])


@trim_memory()
def clear_node_cache() -> None:
    """Drop the names and the table that finds them, once edges are numbered."""
    _cached_nodes.cache_clear()


def balanced_bounds(n_in: NDArray[np.int64], n_nodes: int, n_partitions: int) -> tuple[int, ...]:
    """Return ranges of nodes with about as many nodes and edges each, cut between cells.

    Parameters
    ----------
    n_in : edges that point into each of equal ranges of nodes
    """
    ends = cell_ends(len(n_in), n_nodes)[1:]
    work = np.cumsum(n_in) + ends
    wanted = work[-1] * np.arange(1, n_partitions) / n_partitions
    inner = ends[np.minimum(np.searchsorted(work, wanted), len(ends) - 1)]
    return (0, *(int(bound) for bound in inner), n_nodes)


def write_edges_by_cell(
    edges: EdgeFile | RandomGraph,
    folder: str,
    read: Callable[[], pd.Index],
    n_cells: int,
    numbered: tuple[int, Any],
) -> NDArray[np.int64]:
    """Write the edges of a part to the folder, by cell of their target.

    Parameters
    ----------
    read : gives all nodes
    n_cells : equal ranges of nodes
    numbered : the number of a part, and the part

    Returns
    -------
    how many edges point into each cell
    """
    (number, part), nodes = numbered, read()
    piece = edges.piece(part, nodes)
    cell = (piece[1].astype(np.int64) * n_cells // len(nodes)).astype(np.int32)
    counts = np.bincount(cell, minlength=n_cells)
    order = np.argsort(cell, kind="stable")
    for name, values in zip(PIECE, piece, strict=True):
        if values is not None:
            save_array(_piece(folder, number, name), values[order])
    save_array(_piece(folder, number, "ends"), np.concatenate(([0], np.cumsum(counts))))
    return counts


@trim_memory()
def write_rows(
    partitioning: Partitioning,
    self_loops: str,
    repeated: str,
    n_in: NDArray[np.int64],
    n_pieces: int,
    p: int,
) -> int:
    """Turn a partition's edges into rows, with sources in its own numbers, and write them.

    Some cells at a time, so that no process holds all edges of a partition. Its own nodes come
    first, then those of the others that its edges come from, ascending. Of these it writes which
    they are and the weight by which they point here, for their owners.

    Parameters
    ----------
    n_in : edges that point into each cell, as all calls of ``write_edges_by_cell`` gave it

    Returns
    -------
    the number of edges
    """
    begin, end = partitioning.bounds[p], partitioning.bounds[p + 1]
    n_nodes = partitioning.n_nodes
    ends = cell_ends(len(n_in), n_nodes)
    cells = np.searchsorted(ends, [begin, end])
    out, occurs, lengths = np.zeros(n_nodes), np.zeros(n_nodes, np.bool_), [np.zeros(1, np.int64)]
    groups = _groups(n_in[cells[0] : cells[1]])
    for number, (low, high) in enumerate(groups):
        low, high = int(cells[0]) + low, int(cells[0]) + high
        pieces = partial(_pieces, partitioning.folder, n_pieces, low, high)
        some = slice(int(ends[low]), int(ends[high]))
        rows = make_rows(pieces, some.stop - some.start, some.start, self_loops, repeated)
        _mark(rows.source, occurs)
        add_out(rows.source, rows.weight, out)
        lengths.append(np.diff(rows.first))
        save_array(partitioning.path(p, f"group-{number:06d}-source"), rows.source)
        if rows.weight is not None:
            save_array(partitioning.path(p, f"group-{number:06d}-weight"), rows.weight)
    first = np.cumsum(np.concatenate(lengths))
    occurs[begin:end] = False
    others = np.flatnonzero(occurs)
    number_of = np.empty(n_nodes, np.int32)
    number_of[begin:end] = np.arange(end - begin)
    number_of[others] = np.arange(end - begin, end - begin + len(others))
    save_array(partitioning.path(p, "out-own"), out[begin:end])
    cuts = np.searchsorted(others, partitioning.bounds)
    for q in range(partitioning.n_partitions):
        mine = others[cuts[q] : cuts[q + 1]]
        save_array(
            partitioning.path(p, f"needs-{q:03d}"), (mine - partitioning.bounds[q]).astype(np.int32)
        )
        save_array(partitioning.path(p, f"out-{q:03d}"), out[mine])
    save_array(partitioning.path(p, "first"), first)
    _join(partitioning, p, "source", len(groups), int(first[-1]), number_of)
    if partitioning.path(p, "group-000000-weight").exists():
        _join(partitioning, p, "weight", len(groups), int(first[-1]), None)
    for number in range(len(groups)):
        for name in ("source", "weight"):
            partitioning.path(p, f"group-{number:06d}-{name}").unlink(missing_ok=True)
    return int(first[-1])


def cell_ends(n_cells: int, n_nodes: int) -> NDArray[np.int64]:
    """Return the ends of cells: cell c has the nodes ends[c] to ends[c + 1] - 1."""
    return -(-np.arange(n_cells + 1, dtype=np.int64) * n_nodes // n_cells)


def _groups(n_in: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return ranges of cells with at most ``EDGES_AT_ONCE`` edges, or one cell with more."""
    groups, begin, total = list[tuple[int, int]](), 0, 0
    for cell, n_edges in enumerate(n_in):
        if cell > begin and total + n_edges > EDGES_AT_ONCE:
            groups.append((begin, cell))
            begin, total = cell, 0
        total += int(n_edges)
    return [*groups, (begin, len(n_in))]


def _join(
    partitioning: Partitioning, p: int, name: str, n_groups: int, n_edges: int, number: Any
) -> None:
    """Join the groups' columns in one file, with sources by their new numbers."""
    kind = "<i4" if name == "source" else "<f8"
    header = {"descr": kind, "fortran_order": False, "shape": (n_edges,)}
    with atomic_write(partitioning.path(p, name)) as path, path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for group in range(n_groups):
            values = np.load(partitioning.path(p, f"group-{group:06d}-{name}"))
            file.write((values if number is None else number[values]).data)


def _piece(folder: str, number: int, name: str) -> Path:
    return Path(folder) / PIECES / f"{number:06d}-{name}.npy"


def _pieces(folder: str, n_pieces: int, low: int, high: int) -> Iterator[Piece]:
    """Return from each part the edges that point into some cells."""
    for number in range(n_pieces):
        ends = np.load(_piece(folder, number, "ends"), mmap_mode="r")
        some = slice(int(ends[low]), int(ends[high]))
        if some.start == some.stop and number:  # the first of them says whether there are weights
            continue
        paths = [_piece(folder, number, name) for name in PIECE]
        yield tuple(
            np.array(np.load(path, mmap_mode="r")[some]) if path.exists() else None
            for path in paths
        )  # type: ignore[misc]


@compiled()
def _mark(source: np.ndarray, occurs: np.ndarray) -> None:
    """Set ``occurs[source] = True``, for which numpy would copy the sources as 64-bit numbers."""
    for k in range(len(source)):
        occurs[source[k]] = True


def save_array(path: Path, values: NDArray[Any]) -> None:
    """Write a file that is there whole or not at all."""
    with atomic_write(path) as unfinished, unfinished.open("wb") as file:
        np.save(file, values)


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` at the end: all of the file or none.

    Whichever of two workers wrote it last.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    yield unfinished
    os.replace(unfinished, path)
