"""Read a table file into a pandas DataFrame, column by column as stored."""

from __future__ import annotations

import csv
import re
import warnings
import zipfile
import zlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from pipelines.data.tables.words import listed, refuse_no_file, short, unreadable
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import pandas as pd

TEXT = (".csv", ".tsv", ".data", ".txt")
SUFFIXES = (*TEXT, ".parquet", ".npz")
SAMPLE = 200  # rows that are looked at
MOST_LINES = 10 * SAMPLE  # a cell in quotes may hold several
WHITESPACE = r"\s+"
SEPARATORS = (",", ";", "\t", "|")
# What pandas takes for missing, and "?"; but for "None", which is a level in many a table.
MISSING = (
    "",
    "?",
    "NA",
    "N/A",
    "n/a",
    "<NA>",
    "#NA",
    "#N/A",
    "#N/A N/A",
    "nan",
    "NaN",
    "-nan",
    "-NaN",
    "null",
    "NULL",
    "1.#IND",
    "-1.#IND",
    "1.#QNAN",
    "-1.#QNAN",
)
DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}( .*)?")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")

Cells = list[list[str]]


def read_frame(
    path: str | Path, *, header: bool | None = None, label: str | None = None
) -> tuple[pd.DataFrame, Layout | None]:
    """Read a file's columns; ``?``, ``NA`` and empty cells are missing.

    Parameters
    ----------
    path : a file whose suffix is in ``SUFFIXES``
        Of text: commas, semicolons, tabs, bars or spaces between columns, with or without
        a header line. An .npz has the features in ``X``.
    header : whether the first line of a file of text names the columns; None looks at it
    label : of an .npz the array of labels, which becomes a column; no other but ``X`` does

    Returns
    -------
    frame : columns by name, which is text, at least one row
    layout : of a file of text, else None

    Raises
    ------
    InputError
        The file cannot be read, has no row, or two columns of one name.
    """
    path = Path(path)
    refuse_no_file(path, SUFFIXES)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _read_npz(path, label), None
    layout = None if suffix == ".parquet" else notice_layout(path, header)
    import pandas as pd
    from pyarrow import parquet

    try:
        if layout is None:
            with suppress(OSError):  # of a folder
                metadata = parquet.read_metadata(path)
                n_bytes = 8 * metadata.num_rows * metadata.num_columns
                if n_bytes > (most := psutil.virtual_memory().total):
                    raise InputError(
                        f"{opt('dataset')} must fit in memory, '{path}' unpacks to "
                        f"{n_bytes / 2**30:,.0f} GiB of {most / 2**30:,.0f}; take fewer rows or "
                        "columns"
                    )
            frame = pd.read_parquet(path, engine="pyarrow")
        else:
            with warnings.catch_warnings():
                # By default a surplus field makes the first column an index, silently.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = pd.read_csv(path, **layout.settings())
    except InputError:
        raise
    except Exception as error:  # pandas and pyarrow raise a dozen unrelated types
        raise unreadable(path, error) from None
    frame.columns = [str(name) for name in frame.columns]
    refuse_one_name_twice(list(frame.columns), path)
    if frame.empty:
        raise empty(path)
    return frame, layout


