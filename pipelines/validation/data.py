"""What is learned from: rows of any kind, classes or numbers, with a part kept for the test."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pipelines.data import DATASETS, load_dataset
from pipelines.data.dataset import rows_of
from pipelines.data.rare import Rare, settle_rare
from pipelines.data.tables import SUFFIXES, Reading, read_frame, read_raw_table
from pipelines.errors import InputError, opt
from pipelines.validation.catalogue import CLASSES

if TYPE_CHECKING:
    from pipelines.data.tables import RawTable


@dataclass(frozen=True, eq=False)
class Learning:
    """Rows and what is to be predicted of them.

    Attributes
    ----------
    task : "classification" or "regression"
    X_train, X_test : float64 arrays of shape (n_rows, n_features), or DataFrames of a table
        with categories or missing cells
    y_train, y_test : class codes (int64), or float64; of shape (n_rows,)
    classes : labels in sorted order; empty for numbers
    groups : of the training rows, or None
    kinds : what the columns of a DataFrame are; None for arrays
    is_scaled : whether columns are of one scale as they are, as pixels
    pixels : the test rows of images as they came, uint8, or None
    lines : what is said of the data before a run
    """

    name: str
    task: str
    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray
    classes: np.ndarray
    groups: np.ndarray | None = None
    kinds: Any = None
    is_scaled: bool = False
    image_shape: tuple[int, int] | None = None
    pixels: Any = None
    table: Mapping[str, Any] | None = None
    lines: tuple[str, ...] = field(default=())

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of all rows, targets and groups."""
        import pandas as pd

        digest = hashlib.sha256(self.task.encode())
        for part in (self.X_train, self.y_train, self.X_test, self.y_test, self.groups):
            if part is None:
                continue
            if isinstance(part, pd.DataFrame):
                digest.update("\0".join(map(str, part.columns)).encode())
                part = pd.util.hash_pandas_object(part, index=False).to_numpy()
            array = np.ascontiguousarray(part)
            if array.dtype == object:
                array = np.array([str(one) for one in array])
            digest.update(f"{array.dtype.str} {array.shape};".encode())
            digest.update(array.view(np.uint8).data)
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """What a run records about its data; every value can be written as JSON."""
        return {
            "name": self.name,
            "task": self.task,
            "n_train": len(self.y_train),
            "n_test": len(self.y_test),
            "n_features": int(np.shape(self.X_train)[1]),
            "n_classes": len(self.classes) if self.task == CLASSES else None,
            "classes": [str(label) for label in self.classes],
            "image_shape": list(self.image_shape) if self.image_shape else None,
            "fingerprint": self.fingerprint,
            **({} if self.table is None else {"table": dict(self.table)}),
        }


def load_learning(
    name: str, *, data_dir: str = "data", target: str | None = None, task: str | None = None,
    limit: int | None = None, test_size: float = 0.2, seed: int = 0, groups: str | None = None,
    in_order: bool = False, reading: Reading | None = None, rare: Rare = "refuse",
    n_folds: int = 1,
) -> Learning:  # fmt: skip
    """Load a data set by its name or a table by its path.

    Parameters
    ----------
    groups : column of groups; then no group is in both the training and the test rows
    in_order : rows are in the order of time; then the last ones are the test rows

    Others are those of ``pipelines.data.load_dataset``.

    Raises
    ------
    InputError
        Anything that can be put right, in one line.
    """
    path = Path(name).expanduser()
    if name in DATASETS or path.suffix.lower() not in SUFFIXES:
        if groups is not None or task not in (None, CLASSES):
            raise InputError(
                f"{opt('groups') if groups else opt('task')} is for a table of your own, got "
                f"{opt('dataset', name)}; leave it out"
            )
        return _images(name, data_dir, target, limit, test_size, seed)
    reading = reading or Reading()
    if groups is not None:
        reading = replace(reading, leave_out=(*reading.leave_out, groups))
    table = read_raw_table(path, target, task=cast(Any, task), **asdict(reading))
    found, lines = _column(path, groups, reading, len(table.y)), list(table.lines())
    if table.task == CLASSES and found is None and not in_order:
        kept, labels, line = settle_rare(table.y, n_folds, test_size, rare)
        table = replace(table, X=rows_of(table.X, kept).reset_index(drop=True), y=labels[kept])
        lines += [line] if line else []
    learning = _split(table, found, limit, test_size, seed, in_order)
    return replace(learning, lines=tuple(lines))


