"""The kinds of a table's columns: numeric, categorical, or unusable."""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from pipelines.data.tables.table_files import TableSource
from pipelines.data.tables.words import SIGNS, counted, list_names, short
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import pandas as pd

MOST_LEVELS = 50  # more are asked about, as each level becomes a column
# In fewer rows, values may count up, or all differ, by chance.
FEWEST_ROWS_OF_ID = 20
LARGEST = float(np.finfo(np.float32).max)  # matrices are in single precision
_MONTH = r"(0?[1-9]|1[0-2]|[A-Za-z]{3,9}\.?)"
_CLOCK = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[APap]\.?[Mm]\.?)?"
DATE = re.compile(
    rf"\d{{4}}(?P<a>[-/.]){_MONTH}(?P=a)\d{{1,2}}([T ].*)?|(1[5-9]|20)\d\d[-/](0[1-9]|1[0-2])"
    rf"|\d{{1,2}}(?P<b>[-/. ])(\d{{1,2}}|[A-Za-z]{{3,9}}\.?)(?P=b)(\d{{4}}|\d{{2}})( .*)?|{_CLOCK}"
)
_NAMED_ID = re.compile(
    r"id|index|row[ _.]?(names?|id|number)?|unnamed: \d+|.+[ _.-]id|(.*[ _.-])?(name|code|key)",
    re.I,
)
_CODE = re.compile(r"[\w.:/#@+-]*\d[\w.:/#@+-]*|[0-9a-fA-F-]{8,}")