def _read_npz(path: Path, label: str | None) -> pd.DataFrame:
    """Read the array ``X`` as columns x0, x1, ..., followed by the array ``label`` if given."""
    import pandas as pd

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            names = list(archive)
            if "X" not in names:
                raise InputError(
                    f"{opt('dataset')} must hold an array X of features, '{path}' has "
                    f"{listed(names)}; save it with numpy.savez(path, X=..., y=...)"
                )
            if label is not None and (label not in names or label == "X"):
                raise no_target(path, label, [name for name in names if name != "X"], "an array")
            X = np.asarray(archive["X"])
            y = None if label is None else np.asarray(archive[label])
    except InputError:
        raise
    # Of one array that is no archive a TypeError, of one larger than memory a MemoryError.
    except (
        OSError,
        ValueError,
        EOFError,
        RuntimeError,
        TypeError,
        MemoryError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise unreadable(path, error) from None
    if X.ndim != 2 or (y is not None and y.shape != (len(X),)):
        raise InputError(
            f"{opt('dataset')} must hold X of shape (rows, features) and {label or 'y'} of shape "
            f"(rows,), '{path}' has {X.shape} and {None if y is None else y.shape}; reshape them"
        )
    if X.size == 0:
        raise empty(path)
    for name, array, kinds in (("X", X, "biuf"), (label, y, "biufU")):
        if array is not None and array.dtype.kind not in kinds:
            raise InputError(
                f"{opt('dataset')} must hold features of numbers and labels of numbers or text, "
                f"{name!r} in '{path}' is of type {array.dtype}; encode it"
            )
    columns = [f"x{i}" for i in range(X.shape[1])]
    frame = pd.DataFrame(np.ascontiguousarray(X, dtype=np.float64), columns=columns)
    if y is None or label is None:
        return frame
    return frame.assign(**{label: y.astype(y.dtype.newbyteorder("="))})


def empty(path: Path) -> InputError:
    """Return the error of a file without a row."""
    return InputError(
        f"{opt('dataset')} must hold at least one row of data, but '{path}' has none; check that "
        "it was written in full"
    )


def no_target(path: Path, target: str, names: list[str], what: str) -> InputError:
    """Return the error message for a missing target, with the most similar name present."""
    near = get_close_matches(target, names, n=1)
    hint = f"did you mean {short(near[0])}? " if near else ""
    return InputError(
        f"{opt('target')} must be the name of {what} of '{path}', got {target!r}; {hint}"
        f"there are {listed(names)}"
    )


@dataclass(frozen=True)
class Layout:
    """The detected layout of a text table.

    Attributes
    ----------
    separator : one character, or ``WHITESPACE``
    decimal : ``"."``, or ``","`` where numbers are written so
    names : of the columns; ``1``, ``2``, ... where there is no header line
    has_header : bool
    """

    separator: str
    decimal: str
    names: tuple[str, ...]
    has_header: bool

    def settings(self) -> dict[str, Any]:
        """Return it as ``pandas.read_csv`` takes it."""
        own = {"sep": self.separator, "decimal": self.decimal, "names": list(self.names)}
        header, gaps = 0 if self.has_header else None, list(MISSING)
        of_all = {"index_col": False, "low_memory": False, "skipinitialspace": True}
        return {**own, **of_all, "header": header, "na_values": gaps, "keep_default_na": False}


def notice_layout(path: Path, header: bool | None = None) -> Layout:
    """Look at the first lines of a file.

    Parameters
    ----------
    path : a file of text
    header : whether the first line names the columns; None looks at it

    Raises
    ------
    InputError
        Two columns have one name, or the file has no line or cannot be opened.
    """
    try:
        separator, rows = _split(path)
    except (OSError, csv.Error) as error:
        raise unreadable(path, error) from None
    if not rows:
        raise empty(path)
    decimal = "," if separator != "," and _has_decimal_commas(rows) else "."
    if header is None:
        header = _is_header(rows[0], rows[1:], decimal)
    if not header:
        names = [str(number + 1) for number in range(len(rows[0]))]
    else:
        names = [cell or f"Unnamed: {number}" for number, cell in enumerate(rows[0])]
    refuse_one_name_twice(names, path)
    return Layout(separator, decimal, tuple(names), header)


def refuse_one_name_twice(names: list[str], path: Path) -> None:
    """Raise an error for two columns of one name: a reader would rename one of them.

    Raises
    ------
    InputError
        Two columns have one name; a copy of the target among the features would give it away.
    """
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise unreadable(path, f"two columns are called {short(twice)}")


def _split(path: Path) -> tuple[str, Cells]:
    """Return the separator, and the cells of the first lines, stripped."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = list(islice(file, MOST_LINES))

    def split_by(separator: str) -> Cells:
        rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        some = [[cell.strip() for cell in row] for row in islice(rows, SAMPLE)]
        return [row for row in some if any(row)]

    even: dict[str, tuple[int, Cells]] = {}
    best = 0.0
    for separator in SEPARATORS:
        rows = split_by(separator)
        width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (0, 0)
        if width > 1 and count / len(rows) >= best:
            even = even if count / len(rows) == best else {}
            best = count / len(rows)
            even[separator] = width, rows
    if not even:
        words = [line.split() for line in lines[:SAMPLE] if line.strip()]
        if words and len(words[0]) > 1 and len({len(row) for row in words}) == 1:
            return WHITESPACE, words
        return ",", split_by(",")
    separator = max(even, key=lambda one: even[one][0])
    if ";" in even and _has_decimal_commas(even[";"][1]):
        separator = ";"
    return separator, even[separator][1]


def _has_decimal_commas(rows: Cells) -> bool:
    with_comma = [cell for row in rows for cell in row if "," in cell]
    return bool(with_comma) and all(DECIMAL_COMMA.fullmatch(cell) for cell in with_comma)


def _is_header(first: list[str], below: Cells, decimal: str) -> bool:
    """Return whether the first line is a header; numbers, dates and known values are not."""
    counted = [(place, cell) for place, cell in enumerate(first) if cell.isdecimal()]
    if len(counted) > 1 and any(
        all(int(cell) == place + start for place, cell in counted) for start in (0, 1, -1)
    ):
        return True  # names such as 0, 1, 2, which a table without names of its own was given
    if any(_is_number(cell, decimal) or cell == "?" or DATE.fullmatch(cell) for cell in first):
        return False
    columns = [{row[i] for row in below if i < len(row)} for i in range(len(first))]
    for values in columns:
        present = values - set(MISSING)
        if present and all(_is_number(value, decimal) for value in present):
            return True  # a word above numbers
    known = sum(cell in values for cell, values in zip(first, columns, strict=True))
    return 2 * known < len(first)


def _is_number(cell: str, decimal: str) -> bool:
    return NUMBER.fullmatch(cell.replace(decimal, ".")) is not None
