"""Edges between named nodes, as they are read, and between numbered nodes, as they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.data.tables.words import counted, reason_of
from pipelines.errors import InputError, opt
from pipelines.graph.names import positions_of, sorted_nodes, to_one_type, trimmed

# m edges between numbered nodes: sources and targets, int32 of shape (m,), and float64 weights of
# shape (m,), or None where every edge counts 1.
Piece = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64] | None]

# Nodes are numbered in int32: an iteration reads half as many bytes as with int64.
MOST_NODES = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Block:
    """A block of m edges between named nodes.

    Attributes
    ----------
    names : arrow array
        The nodes that occur, each once.
    ends : int32 array of shape (2, m)
        Positions of sources and targets among the names.
    weight : float64 array of shape (m,) or None
        Finite and at least 0; None if every edge counts 1.
    n_comments : int
        Comment lines among the edges, which were left out.
    """

    names: pa.Array
    ends: NDArray[np.int32]
    weight: NDArray[np.float64] | None = None
    n_comments: int = 0


def make_block(
    source: Any,
    target: Any,
    weight: Any = None,
    where: str = "",
    locate: Callable[[int], str] = "row {}".format,
    empty: bool = True,
) -> Block:
    """Make a block of edges from columns, and check them.

    Parameters
    ----------
    source, target : array-like of length m
        Names of nodes: an arrow array or anything that pyarrow can convert.
    weight : array-like of length m, optional
        Numbers; None if every edge counts 1.
    where : str, default ""
        Where the columns come from, as it continues the sentence of an error.
    locate : function, optional
        From the number of a row, counted from 1, to its name in errors, such as "line 3".
    empty : bool, default True
        Whether a name may be empty.

    Returns
    -------
    Block

    Raises
    ------
    InputError
        A name is missing, or a weight is missing, negative, infinite or not a number.
    """
    source, target = to_one_type([_arrow(source, where), _arrow(target, where)])
    if len(source) != len(target):
        raise InputError(
            f"{opt('edges')} must have as many sources as targets, got {len(source)} and "
            f"{len(target)}; pass columns of one length"
        )
    encoded = pa.concat_arrays([source, target]).dictionary_encode(null_encoding="encode")
    positions = encoded.indices.to_numpy(zero_copy_only=False).reshape(2, -1)
    names, ends = trimmed(encoded.dictionary, positions)
    missing = pc.is_null(names, nan_is_null=True)
    if not empty and pa.types.is_large_string(names.type):
        missing = pc.or_(missing, pc.equal(names, "").fill_null(True))
    if pc.any(missing).as_py():
        is_missing = missing.to_numpy(zero_copy_only=False)[ends]
        role = 0 if is_missing[0].any() else 1
        n_missing, first = int(is_missing[role].sum()), int(is_missing[role].argmax())
        raise InputError(
            f"{opt('edges')} must name two nodes in every row, {n_missing} of {len(source)} "
            f"rows{where} have no {('source', 'target')[role]}, the first is {locate(first + 1)}; "
            f"fill them in or drop them"
        )
    weights = None if weight is None else _weights(weight, len(source), where, locate)
    return Block(names, ends, weights)


def chosen_columns(
    columns: Sequence[str],
    source: str | None,
    target: str | None,
    weight: str | None,
    where: str = "",
) -> tuple[str, str, str | None]:
    """The columns of a table for sources, targets and weights, checked.

    Parameters
    ----------
    columns : sequence of str
        Names of all columns.
    source, target : str or None
        By default the first and the second column.
    weight : str or None
        By default there are no weights.
    where : str, default ""
        Where the table comes from, as it continues the sentence of an error.

    Raises
    ------
    InputError
        There are fewer than two columns, a name is not among them, or source and target are one.
    """
    if len(columns) < 2:
        raise InputError(
            f"{opt('edges')} must have a column of sources and one of targets, got only "
            f"{list(columns)}{where}; check what stands between columns"
        )
    for role, name in (("source", source), ("target", target), ("weight", weight)):
        if name is not None and name not in columns:
            matches = get_close_matches(name, map(str, columns), n=1)
            hint = f"did you mean {matches[0]!r}? " if matches else ""
            raise InputError(
                f"{opt(role)} must be the name of a column{where}, got {name!r}; {hint}there are "
                f"{', '.join(map(repr, columns[:10]))}"
            )
    chosen = (source or columns[0], target or columns[1])
    if chosen[0] == chosen[1]:
        raise InputError(
            f"{opt('source')} and {opt('target')} must be two columns{where}, got {chosen[0]!r} "
            f"for both; name the other one"
        )
    return *chosen, weight


def number_nodes(
    blocks: Iterable[Block], nodes: pd.Index | None = None, numbers: bool = False
) -> tuple[Piece, pd.Index, list[str]]:
    """Number the nodes of edges: in the order of their names, or as in ``nodes``.

    The numbers depend neither on the order of the edges nor on the size of the blocks.

    Parameters
    ----------
    blocks : iterable of Block
        Iterated once.
    nodes : pandas.Index, optional
        Names of all nodes, each once; by default those that occur.
    numbers : bool, default False
        Whether names that are text become numbers if all of them spell numbers.

    Returns
    -------
    edges : Piece
    nodes : pandas.Index
        Node i has the name at position i.
    notes : list of str
        What was noticed.

    Raises
    ------
    InputError
        There are no edges, more than 2^31 - 1 nodes, or a node that ``nodes`` lacks.
    """
    all_blocks = list(blocks)
    if not all_blocks:
        raise no_edges_error()
    notes = comment_notes(sum(block.n_comments for block in all_blocks))
    if nodes is None:
        nodes, name_notes = sorted_nodes([block.names for block in all_blocks], numbers)
        notes += name_notes
    check_node_count(len(nodes))
    ends = [positions_of(block.names, nodes)[block.ends] for block in all_blocks]
    source, target = np.concatenate(ends, axis=1)
    weights = [block.weight for block in all_blocks if block.weight is not None]
    return (source, target, np.concatenate(weights) if weights else None), nodes, notes


def both_ways(edges: Piece) -> Piece:
    """Add the reverse of every edge but self-loops, which would count twice."""
    source, target, weight = edges
    is_no_loop = source != target
    return (
        np.concatenate([source, target[is_no_loop]]),
        np.concatenate([target, source[is_no_loop]]),
        None if weight is None else np.concatenate([weight, weight[is_no_loop]]),
    )


def comment_notes(n_comments: int) -> list[str]:
    """The note on comments among the edges, in a list; empty if there are none."""
    return [f"{counted(n_comments, 'comment line')} left out"] if n_comments else []


def no_edges_error() -> InputError:
    """The error for a graph without edges."""
    return InputError(
        f"{opt('edges')} must hold at least one edge, got none; check where they come from"
    )


def check_node_count(n_nodes: int) -> None:
    """Raise InputError if there are more nodes than int32 can number."""
    if n_nodes > MOST_NODES:
        raise InputError(
            f"{opt('nodes')} must be at most {MOST_NODES} (2^31 - 1), got {n_nodes}; take a part "
            f"of the graph"
        )


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise InputError if the value of an option is not one of the choices."""
    if value not in choices:
        raise InputError(
            f"{opt(name)} must be one of {', '.join(choices)}, got {value!r}; choose one"
        )


def check_number(name: str, value: Any, whole: bool = False) -> None:
    """Raise InputError if the value of an option is not a number, or not a ``whole`` one."""
    if not isinstance(value, Integral if whole else Real):
        description = "a whole number" if whole else "a number"
        raise InputError(
            f"{opt(name)} must be {description}, got {value!r} ({type(value).__name__}); convert it"
        )


def _arrow(column: Any, where: str) -> pa.Array:
    if isinstance(column, pd.Series) and isinstance(column.dtype, np.dtype):
        column = column.to_numpy()
    if isinstance(column, np.ndarray) and not column.dtype.isnative:  # arrow has native order alone
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
    if isinstance(array, pa.ChunkedArray):  # combine_chunks may leave several
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def _weights(
    column: Any, n_edges: int, where: str, locate: Callable[[int], str]
) -> NDArray[np.float64]:
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
            f"{opt('weight')} must be finite and at least 0, got {weights[bad[0]]} in "
            f"{locate(int(bad[0]) + 1)}{where}; mend it or drop the edge"
        )
    return np.asarray(weights)
