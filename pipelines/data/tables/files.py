"""Read a table file into a pandas DataFrame, column by column as stored."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.data.tables.layout import MISSING, Layout, notice_layout, refuse_one_name_twice
from pipelines.data.tables.npz import read_npz
from pipelines.data.tables.words import empty, refuse_beyond_memory, unreadable
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import pandas as pd

TEXT = (".csv", ".tsv", ".data", ".txt")
SUFFIXES = (*TEXT, ".parquet", ".npz")
# pyarrow's fixed widths; a column of text or of lists has at least its offsets.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT96": 12}


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
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"{opt('dataset')} can read {', '.join(SUFFIXES)} files, got '{path}'; convert it to "
            "one of these"
        )
    # A data set written in parts by Dask or Spark is a folder named *.parquet.
    if not (os.path.isfile(path) or (os.path.isdir(path) and suffix == ".parquet")):
        raise InputError(
            f"{opt('dataset')} must be an existing file, but '{path}' does not exist; check the "
            "path"
        )
    if suffix == ".npz":
        return read_npz(path, label), None
    layout = None
    if suffix == ".parquet":
        refuse_beyond_memory(path, _parquet_bytes(path))
    else:
        layout = notice_layout(path, header)
        if layout is None:
            raise empty(path)
    frame = _read_with_pandas(path, layout)
    names = [str(name) for name in frame.columns]
    frame.columns = names
    refuse_one_name_twice(names, path)
    if frame.empty:
        raise empty(path)
    return frame, layout


def _read_with_pandas(path: Path, layout: Layout | None) -> pd.DataFrame:
    import pandas as pd

    try:
        if layout is None:
            return pd.read_parquet(path, engine="pyarrow")
        with warnings.catch_warnings():
            # By default a surplus field makes the first column an index, silently.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                path, index_col=False, low_memory=False, sep=layout.separator,
                decimal=layout.decimal, header=0 if layout.has_header else None,
                names=list(layout.names), na_values=list(MISSING), keep_default_na=False,
                skipinitialspace=True,
            )  # fmt: skip
    except pd.errors.EmptyDataError:
        raise empty(path) from None
    except Exception as error:  # pandas and pyarrow raise a dozen unrelated types
        raise unreadable(path, error) from None


def _parquet_bytes(path: Path) -> int:
    """Return a lower bound in bytes for the columns of a .parquet file; 0 for a folder."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        metadata = parquet.read_metadata(path)
    except (OSError, pa.ArrowException):
        return 0
    columns = [metadata.schema.column(i) for i in range(metadata.num_columns)]
    return sum(_WIDTHS.get(column.physical_type, 8) for column in columns) * metadata.num_rows