@dataclass(frozen=True)
class Kinds:
    """Columns by kind, each in the order of the table.

    Attributes
    ----------
    numbers : tuple of str
        Numeric columns.
    categories : tuple of str
        Categorical columns.
    left_out : tuple of (name, reason)
        Columns that are not used.
    """

    numbers: tuple[str, ...]
    categories: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Rebuild the column kinds from what ``asdict`` returned and JSON kept."""
        left_out = tuple((str(name), str(why)) for name, why in record.get("left_out", ()))
        numbers, categories = (tuple(map(str, record[key])) for key in ("numbers", "categories"))
        return cls(numbers, categories, left_out)


def find_kinds(
    frame: pd.DataFrame,
    path: Path,
    source: TableSource,
    *,
    number: Iterable[str] = (),
    category: Iterable[str] = (),
    leave_out: Iterable[str] = (),
) -> Kinds:
    """Detect the kinds of the feature columns of a table.

    Besides the columns named in ``leave_out``, columns are left out if they have no value, hold
    dates, hold text that differs in every row, or hold ids: numbers that count the rows, or that
    are called an id and differ in every row or have more than ``MOST_LEVELS`` levels.

    Parameters
    ----------
    frame : DataFrame
        At least one row, without the target.
    path, source : Path, TableSource
        The file, and how its columns of text were read.
    number, category, leave_out : iterable of str
        Columns whose kind is given.

    Returns
    -------
    Kinds

    Raises
    ------
    InputError
        A named column is not there, a column of numbers has a cell that is not a number, or a
        column of text whose kind is not given has more than ``MOST_LEVELS`` levels.
    """
    asked_kinds: dict[str, str] = {}
    for option, columns in (("number", number), ("category", category), ("leave_out", leave_out)):
        for name in columns:
            if name not in frame.columns or name in asked_kinds:
                raise InputError(
                    f"{opt(option)} must name feature columns of '{path}', each once, got "
                    f"{name!r}; there are {list_names(frame.columns)}"
                )
            asked_kinds[name] = option
    kinds: dict[str, list[Any]] = {"number": [], "category": [], "left_out": []}
    many_levels: list[tuple[str, int]] = []
    for position, name in enumerate(frame.columns):
        kind, why = asked_kinds.get(name, ""), "as asked"
        if not kind:
            if name in source.columns.slips:
                raise slip_error(name, source, path)
            kind, why, n_levels = _kind(frame[name], position, path)
            if n_levels > MOST_LEVELS:
                many_levels.append((name, n_levels))
        if kind in ("number", "category"):
            kinds[kind].append(name)
        else:
            kinds["left_out"].append((name, why))
    if many_levels:
        names = ", ".join(f"{short(name)} ({n_levels})" for name, n_levels in many_levels[:10])
        tail = f" and {len(many_levels) - 10} more" if len(many_levels) > 10 else ""
        quoted_names = [
            shlex.quote(name) for name, _ in many_levels if name.isprintable() and len(name) <= 40
        ]
        columns = " ".join(quoted_names[:10]) or "COLUMN"
        them = "it" if len(many_levels) == 1 else "them"
        raise InputError(
            f"{opt('dataset')} must have at most {MOST_LEVELS} levels in a column of text, "
            f"'{path}' has more in {names}{tail} of {counted(len(frame), 'row')}; leave {them} out "
            f"with {opt('leave_out', columns)}, or take {them} with {opt('category', columns)}"
        )
    return Kinds(*(tuple(column_names) for column_names in kinds.values()))


def _kind(column: pd.Series, position: int, path: Path) -> tuple[str, str, int]:
    """The kind of a column, why it is left out, and the number of levels of a category."""
    import pandas as pd

    types = pd.api.types
    present = column.dropna()
    if not len(present):
        return "left out", "no value", 0
    if types.is_datetime64_any_dtype(column.dtype) or types.is_timedelta64_dtype(column.dtype):
        return "left out", "date", 0
    if isinstance(column.dtype, pd.CategoricalDtype):
        present = present.astype(object)
    if types.is_complex_dtype(present.dtype):
        raise _type_error(column, path)
    # The first rows decide soon that a column is text.
    parts = (present[:FEWEST_ROWS_OF_ID], present)
    if all(not np.isnan(to_numbers(part)).any() for part in parts):
        values, is_named = to_numbers(column), _NAMED_ID.fullmatch(str(column.name)) is not None
        may_be_id = len(column) >= FEWEST_ROWS_OF_ID and (is_named or position == 0)
        is_id = may_be_id and are_whole(values)
        if is_id and is_named:  # rows of one person may share an id
            n_levels = column.nunique()
            is_id = n_levels == len(column) or n_levels > MOST_LEVELS
        elif is_id:
            is_id = values[0] in (0, 1) and bool(np.all(np.diff(values) == 1))
        return ("left out" if is_id else "number"), "id", 0
    levels = column_levels(present, path)
    if all(isinstance(level, datetime.date | datetime.time) for level in levels):
        return "left out", "date", 0
    words = {str(level) for level in levels}
    dates = {word for word in words if word.lower() not in SIGNS}
    if dates and all(map(DATE.fullmatch, dates)):
        return "left out", "date", 0
    n_levels = len(words)
    if n_levels == len(column) >= FEWEST_ROWS_OF_ID:
        is_id = position == 0 or _NAMED_ID.fullmatch(str(column.name)) is not None
        is_id = is_id or all(map(_CODE.fullmatch, words))
        return "left out", "id" if is_id else "text, different in every row", 0
    return "category", "", n_levels


def column_levels(column: pd.Series, path: Path) -> list[Any]:
    """The different values of a column.

    Raises
    ------
    InputError
        They are not numbers, text, truth values or times, but lists, bytes and the like.
    """
    try:
        levels = list(column.dropna().unique())
    except TypeError:
        raise _type_error(column, path) from None
    plain = str | bool | int | float | np.generic | datetime.date | datetime.time
    if not all(isinstance(level, plain) and not isinstance(level, complex) for level in levels):
        raise _type_error(column, path)
    return levels


def slip_error(name: str, source: TableSource, path: Path) -> InputError:
    """The error for a column of numbers with cells that are not numbers."""
    slip = source.columns.slips[name]
    is_text = source.table is not None
    as_missing = f"take it as missing with {opt('missing_values', shlex.quote(slip.cell))}, "
    tail = f", and {counted(slip.n_cells - 1, 'more cell')} like it" if slip.n_cells > 1 else ""
    return InputError(
        f"{opt('dataset')} must have numbers of one form in column {short(name)}, such as "
        f"{short(slip.usual)}, '{path}' has {short(slip.cell)} in {source.where(slip.row)}{tail}; "
        f"correct it, {as_missing if is_text else ''}take "
        f"the column as categories with {opt('category', shlex.quote(name))}, or leave it out with "
        f"{opt('leave_out', shlex.quote(name))}"
    )


def are_whole(values: NDArray[np.float64]) -> bool:
    """Whether all values are whole numbers; infinity and NaN are not."""
    return bool(np.isfinite(values).all() and np.all(values % 1 == 0))


def to_numbers(column: pd.Series) -> NDArray[np.float64]:
    """A column as float64; missing values, and cells that are not numbers, as NaN."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype):  # also truth values
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    try:
        values = pd.to_numeric(column.astype(object), errors="coerce")
    except (TypeError, ValueError):  # lists and the like
        return np.full(len(column), np.nan)
    return np.asarray(values, dtype=np.float64)


