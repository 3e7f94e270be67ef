"""A table in an .npz file: features in the array ``X``, labels in another."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.data.tables.words import empty, listed, refuse_beyond_memory, short, unreadable
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import pandas as pd


def read_npz(path: Path, label: str | None = None) -> pd.DataFrame:
    """Read ``X`` as columns x0, x1, ..., followed by the array ``label`` if given.

    Raises
    ------
    InputError
        The file cannot be read, lacks an array, or holds one of another shape or type.
    """
    import pandas as pd

    with _open_npz(path) as arrays:
        names = list(arrays.files)
        if "X" not in names:
            raise InputError(
                f"{opt('dataset')} must hold an array X of features, '{path}' has "
                f"{listed(names)}; save it with numpy.savez(path, X=..., y=...)"
            )
        if label is not None and (label not in names or label == "X"):
            raise no_target(path, label, [name for name in names if name != "X"], "an array")
        X = _array(arrays, "X", path)
        y = None if label is None else _array(arrays, label, path)
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


def no_target(path: Path, target: str, names: list[str], what: str) -> InputError:
    """Return the error message for a missing target, with the most similar name present."""
    near = get_close_matches(target, names, n=1)
    hint = f"did you mean {short(near[0])}? " if near else ""
    return InputError(
        f"{opt('target')} must be the name of {what} of '{path}', got {target!r}; {hint}"
        f"there are {listed(names)}"
    )


@contextmanager
def _open_npz(path: Path) -> Iterator[Any]:
    # numpy.load leaves a file it opened itself open when it turns out not to be a ZIP file.
    with ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            arrays = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise unreadable(path, error) from None
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise unreadable(path, "it holds a single array; numpy.savez writes several")
        yield stack.enter_context(arrays)


def _array(arrays: Any, name: str, path: Path) -> NDArray[Any]:
    refuse_beyond_memory(path, _array_bytes(path, name))
    try:
        array = arrays[name]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"{opt('dataset')} must hold plain arrays, {name!r} in '{path}' is an array of "
                f"Python objects; save it as numbers or text, such as {name}.astype(str)"
            ) from None
        raise unreadable(path, error) from None
    if not isinstance(array, np.ndarray):
        raise unreadable(path, f"{name!r} is not a NumPy array")
    return array


def _array_bytes(path: Path, name: str) -> int:
    """Return bytes of an array of an .npz file, by its header; 0 where it has none to be read."""
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
    return int(dtype.itemsize) * math.prod(map(int, shape))
