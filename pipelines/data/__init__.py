"""Where arrays come from: data sets, folds, scaling."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from difflib import get_close_matches
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.data.dataset import Array, Dataset, Source, rows_of
from pipelines.data.folds import make_folds, split_test, stratified_subset
from pipelines.data.images import OPENML, load_digits, load_mnist_like
from pipelines.data.preparation import Preparation
from pipelines.data.rare import Rare, settle_rare
from pipelines.data.scaling import FittedScaling, Scaling
from pipelines.data.tables import SUFFIXES, Reading, read_raw_table
from pipelines.errors import InputError, opt

__all__ = [
    "DATASETS",
    "Dataset",
    "FittedScaling",
    "InputError",
    "Scaling",
    "load_dataset",
    "make_folds",
]

# Name on the command line -> loader, called with --data-dir.
DATASETS: dict[str, Callable[[str | Path], Source]] = {
    "digits": lambda data_dir: load_digits(),
    **{name: partial(load_mnist_like, name) for name in OPENML},
}


def load_dataset(
    name: str,
    *,
    data_dir: str | Path = "data",
    target: str | None = None,
    limit: int | None = None,
    test_size: float = 0.2,
    seed: int = 0,
    device: str = "cpu",
    reading: Reading | None = None,
    rare: Rare = "refuse",
    n_folds: int = 1,
) -> Dataset:
    """Load a data set by its name or a table by its path, ready for folds.

    Parameters
    ----------
    name : a key of ``DATASETS``, or the path of a file whose suffix is in ``SUFFIXES``
    data_dir : where image data sets are read from or downloaded to
    target : the table's column (or array) of labels, by name or number; for tables only
    limit : take a stratified subset of so many training rows; the test set stays whole
    test_size : fraction of the rows kept for testing where the data bring no test set
    seed : decides the test split and the subset
    device : "gpu" reads tables with cudf where it is installed
    reading : how a table is to be understood where it is not to be guessed
    rare, n_folds : what becomes of classes that are too rare for the test set and so many folds;
        see ``settle_rare``

    Returns
    -------
    Dataset, see there for shapes and dtypes.

    Raises
    ------
    InputError
        Anything the user can put right, in one line.
    """
    source = _load(name, data_dir, target, device, reading or Reading())
    classes = np.unique(source.y)
    if len(classes) < 2:
        raise InputError(
            f"{opt('dataset')} must have at least two classes, {name!r} has only "
            f"{[str(label) for label in classes]}; choose another data set or another "
            f"{opt('target')}"
        )
    X, labels, lines = source.X, source.y, list(source.table.lines() if source.table else ())
    if source.X_test is None or source.y_test is None:
        if 0 < test_size < 1:
            kept, labels, line = settle_rare(labels, n_folds, test_size, rare)
            X, labels, classes = rows_of(X, kept), labels[kept], np.unique(labels[kept])
            lines += [line] if line else []
        y = np.searchsorted(classes, labels).astype(np.int32)
        train, test = split_test(y, test_size, seed, classes)
        X_test, y_test = rows_of(X, test), y[test]
    else:
        y = np.searchsorted(classes, labels).astype(np.int32)
        train = np.arange(len(y))
        X_test, y_test = source.X_test, _encode_test(source.y_test, classes)
    train = train[stratified_subset(y[train], limit, seed)]
    X_train, scaling = rows_of(X, train), source.scaling
    if isinstance(scaling, Preparation):
        X_train, X_test = (one.reset_index(drop=True) for one in (X_train, X_test))
        scaling = scaling.laid_out(X_train)
    else:
        X_train, X_test = np.ascontiguousarray(X_train), np.ascontiguousarray(X_test)
    return Dataset(
        name=name if name in DATASETS else Path(name).name,
        X_train=X_train,
        y_train=y[train],
        X_test=X_test,
        y_test=y_test,
        classes=classes,
        image_shape=source.image_shape,
        feature_names=source.feature_names,
        scaling=scaling,
        table=None if source.table is None else source.table.describe(),
        lines=tuple(lines),
    )


def _load(
    name: str, data_dir: str | Path, target: str | None, device: str, reading: Reading
) -> Source:
    if name in DATASETS:
        if target is not None:
            raise InputError(
                f"{opt('target')} applies to a file of your own, {opt('dataset', name)} "
                f"has its own labels, got {target!r}; leave it out"
            )
        return DATASETS[name](data_dir)
    path = Path(os.path.expanduser(name))
    if path.suffix.lower() not in SUFFIXES and path.name == name and not os.path.isfile(path):
        near = get_close_matches(name.lower(), DATASETS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; check the spelling"
        raise InputError(
            f"{opt('dataset')} must be one of {', '.join(DATASETS)} or the path of a "
            f"{', '.join(SUFFIXES)} file, got {name!r}{hint}"
        )
    table = read_raw_table(path, target, task="classification", device=device, **asdict(reading))
    names = [*table.kinds.numbers, *table.kinds.categories]
    if table.is_plain:
        return Source(
            table.matrix(), table.y, Scaling("standardise"), feature_names=names, table=table
        )
    preparation = Preparation(table.kinds, table.missing)
    return Source(table.X, table.y, preparation, feature_names=names, table=table)


def _encode_test(labels: Array, classes: Array) -> NDArray[np.int32]:
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise InputError(
            f"{opt('data_dir')}: every label of the test set must occur in training, "
            f"{str(unknown[0])!r} does not; fetch the files again"
        )
    return np.searchsorted(classes, labels).astype(np.int32)
