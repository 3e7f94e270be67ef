"""Model files in safetensors (arrays and text) or skops format; reading runs no code from them."""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from types import ModuleType
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np

from pipelines.errors import InputError, error_line

Arrays = dict[str, np.ndarray]
Model = TypeVar("Model")

# What reading damaged or foreign content raises, apart from SafetensorError.
DAMAGE = (OSError, KeyError, TypeError, ValueError, AttributeError, OverflowError)
# What skops raises further: errors of zipfile, of numpy's headers and of missing modules.
DAMAGE_OF_SKOPS = (
    *DAMAGE,
    BadZipFile,
    EOFError,
    ImportError,
    MemoryError,
    RuntimeError,
    TokenError,
    zlib.error,
)

# A damaged dtype of text may claim any width, and an array takes that width for every label.
WIDEST_LABEL = 1 << 20


def write_model(path: Path, arrays: Arrays, about: Mapping[str, Any]) -> None:
    """Write arrays by name, and metadata that JSON can hold."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    metadata = {name: json.dumps(value, default=np.generic.item) for name, value in about.items()}
    try:
        save_file(contiguous, path, metadata=metadata)
        umask = os.umask(0o077)  # the umask can only be read by setting it
        os.umask(umask)
        path.chmod(0o666 & ~umask)  # safetensors makes files that only their owner can read
    except SafetensorError as error:  # which also stands for a full disk or a missing folder
        raise OSError(f"{path} cannot be written: {error}") from None


def read_model(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Read arrays and metadata that ``write_model`` wrote.

    Raises
    ------
    ValueError
        It is not such a file.
    OSError
        The file cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as stored:
            metadata = stored.metadata() or {}
            names = stored.keys()
            arrays = {name: stored.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    return arrays, {name: json.loads(text) for name, text in metadata.items()}


def read_model_file(
    path: Path, make: Callable[[Arrays, dict[str, Any]], Model], is_to_be: str, way_out: str
) -> Model:
    """Read and validate a model file, and build the model from it.

    Parameters
    ----------
    path : Path
    make : function of arrays and metadata
        Builds the model; an error that it raises on damaged content becomes an InputError.
    is_to_be, way_out : str
        What the file must be, and what to do, for the message.

    Returns
    -------
    The model.

    Raises
    ------
    InputError
        The file cannot be read, or is damaged.
    """
    try:
        return make(*read_model(path))
    except DAMAGE as error:
        raise InputError(f"{path} must be {is_to_be}: {error}; {way_out}") from None


def labels_as_json(labels: np.ndarray) -> dict[str, Any]:
    """Labels with their dtype, in a form that JSON can hold."""
    return {"dtype": labels.dtype.str, "values": labels.tolist()}


def labels_from_json(stored: Mapping[str, Any]) -> np.ndarray:
    """Decode labels that ``labels_as_json`` encoded.

    Raises
    ------
    ValueError
        A label of that dtype takes more than ``WIDEST_LABEL`` bytes.
    """
    dtype = np.dtype(stored["dtype"])
    if dtype.itemsize > WIDEST_LABEL:
        raise ValueError(f"labels of type {dtype.str} take {dtype.itemsize:,} bytes each")
    return np.array(stored["values"], dtype=dtype)


def skops_io() -> ModuleType:
    """The module ``skops.io``, imported without torch and cupy.

    Importing it makes scikit-learn import all of its packages, two of which import torch and cupy.
    That takes seconds, and our models need neither.
    """
    packages = [f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "torch")]
    left_out = [name for name in packages if name not in sys.modules]
    for name in left_out:
        # Importing it then raises an ImportError, which scikit-learn handles.
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        import skops.io
    finally:
        for name in left_out:
            del sys.modules[name]
    return skops.io


def load_skops(content: bytes, trusted: Sequence[str]) -> Any:
    """Load what skops stored; no object of an untrusted type is created.

    Raises
    ------
    ValueError
        The content is damaged, or holds an object of another type.
    """
    try:
        return skops_io().loads(content, trusted=trusted)
    except DAMAGE_OF_SKOPS as error:
        raise ValueError(error_line(error)) from error
