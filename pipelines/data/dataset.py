"""The ``Dataset`` class: training and test arrays with their labels and metadata."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.data.preparation import Preparation
from pipelines.data.scaling import Scaling

Array = NDArray[Any]
Task = Literal["classification", "regression"]
ImageShape = tuple[int, ...]  # (height, width) of gray images, (channels, height, width) of colour
ROWS_LOOKED_AT = 2000  # of images, whose pixels vary alike everywhere
CLASSIFICATION: Task = "classification"
REGRESSION: Task = "regression"

if TYPE_CHECKING:
    from pipelines.data.tables import RawTable


def channels_height_width(shape: ImageShape) -> tuple[int, int, int]:
    """Return the three lengths of an ``image_shape``; a gray image has one channel."""
    channels, height, width = (1, *shape) if len(shape) == 2 else shape
    return channels, height, width


def take_rows(X: Any, rows: Any) -> Any:
    """Return rows, by number or slice, of an array or a DataFrame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def by_name(X: Any, columns: Sequence[str]) -> Any:
    """Return a DataFrame's columns of these names, in their order; of all else X as it is.

    Raises
    ------
    ValueError
        It lacks one.
    """
    has_names = columns and all(isinstance(name, str) for name in getattr(X, "columns", [0]))
    if not has_names:
        return X
    if missing_columns := [name for name in columns if name not in X.columns]:
        raise ValueError(
            f"X must have the columns {', '.join(missing_columns)}, and has none of that name"
        )
    return X[[*columns]]


def copy_of(X: Any) -> Any:
    """Return rows in memory of their own, for code that may write to what it is given."""
    if isinstance(X, np.ndarray):
        return X.copy(order="K")
    return X.copy() if hasattr(X, "copy") else copy.deepcopy(X)


def read_only(X: Any) -> Any:
    """Return rows that cannot be written to: of an array a view, of anything else a copy."""
    if not isinstance(X, np.ndarray):
        return copy_of(X)
    view = X.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True)
class ImageFolder:
    """What is kept of a folder of images.

    Attributes
    ----------
    decoded : folder of the decoded training images
    white : the value that became 255 in images of more than 8 bits, by what their values are
    """

    decoded: Path
    white: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class LoadedRows:
    """Rows and labels as a loader found them, before splitting and encoding.

    A source with its own test set fills ``X_test`` and ``y_test``; any other is split later.
    """

    X: Any
    y: Array
    scaling: Scaling | Preparation
    X_test: Array | None = None
    y_test: Array | None = None
    image_shape: ImageShape | None = None
    feature_names: list[str] | None = None
    ink: bool = False
    table: RawTable | None = None
    lines: tuple[str, ...] = ()
    groups: Array | None = None
    folder: ImageFolder | None = None
    notes: tuple[str, ...] = ()

    @property
    def task(self) -> Task:
        """The learning task: classification or regression."""
        return self.table.task if self.table else CLASSIFICATION


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test arrays on the host, unscaled, with what is needed to read them.

    Attributes
    ----------
    X_train : uint8 (images) or float64 (tables) of shape (n_train, n_features), C-contiguous;
        a DataFrame, see ``RawTable.X``, of a table with categories or missing cells
    y_train : int32 of shape (n_train,), class codes 0 .. n_classes - 1; float64 of a regression
    X_test : as X_train, of shape (n_test, n_features)
    y_test : as y_train, of shape (n_test,)
    classes : labels in sorted order, of shape (n_classes,); ``classes[code]`` is the label; none
        of a regression
    image_shape : (height, width) of gray images, (channels, height, width) of coloured ones, None
        of a table; a row of X is an image of this shape, flattened
    feature_names : the table's columns, or None for images
    scaling : how features are to be brought to a common range
    table : what a file's table was understood to be, for ``run.json``; None for images
    lines : what is said of that before a run
    task : "classification" or "regression"
    groups : of the training rows, or None
    ink : whether images are drawn on an even ground, such as digits, and no photographs
    pictures : the images whose features the rows are, where they are; ``image_shape`` is then None
    folder : what is kept of a folder of images; None of other data
    notes : what was left out, converted or may be wrong, of ``lines``
    """

    name: str
    X_train: Any
    y_train: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    classes: Array
    image_shape: ImageShape | None
    feature_names: list[str] | None
    scaling: Scaling | Preparation
    table: Mapping[str, Any] | None = None
    lines: tuple[str, ...] = ()
    task: Task = CLASSIFICATION
    groups: Array | None = None
    ink: bool = False
    pictures: Dataset | None = None
    folder: ImageFolder | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def with_features(self, train: Array, test: Array, scaling: Scaling) -> Dataset:
        """Return features of these images as rows, in the order of the images."""
        return replace(
            self, X_train=train, X_test=test, scaling=scaling, image_shape=None, pictures=self
        )

    @property
    def n_inputs(self) -> int:
        """Columns of the matrix that a solver is given."""
        layout = getattr(self.scaling, "layout", None)
        return len(layout) if layout else self.X_train.shape[1]

    @property
    def variance(self) -> float:
        """Variance of all columns that a solver is given, together.

        It is their number where they are standardised; levels of categories are 0 or 1. Of images
        and their features it is that of the first ``ROWS_LOOKED_AT``.
        """
        if self.scaling.kind == "standardise":
            return float(self.X_train.shape[1])
        rows: Any = self.X_train
        rows = rows[:ROWS_LOOKED_AT] if isinstance(rows, np.ndarray) else rows
        matrix = self.scaling.fit(rows).transform(rows)
        return max(1.0, float(matrix.var(axis=0, dtype=np.float64).sum()))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of all arrays with their dtypes and shapes, and of a table's columns."""
        digest = hashlib.sha256("\0".join(self.feature_names or ()).encode())
        parts = [self.X_train, self.y_train, self.X_test, self.y_test, self.classes]
        for part in parts if self.groups is None else [*parts, self.groups]:
            columns = [part]
            if not isinstance(part, np.ndarray):
                columns = [part[name].to_numpy() for name in part.columns]
            for array in columns:
                if array.dtype == object:  # text, in UTF-8
                    array = np.frombuffer("\0".join(map(str, array)).encode(), np.uint8)
                digest.update(f"{array.dtype.str} {array.shape};".encode())
                digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """Return the JSON-serialisable metadata that a run records about its data."""
        shape = (self.pictures or self).image_shape
        return {
            "name": self.name,
            "task": self.task,
            "n_train": len(self.y_train),
            "n_test": len(self.y_test),
            "n_features": self.X_train.shape[1],
            "n_classes": self.n_classes if self.task == CLASSIFICATION else None,
            "classes": [str(label) for label in self.classes],
            "image_shape": list(shape) if shape else None,
            "scaling": self.scaling.describe(),
            "fingerprint": self.fingerprint,
            **({} if self.table is None else {"table": dict(self.table)}),
            **({"notes": list(self.notes)} if self.notes else {}),
        }
