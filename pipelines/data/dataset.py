"""What the rest of the program calls a data set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.data.scaling import Scaling

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Source:
    """Rows and labels as a loader found them, before splitting and encoding.

    A source with its own test set fills ``X_test`` and ``y_test``; any other is split later.
    """

    X: Array
    y: Array
    scaling: Scaling
    X_test: Array | None = None
    y_test: Array | None = None
    image_shape: tuple[int, int] | None = None
    feature_names: list[str] | None = None


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test arrays on the host, unscaled, with what is needed to read them.

    Attributes
    ----------
    X_train : uint8 (images) or float64 (tables) of shape (n_train, n_features), C-contiguous
    y_train : int32 of shape (n_train,), class codes 0 .. n_classes - 1
    X_test : as X_train, of shape (n_test, n_features)
    y_test : int32 of shape (n_test,)
    classes : labels in sorted order, of shape (n_classes,); ``classes[code]`` is the label
    image_shape : (height, width) in pixels, or None for a table
    feature_names : the table's columns, or None for images
    scaling : how features are to be brought to a common range
    """

    name: str
    X_train: Array
    y_train: NDArray[np.int32]
    X_test: Array
    y_test: NDArray[np.int32]
    classes: Array
    image_shape: tuple[int, int] | None
    feature_names: list[str] | None
    scaling: Scaling

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of the five arrays with their dtypes and shapes."""
        digest = hashlib.sha256()
        for array in (self.X_train, self.y_train, self.X_test, self.y_test, self.classes):
            digest.update(f"{array.dtype.str} {array.shape};".encode())
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """What a run records about its data; every value can be written as JSON."""
        return {
            "name": self.name,
            "n_train": len(self.y_train),
            "n_test": len(self.y_test),
            "n_features": self.X_train.shape[1],
            "n_classes": self.n_classes,
            "classes": [str(label) for label in self.classes],
            "image_shape": list(self.image_shape) if self.image_shape else None,
            "scaling": self.scaling.describe(),
            "fingerprint": self.fingerprint,
        }
