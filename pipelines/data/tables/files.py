"""Read a table file into a pandas DataFrame, column by column as stored."""

from __future__ import annotations

import math
import os
import warnings
import zipfile
import zlib
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.data.tables.layout import MISSING, Layout, notice_layout, refuse_one_name_twice
from pipelines.data.tables.words import empty, listed, refuse_beyond_memory, short, unreadable
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import pandas as pd

TEXT = (".csv", ".tsv", ".data", ".txt")
SUFFIXES = (*TEXT, ".parquet", ".npz")


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
        return _read_npz(path, label), None
    layout = None
    if suffix != ".parquet":
        layout = notice_layout(path, header)
        if layout is None:
            raise empty(path)
    import pandas as pd
    from pyarrow import parquet

    try:
        if layout is None:
            with suppress(OSError):  # of a folder
                metadata = parquet.read_metadata(path)
                refuse_beyond_memory(path, 8 * metadata.num_rows * metadata.num_columns)
            frame = pd.read_parquet(path, engine="pyarrow")
        else:
            with warnings.catch_warnings():
                # By default a surplus field makes the first column an index, silently.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = pd.read_csv(
                    path, index_col=False, low_memory=False, sep=layout.separator,
                    decimal=layout.decimal, header=0 if layout.has_header else None,
                    names=list(layout.names), na_values=list(MISSING), keep_default_na=False,
                    skipinitialspace=True,
                )  # fmt: skip
    except InputError:
        raise
    except pd.errors.EmptyDataError:
        raise empty(path) from None
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
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if name.endswith(".npy")]
            names = [name.removesuffix(".npy") for name in members]
            if "X" not in names:
                raise InputError(
                    f"{opt('dataset')} must hold an array X of features, '{path}' has "
                    f"{listed(names)}; save it with numpy.savez(path, X=..., y=...)"
                )
            if label is not None and (label not in names or label == "X"):
                raise no_target(path, label, [name for name in names if name != "X"], "an array")
            X = _array(archive, "X", path)
            y = None if label is None else _array(archive, label, path)
    except InputError:
        raise
    except (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise unreadable(path, error) from None
    if X.ndim != 2 or (y is not None and y.shape != (len(X),)):
        raise InputError(
            f"{opt('dataset')} must hold X of shape (rows, features) and {label or 'y'} of shape "
            f"(rows,), '{path}' has {X.shape} and {None if y is None else y.shape}; reshape them"
        )
    if X.size == 0:
        raise empty(path)
    if X.dtype.kind not in "biuf":
        raise InputError(
            f"{opt('dataset')} must have numeric features, X in '{path}' is of type {X.dtype}; "
            f"encode it as numbers"
        )
    if y is not None and y.dtype.kind not in "biufU":
        raise InputError(
            f"{opt('target')} must name labels that are numbers or text, {label!r} in '{path}' is "
            f"of type {y.dtype}; encode them"
        )
    columns = [f"x{i}" for i in range(X.shape[1])]
    frame = pd.DataFrame(np.ascontiguousarray(X, dtype=np.float64), columns=columns)
    if y is None or label is None:
        return frame
    return frame.assign(**{label: y.astype(y.dtype.newbyteorder("="))})


def _array(archive: zipfile.ZipFile, name: str, path: Path) -> NDArray[Any]:
    """Read an array, once its header has said that it fits in memory."""
    with archive.open(f"{name}.npy") as file:
        is_first = np.lib.format.read_magic(file) == (1, 0)
        headers = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
        shape, _, dtype = headers[not is_first](file)
    if dtype.hasobject:
        raise InputError(
            f"{opt('dataset')} must hold plain arrays, {name!r} in '{path}' is an array of "
            f"Python objects; save it as numbers or text, such as {name}.astype(str)"
        )
    refuse_beyond_memory(path, dtype.itemsize * math.prod(map(int, shape)))
    with archive.open(f"{name}.npy") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def no_target(path: Path, target: str, names: list[str], what: str) -> InputError:
    """Return the error message for a missing target, with the most similar name present."""
    near = get_close_matches(target, names, n=1)
    hint = f"did you mean {short(near[0])}? " if near else ""
    return InputError(
        f"{opt('target')} must be the name of {what} of '{path}', got {target!r}; {hint}"
        f"there are {listed(names)}"
    )
