"""What a file says it holds is held against this machine's memory before it is read."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import psutil

from pipelines.errors import InputError, opt

# pyarrow's fixed widths; a column of text or of lists has at least its offsets.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT96": 12}


def refuse_beyond_memory(path: Path, n_bytes: int) -> None:
    """Raise InputError where so many bytes, unpacked, are more than this machine's memory."""
    most = psutil.virtual_memory().total
    if n_bytes > most:
        raise InputError(
            f"{opt('dataset')} must fit in memory, '{path}' unpacks to {n_bytes / 2**30:,.0f} GiB "
            f"of {most / 2**30:,.0f}; take fewer rows or columns"
        )


def array_bytes(path: Path, name: str) -> int:
    """Bytes of an array of an .npz file, by its header; 0 where it has none to be read."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = read(file)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        return 0  # the reader will say why
    n_bytes = dtype.itemsize
    for length in shape:
        n_bytes *= int(length)
    return n_bytes


def parquet_bytes(path: Path) -> int:
    """At least what the columns of a .parquet file take, by its own account; 0 of a folder."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        facts = parquet.read_metadata(path)
    except (OSError, pa.ArrowException):
        return 0
    columns = [facts.schema.column(i) for i in range(facts.num_columns)]
    return sum(_WIDTHS.get(column.physical_type, 8) for column in columns) * facts.num_rows
