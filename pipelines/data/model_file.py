"""A model's file: safetensors, numbers and text, or skops's; reading it runs no code."""

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

# What reading damaged or foreign content raises, beside SafetensorError.
DAMAGE = (OSError, KeyError, TypeError, ValueError, AttributeError, OverflowError)
# And what skops lets through of zipfile, of numpy's headers and of modules that are missing.
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

# A type of text may claim any width, and an array of it takes that for every label.
WIDEST_LABEL = 1 << 20


def write_model(path: Path, arrays: Arrays, about: Mapping[str, Any]) -> None:
    """Write arrays by name, and metadata that JSON can hold."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    metadata = {name: json.dumps(value, default=np.generic.item) for name, value in about.items()}
    try:
        save_file(contiguous, path, metadata=metadata)
        umask = os.umask(0o077)  # it cannot be asked for otherwise
        os.umask(umask)
        path.chmod(0o666 & ~umask)  # safetensors leaves it to its owner alone
    except SafetensorError as error:  # what it makes of a full disk or a missing folder
        raise OSError(f"{path} cannot be written: {error}") from None


def read_model(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Read what ``write_model`` wrote.

    Raises
    ------
    ValueError
        It is no such file.
    OSError
        It cannot be read.
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
    """Load and validate a model file, and build the model by ``make(arrays, metadata)``."""
    try:
        return make(*read_model(path))
    except DAMAGE as error:
        raise InputError(f"{path} must be {is_to_be}: {error}; {way_out}") from None


def labels_as_json(labels: np.ndarray) -> dict[str, Any]:
    """Return labels with their dtype."""
    return {"dtype": labels.dtype.str, "values": labels.tolist()}


def labels_from_json(stored: Mapping[str, Any]) -> np.ndarray:
    """Decode labels that ``labels_as_json`` encoded.

    Raises
    ------
    ValueError
        A label of that type takes more than ``WIDEST_LABEL`` bytes.
    """
    dtype = np.dtype(stored["dtype"])
    if dtype.itemsize > WIDEST_LABEL:
        raise ValueError(f"labels of type {dtype.str} take {dtype.itemsize:,} bytes each")
    return np.array(stored["values"], dtype=dtype)


def skops_io() -> ModuleType:
    """Return ``skops.io``, imported without torch and cupy.

    It has scikit-learn import all of its packages, and two of them import these, which takes
    seconds and serves none of our models.
    """
    packages = [f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "torch")]
    left_out = [name for name in packages if name not in sys.modules]
    for name in left_out:
        sys.modules[name] = None  # type: ignore[assignment]  # an ImportError, which is passed over
    try:
        import skops.io
    finally:
        for name in left_out:
            del sys.modules[name]
    return skops.io


def load_skops(content: bytes, trusted: Sequence[str]) -> Any:
    """Load what skops stored; nothing is made of a type that is not trusted.

    Raises
    ------
    ValueError
        The content is damaged, or holds another type.
    """
    try:
        return skops_io().loads(content, trusted=trusted)
    except DAMAGE_OF_SKOPS as error:
        raise ValueError(error_line(error)) from error