def _images(
    name: str, data_dir: str, target: str | None, limit: int | None, test_size: float, seed: int
) -> Learning:
    found = load_dataset(
        name, data_dir=data_dir, target=target, limit=limit, test_size=test_size, seed=seed
    )
    scaling = found.scaling.fit(found.X_train)
    X_train, X_test = (
        np.asarray(scaling.transform(rows), np.float64) for rows in (found.X_train, found.X_test)
    )
    return Learning(
        found.name, CLASSES, X_train, found.y_train.astype(np.int64), X_test,
        found.y_test.astype(np.int64), found.classes, is_scaled=True,
        image_shape=found.image_shape, pixels=found.X_test,
    )  # fmt: skip


def _column(path: Path, name: str | None, reading: Reading, n_rows: int) -> np.ndarray | None:
    """A column of a file as it stands there."""
    if name is None:
        return None
    frame, _ = read_frame(path, header=reading.first_line_names)
    if name not in frame.columns:
        raise InputError(
            f"{opt('groups')} must be the name of a column of '{path}', got {name!r}; check it"
        )
    values = frame[name]
    if values.isna().any() or len(values) != n_rows:
        raise InputError(
            f"{opt('groups')} must have a value in every row, column {name!r} of '{path}' lacks "
            f"some; fill them in"
        )
    found: np.ndarray = np.unique(values.astype(str).to_numpy(), return_inverse=True)[1]
    return found


def _split(
    table: RawTable, groups: np.ndarray | None, limit: int | None, test_size: float, seed: int,
    in_order: bool,
) -> Learning:  # fmt: skip
    """The test rows as the folds will be: whole groups, what is to come, classes in proportion."""
    from pipelines.data.folds import split_test, stratified_subset

    X: Any = table.matrix() if table.is_plain else table.X
    classes, y = np.empty(0), np.asarray(table.y)
    if table.task == CLASSES:
        classes, y = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise InputError(
                f"{opt('target')} must have at least two classes, {table.target!r} has one; name "
                f"another column, or say {opt('task', 'regression')}"
            )
        y = y.astype(np.int64)
    n_rows, n_test = len(y), max(1, round(test_size * len(y)))
    order = np.arange(n_rows)
    if in_order:
        train, test = order[:-n_test], order[-n_test:]
    elif groups is not None:
        from sklearn.model_selection import GroupShuffleSplit

        if len(np.unique(groups)) < 2:
            raise InputError(
                f"{opt('groups')} must have at least two groups, got one; name another column"
            )
        splitter = GroupShuffleSplit(1, test_size=test_size, random_state=seed)
        ((train, test),) = splitter.split(order, y, groups)
    elif table.task == CLASSES:
        train, test = split_test(y, test_size, seed, classes)
    else:
        mixed = np.random.default_rng(seed).permutation(n_rows)
        train, test = mixed[n_test:], mixed[:n_test]
    if limit is not None and limit < len(train):
        if in_order:
            train = train[-limit:]
        elif table.task == CLASSES:
            train = train[stratified_subset(y[train], limit, seed)]
        else:
            train = train[:limit]
    if len(train) < 2:
        raise InputError(
            f"{opt('dataset')} must have at least two training rows, {table.name} has "
            f"{len(train)}; add rows"
        )
    return Learning(
        table.name, table.task, _rows(X, train), y[train], _rows(X, test), y[test], classes,
        groups=None if groups is None else groups[train],
        kinds=None if table.is_plain else table.kinds, table=table.describe(),
    )  # fmt: skip


def _rows(X: Any, rows: np.ndarray) -> Any:
    some = rows_of(X, rows)
    return some.reset_index(drop=True) if hasattr(X, "iloc") else np.ascontiguousarray(some)
