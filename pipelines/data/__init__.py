"""Where arrays come from: data sets, folds, scaling."""

from __future__ import annotations

import os
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.data.dataset import Array, Dataset, Source
from pipelines.data.folds import make_folds, split_test, stratified_subset
from pipelines.data.images import load_digits, load_mnist_like
from pipelines.data.scaling import FittedScaling, Scaling
from pipelines.data.tables import SUFFIXES, read_raw_table
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
    "mnist": lambda data_dir: load_mnist_like("mnist", data_dir),
    "fashion-mnist": lambda data_dir: load_mnist_like("fashion-mnist", data_dir),
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
) -> Dataset:
    """Load a data set by its name or a table by its path, ready for folds.

    Parameters
    ----------
    name : a key of ``DATASETS``, or the path of a .csv, .parquet or .npz file
    data_dir : where image data sets are read from or downloaded to
    target : the table's column (or array) of labels; for tables only
    limit : take a stratified subset of so many training rows; the test set stays whole
    test_size : fraction of the rows kept for testing where the data bring no test set
    seed : decides the test split and the subset
    device : "gpu" reads tables with cudf where it is installed

    Returns
    -------
    Dataset, see there for shapes and dtypes.

    Raises
    ------
    InputError
        Anything the user can put right, in one line.
    """
    source = _load(name, data_dir, target, device)
    classes = np.unique(source.y)
    if len(classes) < 2:
        raise InputError(
            f"{opt('dataset')} must have at least two classes, {name!r} has only "
            f"{[str(label) for label in classes]}; choose another data set or another "
            f"{opt('target')}"
        )
    y = np.searchsorted(classes, source.y).astype(np.int32)
    if source.X_test is None or source.y_test is None:
        train, test = split_test(y, test_size, seed, classes)
        X_test, y_test = source.X[test], y[test]
    else:
        train = np.arange(len(y))
        X_test, y_test = source.X_test, _encode_test(source.y_test, classes)
    train = train[stratified_subset(y[train], limit, seed)]
    return Dataset(
        name=name if name in DATASETS else Path(name).name,
        X_train=np.ascontiguousarray(source.X[train]),
        y_train=y[train],
        X_test=np.ascontiguousarray(X_test),
        y_test=y_test,
        classes=classes,
        image_shape=source.image_shape,
        feature_names=source.feature_names,
        scaling=source.scaling,
    )


def _load(name: str, data_dir: str | Path, target: str | None, device: str) -> Source:
    if name in DATASETS:
        if target is not None:
            raise InputError(
                f"{opt('target')} applies to a .csv, .parquet or .npz file, {opt('dataset', name)} "
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
    table = read_raw_table(path, target, task="classification", missing="refuse", device=device)
    names = list(table.kinds.numbers)
    return Source(table.matrix(), table.y, Scaling("standardise"), feature_names=names)


def _encode_test(labels: Array, classes: Array) -> NDArray[np.int32]:
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise InputError(
            f"{opt('data_dir')}: every label of the test set must occur in training, "
            f"{str(unknown[0])!r} does not; fetch the files again"
        )
    return np.searchsorted(classes, labels).astype(np.int32)
