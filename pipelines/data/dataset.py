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
ImageShape = tuple[int, ...]  # (height, width) of grey images, (channels, height, width) of colour
ROWS_LOOKED_AT = 2000  # rows used for a variance: the pixels of any images vary alike
CLASSIFICATION: Task = "classification"
REGRESSION: Task = "regression"

if TYPE_CHECKING:
    from pipelines.data.tables import RawTable


def channels_height_width(shape: ImageShape) -> tuple[int, int, int]:
    """The lengths of an ``image_shape`` as three numbers; a grey image has one channel."""
    channels, height, width = (1, *shape) if len(shape) == 2 else shape
    return channels, height, width


def take_rows(X: Any, rows: Any) -> Any:
    """Rows of an array or a DataFrame, by number or slice."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def by_name(X: Any, columns: Sequence[str]) -> Any:
    """The columns of a DataFrame with these names, in this order; any other X unchanged.

    Raises
    ------
    ValueError
        The DataFrame lacks a column.
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
    """A copy of rows, for code that may write to its argument."""
    if isinstance(X, np.ndarray):
        return X.copy(order="K")
    return X.copy() if hasattr(X, "copy") else copy.deepcopy(X)


def read_only(X: Any) -> Any:
    """Rows that cannot be written to: a view of an array, a copy of anything else."""
    if not isinstance(X, np.ndarray):
        return copy_of(X)
    view = X.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True)
class ImageFolder:
    """What a data set remembers of the folder of images that it was read from.

    Attributes
    ----------
    decoded : Path
        Folder of the decoded training images.
    white : mapping of str to float
        For images of more than 8 bits, the value that became 255, by depth.
    """

    decoded: Path
    white: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class LoadedRows:
    """Rows and labels as a loader found them, before splitting and encoding.

    A data set with a test set of its own fills ``X_test`` and ``y_test``; any other is split later.
    The other fields become fields of ``Dataset``.
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
    """Training and test arrays on the host, unscaled, with what is needed to interpret them.

    Attributes
    ----------
    X_train : array of shape (n_train, n_features), or DataFrame
        uint8 (images) or float64 (tables), C-contiguous. A DataFrame like ``RawTable.X`` for a
        table with categories or missing cells; ``RowsOnDisk`` for rows that stay on disk.
    y_train : array of shape (n_train,)
        int32 class codes 0 .. n_classes - 1, or float64 for a regression.
    X_test : array of shape (n_test, n_features)
        As ``X_train``.
    y_test : array of shape (n_test,)
        As ``y_train``.
    classes : array of shape (n_classes,)
        Labels in sorted order: ``classes[code]`` is the label of a code. Empty for a regression.
    image_shape : tuple of int or None
        (height, width) of grey images, (channels, height, width) of coloured ones, None for a
        table. A row of X is an image of this shape, flattened.
    feature_names : list of str or None
        The columns of a table; None for images.
    scaling : Scaling or Preparation
        How features are brought to a common range.
    table : mapping or None
        How a file was interpreted, for ``run.json``; None for images.
    lines : tuple of str
        Lines about the data that the console shows before a run.
    task : str
        "classification" or "regression".
    groups : array of shape (n_train,) or None
        Group of each training row, for cross-validation by groups.
    ink : bool
        Whether images are drawings on a plain background, such as digits, rather than photographs.
    pictures : Dataset or None
        The images from which the features in the rows were extracted; ``image_shape`` is then None.
    folder : ImageFolder or None
        The folder that images were read from.
    notes : tuple of str
        The entries of ``lines`` about what was left out or converted, or may be wrong.
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
        """Number of classes; 0 for a regression."""
        return len(self.classes)

    def with_features(self, train: Array, test: Array, scaling: Scaling) -> Dataset:
        """The same data set with features of its images as rows, in the same order."""
        return replace(
            self, X_train=train, X_test=test, scaling=scaling, image_shape=None, pictures=self
        )

    @property
    def n_inputs(self) -> int:
        """Number of columns of the matrix that a solver receives."""
        layout = getattr(self.scaling, "layout", None)
        return len(layout) if layout else self.X_train.shape[1]

    @property
    def variance(self) -> float:
        """Sum of the variances of all columns of the matrix that a solver receives.

        Standardised columns have a variance of 1 each, so the sum is their number. Otherwise it is
        computed: for a table from all rows, for images from the first ``ROWS_LOOKED_AT``.
        """
        if self.scaling.kind == "standardise":
            return float(self.X_train.shape[1])
        rows: Any = self.X_train
        rows = rows[:ROWS_LOOKED_AT] if isinstance(rows, np.ndarray) else rows
        matrix = self.scaling.fit(rows).transform(rows)
        return max(1.0, float(matrix.var(axis=0, dtype=np.float64).sum()))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of all arrays with their dtypes and shapes, and of the column names."""
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
        """The JSON-serialisable metadata that a run records about its data."""
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
