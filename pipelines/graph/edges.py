"""Edges: as they are read, between named nodes, and as they are used, between numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.data.tables.words import reason_of, short
from pipelines.errors import InputError, opt

# Sources and targets, int32 of shape (m,), and weights, float64 or None: numbered edges.
Piece = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64] | None]

# Nodes are numbered in int32, which halves what an iteration reads.
MOST_NODES = 2**31 - 1

# Weights but 0: one rank over the sum of so many is a float32 number, as an iteration holds it.
LEAST_WEIGHT, MOST_WEIGHT = 1e-30, 1e24


@dataclass(frozen=True, eq=False)
class Block:
    """Some edges, between named nodes.

    names : arrow array of the nodes that occur, each once
    ends : int32 of shape (2, m), positions of sources and targets among the names
    weight : float64 of shape (m,), finite and at least 0; None where every edge counts 1
    """

    names: pa.Array
    ends: NDArray[np.int32]
    weight: NDArray[np.float64] | None = None


def make_block(source: Any, target: Any, weight: Any = None, where: str = "") -> Block:
    """Return a block from three columns, held against the rules of edges.

    Parameters
    ----------
    source, target : arrow array, or anything arrow makes one of, of length m
    weight : the same, of numbers; None where every edge counts 1
    where : what the columns come from, as the words of an error

    Raises
    ------
    InputError
        A name is missing, or a weight is missing, negative, infinite or not a number.
    """
    source, target = _to_one_type([_arrow(source, where), _arrow(target, where)])
    for names, role in ((source, "source"), (target, "target")):
        missing = pc.is_null(names, nan_is_null=True)
        n_missing = pc.sum(missing).as_py() or 0
        if n_missing:
            raise InputError(
                f"{opt('edges')} must name two nodes in every row, {n_missing} of {len(names)} "
                f"rows{where} have no {role}, the first is row {missing.index(True).as_py() + 1}; "
                f"fill them in or drop them"
            )
    if len(source) != len(target):
        raise InputError(
            f"{opt('edges')} must have as many sources as targets, got {len(source)} and "
            f"{len(target)}; pass columns of one length"
        )
    encoded = pa.concat_arrays([source, target]).dictionary_encode()
    ends = encoded.indices.to_numpy(zero_copy_only=False).reshape(2, -1)
    weights = None if weight is None else _weights(weight, len(source), where)
    return Block(encoded.dictionary, ends, weights)


def chosen_columns(
    columns: Sequence[str],
    source: str | None,
    target: str | None,
    weight: str | None,
    where: str = "",
) -> tuple[str, str, str | None]:
    """Return the columns of a table to read: by default the first two, and none of weights."""
    if len(columns) < 2:
        raise InputError(
            f"{opt('edges')} must have a column of sources and one of targets, got only "
            f"{list(columns)}{where}; check what stands between columns"
        )
    for role, name in (("source", source), ("target", target), ("weight", weight)):
        if name is not None and name not in columns:
            near = get_close_matches(name, map(str, columns), n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InputError(
                f"{opt(role)} must be the name of a column{where}, got {name!r}; {hint}there are "
                f"{', '.join(map(repr, columns[:10]))}"
            )
    return source or columns[0], target or columns[1], weight


def number_nodes(blocks: Iterable[Block], nodes: pd.Index | None = None) -> tuple[Piece, pd.Index]:
    """Return edges and nodes, which are numbered in the order of their names, or as in ``nodes``.

    The numbers do not depend on the order of edges or on the size of blocks.

    Parameters
    ----------
    blocks : read once
    nodes : names of all nodes, each once; None for those that occur

    Raises
    ------
    InputError
        There are no edges, more than 2^31 - 1 nodes, or a node that ``nodes`` does not have.
    """
    known = list(blocks)
    if not known:
        raise no_edges_error()
    if nodes is None:
        nodes = sorted_names([block.names for block in known])
    check_node_count(len(nodes))
    ends = [positions_of(block.names, nodes)[block.ends] for block in known]
    source, target = np.concatenate(ends, axis=1)
    weights = [block.weight for block in known if block.weight is not None]
    return (source, target, np.concatenate(weights) if weights else None), nodes


def sorted_names(names: Iterable[pa.Array]) -> pd.Index:
    """Return all names of several arrays, sorted: int64, or in the order of arrow."""
    pieces = _to_one_type(list(names))
    union = pc.unique(pa.chunked_array(pieces))
    if pa.types.is_integer(union.type):
        return pd.Index(np.sort(union.to_numpy(zero_copy_only=False)))
    return pd.Index(union.take(pc.array_sort_indices(union)).to_pandas())


def positions_of(names: pa.Array, nodes: pd.Index) -> NDArray[np.int32]:
    """Return positions of names among the nodes.

    Raises
    ------
    InputError
        A name is none of a node.
    """
    wanted = pd.Index(names.to_pandas())
    if wanted.dtype.kind != nodes.dtype.kind and not isinstance(nodes, pd.RangeIndex):
        wanted = wanted.astype(nodes.dtype)
    if isinstance(nodes, pd.RangeIndex):
        positions = nodes.get_indexer(wanted)
    elif wanted.dtype.kind == "i" and nodes.dtype == wanted.dtype and nodes.is_monotonic_increasing:
        # Halving takes no memory, a table of all nodes many times theirs.
        known_nodes, values = nodes.to_numpy(), wanted.to_numpy()
        positions = np.minimum(np.searchsorted(known_nodes, values), len(nodes) - 1)
        positions[known_nodes[positions] != values] = -1
    else:
        positions = nodes.get_indexer(wanted)
    unknown = np.flatnonzero(positions < 0)
    if len(unknown):
        raise InputError(
            f"{opt('edges')} must run between the {len(nodes)} known nodes, got "
            f"{short(wanted[unknown[0]])}; leave it out, or name it among the nodes"
        )
    return positions.astype(np.int32)


def no_edges_error() -> InputError:
    """Return the error of a graph without edges."""
    return InputError(
        f"{opt('edges')} must hold at least one edge, got none; check where they come from"
    )


def check_node_count(n_nodes: int) -> None:
    """Raise InputError where nodes cannot be numbered in int32."""
    if n_nodes > MOST_NODES:
        raise InputError(
            f"{opt('nodes')} must be at most {MOST_NODES} (2^31 - 1), got {n_nodes}; take a part "
            f"of the graph"
        )


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise InputError where a value is none of the choices."""
    if value not in choices:
        raise InputError(
            f"{opt(name)} must be one of {', '.join(choices)}, got {value!r}; choose one"
        )


