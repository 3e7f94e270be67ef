"""Arrays of a run, read no larger than the file they stand in."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pipelines.run_folder.schema import MOST_BYTES

# What reading damaged or foreign content raises.
DAMAGE = (
    OSError, ValueError, KeyError, IndexError, EOFError, TypeError, OverflowError, MemoryError,
    SyntaxError, NotImplementedError, RuntimeError, zipfile.BadZipFile,
)  # fmt: skip


def read_arrays(path: Path, names: Sequence[str]) -> list[np.ndarray]:
    """Return arrays of a file that ``numpy.savez`` wrote.

    Raises
    ------
    one of ``DAMAGE``
        It is no such file, or the header of an array speaks of another size.
    """
    found = []
    with zipfile.ZipFile(path) as archive:
        for name in names:
            member = archive.getinfo(f"{name}.npy")
            if member.file_size > MOST_BYTES:
                raise ValueError(f"{name} has {member.file_size:,} bytes")
            with archive.open(member) as file:
                content = file.read(member.file_size + 1)
            found.append(_read(BytesIO(content), len(content)))
    return found


def _read(file: BinaryIO, size: int) -> np.ndarray:
    version = np.lib.format.read_magic(file)
    read_header = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
    shape, _, dtype = read_header(file)
    n_bytes = dtype.itemsize * math.prod(map(int, shape))
    if dtype.hasobject or n_bytes != size - file.tell():
        raise ValueError(f"an array of shape {shape} does not fit its {size:,} bytes")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)
