"""Names of nodes: without blanks around them, and a number is one name however it is spelled.

Whether names are numbers is decided for a whole graph. If all are, ``12`` and ``12.0`` are one
node. If some are text or begin with a zero, they are two nodes, and a note says so.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.data.tables.words import counted, reason_of, short
from pipelines.errors import InputError, opt

_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_ZERO_FIRST = r"^[+-]?0[0-9]"
_WHOLE = r"^(?:\+|(-))?0*([0-9]+)(?:\.0*)?$"
_PLAIN = r"^-?[0-9]+$"
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?)?$"
_EXACT = decimal.Context(prec=10_000)
_LONGEST = 40  # numbers with exponents beyond it are spelled with the exponent


def is_text(names: pa.Array) -> bool:
    """Whether an array of names has arrow's text type."""
    return bool(pa.types.is_large_string(names.type))


def are_numbers(names: pa.Array) -> pa.Array:
    """For each name, whether it spells a number or a date with or without time."""
    return pc.match_substring_regex(names, f"{_NUMBER}|{_MOMENT}")


def trimmed(names: pa.Array, ends: NDArray[np.int32]) -> tuple[pa.Array, NDArray[np.int32]]:
    """Names without blanks around them, each once, and the positions of ends among these.

    Parameters
    ----------
    names : arrow array
    ends : int32 array
        Positions among ``names``.
    """
    if not is_text(names):
        return names, ends
    bare_names = pc.utf8_trim_whitespace(names)
    if bare_names.equals(names):
        return names, ends
    encoded = bare_names.dictionary_encode()
    return encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False)[ends]


def by_value(names: pa.Array) -> pa.Array:
    """Spell each number, and each date, in one way; other names stay as they are.

    ``1`` for ``+1``, ``1.0`` and ``1e0``; ``2026-01-01 00:00:00`` for ``2026-01-01T00:00:00.0``.
    """
    is_number = pc.match_substring_regex(names, _NUMBER)
    numbers = pc.replace_substring_regex(names.filter(is_number), _WHOLE, r"\1\2")
    is_not_plain = pc.invert(pc.match_substring_regex(numbers, _PLAIN))
    spellings = [_spelled(word) for word in numbers.filter(is_not_plain).to_pylist()]
    numbers = pc.replace_with_mask(numbers, is_not_plain, pa.array(spellings, names.type))
    numbers = pc.replace_substring_regex(numbers, "^-0$", "0")
    is_moment = _are_moments(names)
    moments = names.filter(is_moment).to_pandas()
    times = pd.to_datetime(moments, format="ISO8601", errors="coerce")
    moments = pa.array(times.astype(str).where(times.notna(), moments), names.type)
    names = pc.replace_with_mask(names, is_moment, moments)
    return pc.replace_with_mask(names, is_number, numbers)


def sorted_nodes(arrays: Iterable[pa.Array], numbers: bool = False) -> tuple[pd.Index, list[str]]:
    """The nodes that occur in any of several arrays, sorted, and notes on their names.

    Parameters
    ----------
    arrays : iterable of arrow arrays
    numbers : bool, default False
        Whether names that are text become numbers if all of them spell numbers.

    Returns
    -------
    nodes : pandas.Index
        int64 sorted by value, or another type in arrow's order.
    notes : list of str
        On several spellings of one number, and on names with line breaks, which may be due to a
        quote that is not closed.
    """
    union = pc.unique(pa.chunked_array(to_one_type(list(arrays))))
    notes = []
    if is_text(union):
        long_names = union.filter(pc.match_substring(union, "\n"))
        if len(long_names):
            first = short(pc.min(long_names).as_py())
            words = counted(len(long_names), "name goes", "names go")
            notes.append(f"{words} over several lines, such as {first}")
        spellings = union.filter(are_numbers(union))
        values = by_value(spellings)
        numbers &= len(values) == len(union)
        numbers &= not pc.any(pc.match_substring_regex(spellings, _ZERO_FIRST)).as_py()
        if has_several := len(pc.unique(values)) < len(values):
            notes.append(_spelling_note(spellings.to_pandas(), values.to_pandas(), numbers))
        if numbers and (has_several or not pc.any(_are_moments(union)).as_py()):
            union = pc.unique(values)
            with suppress(pa.ArrowInvalid):  # not integers, or beyond int64
                union = union.cast(pa.int64())
    if pa.types.is_integer(union.type):
        return pd.Index(np.sort(union.to_numpy(zero_copy_only=False))), notes
    return pd.Index(union.take(pc.array_sort_indices(union)).to_pandas()), notes


def positions_of(names: pa.Array, nodes: pd.Index) -> NDArray[np.int32]:
    """The positions of names among the nodes.

    Raises
    ------
    InputError
        A name is not a node.
    """
    positions = lookup_positions(names, nodes)
    unknown = np.flatnonzero(positions < 0)
    if len(unknown):
        raise InputError(
            f"{opt('edges')} must run between the {len(nodes)} known nodes, got "
            f"{short(names[unknown[0]].as_py())}; leave it out, or name it among the nodes"
        )
    return positions.astype(np.int32)


