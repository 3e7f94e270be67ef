"""Table files read into a pandas DataFrame, column by column."""

from __future__ import annotations

import codecs
import re
import zipfile
import zlib
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from pipelines.data.tables.words import SIGNS, list_names, refuse_no_file, short, unreadable
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from pipelines.data.delimited import TextTable
    from pipelines.data.tables.typed_columns import TypedColumns

TEXT = (".csv", ".tsv", ".data", ".txt")
SUFFIXES = (*TEXT, ".parquet", ".npz")
# Missing in any column: the words of pandas and "?", except "None", a level in many tables.
MISSING_WORDS = (
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


@dataclass(frozen=True, eq=False)
class TableSource:
    """How columns of text, in a text or Parquet file, were read; empty for files without them.

    Attributes
    ----------
    cells : mapping of str to pyarrow.ChunkedArray
        Columns of text as they are in the file.
    missing : tuple of str
        Words that mean a missing cell.
    columns : TypedColumns
        Slips, conversions and units.
    table : TextTable or None
        The table of a text file.
    first : int
        Number of the first row, where these rows are part of a larger table.
    """

    cells: Mapping[str, pa.ChunkedArray]
    missing: tuple[str, ...]
    columns: TypedColumns
    table: TextTable | None = None
    first: int = 0

    @property
    def has_header(self) -> bool:
        """Whether the file names its columns."""
        return self.table is None or self.table.names is not None

    def notes_on(self, names: Container[str]) -> tuple[str, ...]:
        """Notes on the file and on these columns."""
        parts = {
            note: [name for name in columns if name in names]
            for note, columns in self.columns.conversions.items()
        }
        converted = (
            f"{note} in {list_names(columns)}" for note, columns in parts.items() if columns
        )
        return (*(() if self.table is None else self.table.notes), *converted)

    def as_written(self, name: str) -> np.ndarray | None:
        """Text of a column as objects, NaN where it is missing; None for a column of numbers."""
        from pipelines.data.tables.typed_columns import present_cells, text_of

        if name not in self.cells:
            return None
        column = self.cells[name]
        return text_of(column if self.table is None else present_cells(column, self.missing))

    def cell(self, name: str, row: int) -> str:
        """A cell as it is in the file, empty if its row lacks it."""
        return (self.cells[name][row].as_py() or "").strip() if name in self.cells else ""

    def where(self, row: int) -> str:
        """Where a row, counted from 0, is in the file: its line in a text, else its number."""
        row += self.first
        return f"data row {row + 1}" if self.table is None else f"line {self.table.line_of(row)}"

    def lacks(self, words: Iterable[str]) -> list[str]:
        """The words for a missing cell, among these, that no cell holds."""
        from pipelines.data.tables.typed_columns import present_cells

        return [
            word
            for word in words
            if all(
                present_cells(column, (word,)).null_count == present_cells(column, ()).null_count
                for column in self.cells.values()
            )
        ]

    def renamed(self, names: Mapping[str, str]) -> TableSource:
        """The same source with other column names."""
        from pipelines.data.tables.typed_columns import TypedColumns

        old_columns = self.columns
        columns = TypedColumns(
            {names[name]: values for name, values in old_columns.values.items()},
            {names[name]: slip for name, slip in old_columns.slips.items()},
            {
                note: [names[name] for name in old_names]
                for note, old_names in old_columns.conversions.items()
            },
            {names[name]: unit for name, unit in old_columns.units.items()},
        )
        cells = {names[name]: column for name, column in self.cells.items()}
        return replace(self, cells=cells, columns=columns)


def read_frame(
    path: str | Path,
    *,
    header: bool | None = None,
    label: str | None = None,
    as_text: Container[str] = (),
    encoding: str | None = None,
    missing: tuple[str, ...] = MISSING_WORDS,
    numbers: Container[str] = (),
) -> tuple[pd.DataFrame, TableSource]:
    """Read the columns of a table file.

    Parameters
    ----------
    path : str or Path
        A file whose suffix is in ``SUFFIXES``. For text, see ``pipelines.data.delimited``. An .npz
        file has the features in its array ``X``.
    header : bool, optional
        Whether the first line of a text names the columns; None detects it.
    label : str, optional
        Array of labels in an .npz file, which becomes a column; its other arrays are ignored.
    as_text : container of str
        Columns of a text or Parquet file that stay as they are written.
    encoding : str, optional
        Encoding of a text; None detects it.
    missing : tuple of str
        Words that mean a missing cell in a text, besides an empty one. Unless the usual words are
        among them, signs of missing numbers are not recognised either.
    numbers : container of str
        Columns of numbers, however few of their cells are numbers.

    Returns
    -------
    frame : DataFrame
        Columns by name, which is text; at least one row.
    source : TableSource
        How the columns of text were read.

    Raises
    ------
    InputError
        The file cannot be read, has no row, or has two columns with the same name.
    """
    path = Path(path)
    refuse_no_file(path, SUFFIXES)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _read_npz(path, label)
    if suffix in TEXT:
        return _read_text(path, header, as_text, encoding, missing, numbers)
    from pyarrow import parquet

    try:
        with suppress(OSError):  # path may be a folder
            metadata = parquet.read_metadata(path)
            refuse_one_name_twice(metadata.schema.to_arrow_schema().names, path)
            # Eight bytes per cell, as a number or a pointer to text.
            n_bytes = 8 * metadata.num_rows * metadata.num_columns
            if n_bytes > (max_bytes := psutil.virtual_memory().total):
                raise InputError(
                    f"{opt('dataset')} must fit in memory, '{path}' unpacks to "
                    f"{n_bytes / 2**30:,.0f} GiB of {max_bytes / 2**30:,.0f}; take fewer rows or "
                    "columns"
                )
        table = _of_parts(path) if path.is_dir() else parquet.read_table(path)
        frame, source = typed(table, as_text, numbers)
    except InputError:
        raise
    except Exception as error:  # pandas and pyarrow raise a dozen unrelated exception types
        raise unreadable(path, error) from None
    refuse_one_name_twice(list(frame.columns), path)
    if frame.empty:
        raise empty(path)
    return frame, source


def typed(
    table: pa.Table, as_text: Container[str], numbers: Container[str]
) -> tuple[pd.DataFrame, TableSource]:
    """Columns of a Parquet table; columns of text that hold numbers are converted."""
    import pyarrow as pa

    from pipelines.data.tables.typed_columns import type_columns

    for i, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            # Cast by way of text: a direct cast may change the last digit.
            text = table.column(i).cast(pa.string())
            table = table.set_column(i, field.name, text.cast(pa.float64()))
    frame = table.to_pandas()
    frame = frame.reset_index([name for name in frame.index.names if name is not None])
    frame = frame.reset_index(drop=True)
    frame.columns = [str(name) for name in frame.columns]
    text = {
        field.name: table.column(i)
        for i, field in enumerate(table.schema)
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    }
    text = {name: column for name, column in text.items() if list(frame).count(name) == 1}
    columns = type_columns(text, (), as_text, numbers=numbers)
    for name, values in columns.values.items():
        if values.dtype.kind in "if" and name not in as_text:
            frame[name] = values
    return frame, TableSource(text, (), columns)


def parts_of(folder: Path) -> list[Path]:
    """The files of a table in a folder, in the order of the numbers in their names.

    Hidden files are left out.
    """
    files = [
        part
        for part in folder.rglob("*")
        if part.is_file() and not any(name[0] in "._" for name in part.relative_to(folder).parts)
    ]
    parts = [part for part in files if part.suffix.lower() == ".parquet"] or files
    parts.sort(
        key=lambda part: [
            (int(word) if word.isdecimal() else -1, word) for word in re.split(r"(\d+)", str(part))
        ]
    )
    _refuse_other_columns(parts, folder)
    return parts


def _of_parts(folder: Path) -> pa.Table:
    """The rows of all files; a column of several number types gets one that holds them all."""
    import pyarrow as pa
    from pyarrow import dataset, parquet

    parts = parts_of(folder)
    paths = [str(part) for part in parts]
    options: dict[str, Any] = {"partitioning": "hive", "partition_base_dir": str(folder)}
    schemas = (dataset.dataset(paths, **options).schema, *map(parquet.read_schema, parts))
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    return dataset.dataset(paths, schema, **options).to_table()


def _refuse_other_columns(parts: list[Path], folder: Path) -> None:
    """Raise InputError unless all files of a table have the same columns."""
    from pyarrow import parquet

    columns = [set(parquet.read_schema(part).names) for part in parts]
    for part, names in zip(parts, columns, strict=True):
        if names != columns[0]:
            differing_names = list_names(sorted(names ^ columns[0]))
            raise unreadable(
                folder, f"'{part.name}' has other columns than '{parts[0].name}': {differing_names}"
            )


def _read_text(
    path: Path,
    header: bool | None,
    as_text: Container[str],
    encoding: str | None,
    missing: tuple[str, ...],
    numbers: Container[str],
) -> tuple[pd.DataFrame, TableSource]:
    """Read a file of delimited text; see ``read_frame``."""
    import pandas as pd

    from pipelines.data.delimited import NO_ROW, NoTable, read_text_table
    from pipelines.data.tables.typed_columns import type_columns

    try:
        codecs.lookup(encoding or "utf-8")
    except LookupError:
        raise InputError(
            f"{opt('encoding')} must be one that Python has, got {encoding!r}; try utf-8 or cp1252"
        ) from None
    try:
        table = read_text_table(path, encoding=encoding, header=header)
    except NoTable as error:
        raise (empty(path) if str(error) == NO_ROW else unreadable(path, error)) from None
    except OSError as error:
        raise unreadable(path, error) from None
    cells = table.cells
    if table.names is None:
        names = tuple(str(number + 1) for number in range(cells.num_columns))
    else:
        names = tuple(name or f"Unnamed: {i}" for i, name in enumerate(table.names))
    refuse_one_name_twice(list(names), path)
    if not cells.num_rows:
        raise empty(path)
    by_name = {name: cells.column(i) for i, name in enumerate(names)}
    signs = SIGNS if {*MISSING_WORDS} <= {*missing} else ()
    commas = table.dialect.delimiter == ";"
    columns = type_columns(by_name, missing, as_text, commas, signs, numbers)
    return pd.DataFrame(columns.values), TableSource(by_name, missing, columns, table)


def _read_npz(path: Path, label: str | None) -> tuple[pd.DataFrame, TableSource]:
    """Read the array ``X`` as columns x0, x1, ..., then the array ``label`` if given."""
    import pandas as pd

    from pipelines.data.tables.typed_columns import TypedColumns

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            names = list(archive)
            if "X" not in names:
                raise InputError(
                    f"{opt('dataset')} must hold an array X of features, '{path}' has "
                    f"{list_names(names)}; save it with numpy.savez(path, X=..., y=...)"
                )
            if label is not None and (label not in names or label == "X"):
                raise no_target(path, label, [name for name in names if name != "X"], "an array")
            X = np.asarray(archive["X"])
            y = None if label is None else np.asarray(archive[label])
    except InputError:
        raise
    # A single array instead of an archive gives a TypeError, one beyond memory a MemoryError.
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
    if y is not None and label is not None:
        frame[label] = y.astype(y.dtype.newbyteorder("="))
    return frame, TableSource({}, (), TypedColumns())


def empty(path: Path) -> InputError:
    """The error for a file without a row."""
    return InputError(
        f"{opt('dataset')} must hold at least one row of data, but '{path}' has none; check that "
        "it was written in full"
    )


def no_target(path: Path, target: str, names: list[str], what: str) -> InputError:
    """The error for a missing target, with the most similar name."""
    close_names = get_close_matches(target, names, n=1)
    hint = f"did you mean {short(close_names[0])}? " if close_names else ""
    return InputError(
        f"{opt('target')} must be the name of {what} of '{path}', got {target!r}; {hint}"
        f"there are {list_names(names)}"
    )


def refuse_one_name_twice(names: list[str], path: Path) -> None:
    """Raise InputError if two columns have the same name.

    A reader would rename one of them; a copy of the target among the features would leak it.
    """
    if len(set(names)) < len(names):
        repeated_name = next(name for name in names if names.count(name) > 1)
        raise unreadable(path, f"two columns are called {short(repeated_name)}")