def columns_of(frame: pd.DataFrame, kinds: Kinds, path: Path, source: TableSource) -> pd.DataFrame:
    """The feature columns by name, in one form, whatever form the file has.

    Parameters
    ----------
    frame : DataFrame
        With at least the columns of ``kinds``.
    kinds : Kinds
    path, source : Path, TableSource
        Origin of the frame, for messages.

    Returns
    -------
    DataFrame
        float64 columns of numbers, then object columns of text; missing values are NaN.

    Raises
    ------
    InputError
        A column is missing, a cell in a column of numbers is not a number, or a number is infinite
        or beyond single precision.
    """
    import pandas as pd

    missing_columns = [
        name for name in (*kinds.numbers, *kinds.categories) if name not in frame.columns
    ]
    if missing_columns:
        raise InputError(
            f"{opt('dataset')} must have the columns {list_names(missing_columns)}, '{path}' has "
            f"{list_names(frame.columns)}; name them so"
        )
    X = np.empty((len(frame), len(kinds.numbers)))
    for i, name in enumerate(kinds.numbers):
        if name in source.columns.slips:
            raise slip_error(name, source, path)
        X[:, i] = to_numbers(frame[name])
        is_broken = np.isnan(X[:, i]) & frame[name].notna().to_numpy()
        if is_broken.any():
            row = int(np.argmax(is_broken))
            raise InputError(
                f"{opt('dataset')} must have numbers in column {short(name)}, '{path}' has "
                f"{short(frame[name].iloc[row])} in {source.where(row)}; correct the cell, or "
                "leave it empty (missing)"
            )
        is_large = np.abs(X[:, i]) > LARGEST
        if is_large.any():
            row = int(np.argmax(is_large))
            raise InputError(
                f"{opt('dataset')} must have numbers within single precision, ±3.4e38, column "
                f"{short(name)} of '{path}' has {float(X[row, i])} in {source.where(row)}; "
                "scale the column, or empty the cell, which means missing"
            )
    columns = pd.DataFrame(X, columns=list(kinds.numbers))
    for name in kinds.categories:
        codes, values = pd.factorize(frame[name].astype(object))
        levels = np.array([*map(level_of, values), np.nan], dtype=object)  # missing: -1
        columns[name] = pd.Series(levels[codes], dtype=object)
    return columns


def level_of(value: object) -> str:
    """A level as text: as it is written, numbers from Parquet by value."""
    if isinstance(value, float | np.floating) and value.is_integer():
        return str(int(value))
    return str(value)


def _type_error(column: pd.Series, path: Path) -> InputError:
    """The error for a column that holds neither numbers nor text."""
    value = column.dropna().iloc[0]
    return InputError(
        f"{opt('dataset')} must have columns of numbers or text, column {short(column.name)} of "
        f"'{path}' has {short(value)}; encode it or drop the column"
    )