def lookup_positions(names: pa.Array, nodes: pd.Index) -> NDArray[np.int64]:
    """The positions of names among the nodes; -1 for a name that is not a node.

    Text is looked up as it is, and then by the number that it spells.
    """
    positions = _looked_up(names, nodes)
    missing = np.flatnonzero(positions < 0)
    if len(missing) and is_text(names):
        positions[missing] = _looked_up(by_value(names.take(missing)), nodes)
    return positions


def _looked_up(names: pa.Array, nodes: pd.Index) -> NDArray[np.int64]:
    name_index = pd.Index(names.to_pandas())
    dtype_kind = nodes.dtype.kind
    if is_text(names) and dtype_kind in "iuf":
        is_number = pc.match_substring_regex(names, _PLAIN if dtype_kind in "iu" else _NUMBER)
        positions = np.full(len(names), -1, np.int64)
        with suppress(pa.ArrowInvalid):  # beyond 64 bits: none of them is a node
            numbers = names.filter(is_number).cast(
                pa.float64() if dtype_kind == "f" else pa.int64()
            )
            if len(numbers):
                where = is_number.to_numpy(zero_copy_only=False)
                positions[where] = _looked_up(numbers, nodes)
        return positions
    if is_text(names) and dtype_kind == "M":
        name_index = pd.to_datetime(name_index, errors="coerce").astype(nodes.dtype)
    elif name_index.dtype.kind != dtype_kind and not isinstance(nodes, pd.RangeIndex):
        name_index = name_index.astype(nodes.dtype)
    is_sorted = not isinstance(nodes, pd.RangeIndex) and nodes.is_monotonic_increasing
    if name_index.dtype.kind == "i" and nodes.dtype == name_index.dtype and is_sorted:
        # Binary search needs no memory; pandas' hash table would take many times that of the nodes.
        known_nodes, values = nodes.to_numpy(), name_index.to_numpy()
        positions = np.minimum(np.searchsorted(known_nodes, values), len(nodes) - 1)
        positions[known_nodes[positions] != values] = -1
        return positions
    return np.array(nodes.get_indexer(name_index))


def to_one_type(arrays: list[pa.Array]) -> list[pa.Array]:
    """Cast arrays of names to one type.

    Integers become int64 or uint64; other numbers and dates a type that holds all of them. If there
    is none, or some are text, all become text.

    Raises
    ------
    InputError
        Some cannot be text, such as lists.
    """
    if all(pa.types.is_integer(array.type) for array in arrays):
        for integer_type in (pa.int64(), pa.uint64()):
            with suppress(pa.ArrowInvalid):  # beyond its range
                return [array.cast(integer_type) for array in arrays]
    types = [array.type for array in arrays]
    common_type = types[0]
    if any(next_type != common_type for next_type in types) and all(map(_is_numeric, types)):
        with suppress(pa.ArrowInvalid):  # not integers, or beyond int64
            return [array.cast(pa.int64()) for array in arrays]
    with suppress(pa.ArrowException):
        for next_type in types:
            schemas = [pa.schema([("name", arrow_type)]) for arrow_type in (common_type, next_type)]
            common_type = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        text = (pa.types.is_string, pa.types.is_string_view, pa.types.is_binary)
        is_text = any(is_type(common_type) for is_type in (*text, pa.types.is_large_binary))
        if (
            not is_text
            and not pa.types.is_integer(common_type)
            and not pa.types.is_nested(common_type)
        ):
            return [array.cast(common_type) for array in arrays]
    try:
        return [array.cast(pa.large_string()) for array in arrays]
    except pa.ArrowException as error:
        raise InputError(
            f"{opt('edges')} must have names that are numbers or text ({reason_of(error)}); write "
            "them so"
        ) from None


def _are_moments(names: pa.Array) -> pa.Array:
    return pc.match_substring_regex(names, _MOMENT)


def _is_numeric(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(arrow_type)
        or pa.types.is_floating(arrow_type)
        or pa.types.is_decimal(arrow_type)
    )


def _spelled(word: str) -> str:
    """The one spelling of a number, exact to 10,000 digits."""
    try:
        number = _EXACT.normalize(_EXACT.create_decimal(word))
    except decimal.DecimalException:
        return word
    return f"{number:f}" if abs(number.adjusted()) < _LONGEST else str(number)


def _spelling_note(spellings: pd.Series, values: pd.Series, numbers: bool) -> str:
    """The note on names that spell one number in several ways.

    Parameters
    ----------
    spellings, values : Series
        Names as they are, and by value.
    numbers : bool
        Whether they became numbers.
    """
    first = values[values.duplicated()].min()
    examples = " and ".join(map(repr, sorted(spellings[values == first])[:2]))
    if numbers:
        return f"names are spelled in several ways, and taken by value: {examples} are one node"
    return f"names stay text, as some are no numbers or begin with 0: {examples} are two nodes"