def check_number(name: str, value: Any, whole: bool = False) -> None:
    """Raise InputError where a value is no number, or no whole one."""
    if not isinstance(value, Integral if whole else Real):
        kind = "a whole number" if whole else "a number"
        raise InputError(
            f"{opt(name)} must be {kind}, got {value!r} ({type(value).__name__}); convert it"
        )


def _arrow(column: Any, where: str) -> pa.Array:
    if isinstance(column, pd.Series) and isinstance(column.dtype, np.dtype):
        column = column.to_numpy()
    if isinstance(column, np.ndarray) and not column.dtype.isnative:  # as arrow has them
        column = column.astype(column.dtype.newbyteorder("="))
    try:
        array = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"{opt('edges')} must have names of one kind in a column{where} ({reason_of(error)}); "
            f"make them all numbers or all text"
        ) from None
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # of several chunks that cannot be one
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def _to_one_type(arrays: list[pa.Array]) -> list[pa.Array]:
    """Return whole numbers as int64 or uint64; what differs in type, or is text, as text."""
    if all(pa.types.is_integer(array.type) for array in arrays):
        for whole in (pa.int64(), pa.uint64()):
            with suppress(pa.ArrowInvalid):  # beyond it
                return [array.cast(whole) for array in arrays]
    kind = arrays[0].type
    text = pa.types.is_string(kind) or pa.types.is_string_view(kind) or pa.types.is_integer(kind)
    if not text and not pa.types.is_nested(kind) and all(one.type == kind for one in arrays):
        return arrays
    try:
        return [array.cast(pa.large_string()) for array in arrays]
    except pa.ArrowException as error:
        raise InputError(
            f"{opt('edges')} must have names that are numbers or text ({reason_of(error)}); write "
            "them so"
        ) from None


def _weights(column: Any, n_edges: int, where: str) -> NDArray[np.float64]:
    array = _arrow(column, where)
    try:
        weights = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"{opt('weight')} must be a column of numbers{where} ({reason_of(error)}); encode it"
        ) from None
    if len(weights) != n_edges:
        raise InputError(
            f"{opt('weight')} must have a number for every edge, got {len(weights)} for {n_edges} "
            f"edges; pass columns of one length"
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise InputError(
            f"{opt('weight')} must be finite and at least 0, got {weights[bad[0]]} in row "
            f"{bad[0] + 1}{where}; mend it or drop the edge"
        )
    bad = np.flatnonzero((weights > MOST_WEIGHT) | ((weights > 0) & (weights < LEAST_WEIGHT)))
    if len(bad):
        raise InputError(
            f"{opt('weight')} must be 0 or from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}, got "
            f"{weights[bad[0]]} in row {bad[0] + 1}{where}; multiply all weights by one number"
        )
    return np.asarray(weights)
