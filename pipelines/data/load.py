"""A data set by its name or path, with its test rows split off, ready for folds."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path

import numpy as np

from pipelines.data.dataset import (
    CLASSIFICATION,
    REGRESSION,
    Array,
    Dataset,
    LoadedRows,
    Task,
    take_rows,
)
from pipelines.data.folds import Rare, merge_or_drop, split_test, stratified_subset
from pipelines.data.image_folder import ImageReading, load_folder
from pipelines.data.images import TORCHVISION, load_digits, load_torchvision
from pipelines.data.preparation import Preparation
from pipelines.data.scaling import Scaling
from pipelines.data.stream.streamed_rows import Input, RowsOnDisk
from pipelines.data.stream.tables import open_table
from pipelines.data.tables import SUFFIXES, Reading, read_raw_table
from pipelines.errors import InputError, opt

# Name on the command line -> loader, called with --data-dir.
DATASETS: dict[str, Callable[[str | Path], LoadedRows]] = {
    "digits": lambda data_dir: load_digits(),
    **{name: partial(load_torchvision, name) for name in TORCHVISION},
}


def load_dataset(
    name: str,
    *,
    data_dir: str | Path = "data",
    target: str | None = None,
    limit: int | None = None,
    test_size: float = 0.2,
    seed: int = 0,
    reading: Reading | None = None,
    rare: Rare = "refuse",
    n_folds: int = 1,
    task: Task | None = CLASSIFICATION,
    groups: str | None = None,
    in_order: bool = False,
    images: ImageReading | None = None,
    show_progress: bool = False,
    features: str | Path | None = None,
    input: Input = "memory",
) -> Dataset:
    """Load a data set by its name, or a table or a folder of images by its path.

    Parameters
    ----------
    name : str
        A key of ``DATASETS``, the path of a file whose suffix is in ``SUFFIXES``, or the path of a
        folder with a subfolder of images for each class.
    data_dir : str or Path
        Where image data sets are read from or downloaded to.
    target : str, optional
        Column (or array) of labels of a table, by name or number.
    limit : int, optional
        Size of a stratified subset of the training rows; the test set stays whole.
    test_size : float
        Fraction of the rows held out for testing if the data set has no test set.
    seed : int
        Seed of the test split and of the subset.
    reading : Reading, optional
        How a table should be read where that should not be detected.
    rare, n_folds : str, int
        What happens to classes that are too rare for the test set and this number of folds; see
        ``merge_or_drop``.
    task : {"classification", "regression"} or None
        What is predicted; None decides by the values of the target.
    groups : str, optional
        Column of a table whose equal values stay together: no group is in both the training and the
        test rows.
    in_order : bool
        Whether rows are in order of time; then the last ones are the test rows.
    images : ImageReading, optional
        How the images of a folder should be read.
    show_progress : bool
        Draw a bar on a terminal while images are decoded.
    features : str or Path, optional
        An .npy file with a row of numbers for each image, training images first, which replaces
        their pixels.
    input : {"memory", "stream", "auto"}
        "memory" loads all rows; "stream" leaves the rows of a folder of images or of a Parquet
        table on disk, as ``RowsOnDisk``; "auto" does so if they are larger than half of the memory.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        The data, or an option, do not allow this; the message says in one line what to do.
    """
    reading, images = reading or Reading(), images or ImageReading()
    source = _load(name, data_dir, target, reading, task, groups, images, show_progress, input)
    labels, classes = source.y, np.empty(0)
    rows = np.arange(len(labels))
    lines = list(source.table.lines() if source.table else source.lines)
    if source.task == CLASSIFICATION:
        classes = np.unique(labels)
        if len(classes) < 2:
            raise InputError(
                f"{opt('dataset')} must have at least two classes, {name!r} has only "
                f"{[str(label) for label in classes]}; choose another data set or another "
                f"{opt('target')}"
            )

    def encoded(labels: Array) -> Array:
        """Class codes of labels; the numbers of a regression as they are."""
        if source.task == REGRESSION:
            return np.asarray(labels, np.float64)
        return np.searchsorted(classes, labels).astype(np.int32)

    if source.X_test is None or source.y_test is None:
        stratified = source.task == CLASSIFICATION and source.groups is None and not in_order
        if stratified and 0 < test_size < 1:
            is_kept, labels, line = merge_or_drop(labels, n_folds, test_size, rare)
            rows, labels, classes = rows[is_kept], labels[is_kept], np.unique(labels[is_kept])
            lines += [line] if line else []
        y = encoded(labels)
        # The test set is drawn as the folds will be: whole groups, the last rows, or stratified.
        n_test, order = max(1, round(test_size * len(y))), np.arange(len(y))
        if in_order:
            train, test = order[:-n_test], order[-n_test:]
        elif source.groups is not None:
            from sklearn.model_selection import GroupShuffleSplit

            if len(np.unique(source.groups)) < 2:
                raise InputError(
                    f"{opt('groups')} must have at least two groups, got one; name another column"
                )
            splitter = GroupShuffleSplit(1, test_size=test_size, random_state=seed)
            ((train, test),) = splitter.split(order, y, source.groups)
        elif source.task == CLASSIFICATION:
            train, test = split_test(y, test_size, seed, classes)
        else:
            shuffled_rows = np.random.default_rng(seed).permutation(len(y))
            train, test = shuffled_rows[n_test:], shuffled_rows[:n_test]
        if len(train) < 2:
            raise InputError(
                f"{opt('dataset')} must have at least two training rows, it has {len(train)}; add "
                "rows"
            )
        X_test, y_test, test = take_rows(source.X, rows[test]), y[test], rows[test]
    else:
        y = encoded(labels)
        train = np.arange(len(y))
        X_test, test = source.X_test, len(labels) + np.arange(len(source.y_test))
        unknown_labels = np.setdiff1d(source.y_test, classes)
        if len(unknown_labels):
            raise InputError(
                f"{opt('data_dir')}: every label of the test set must occur in training, "
                f"{str(unknown_labels[0])!r} does not; fetch the files again"
            )
        y_test = encoded(source.y_test)
    if source.task == CLASSIFICATION and not in_order:
        train = train[stratified_subset(y[train], limit, seed)]
    elif limit is not None:  # the latest rows of a series in time
        train = train[-limit:] if in_order else train[:limit]
    X_train, scaling = take_rows(source.X, rows[train]), source.scaling
    if isinstance(scaling, Preparation):
        X_train, X_test = (frame.reset_index(drop=True) for frame in (X_train, X_test))
        layout = tuple(scaling.fit(X_train).get_feature_names_out().tolist())
        scaling = replace(scaling, layout=layout)
    elif not isinstance(X_train, RowsOnDisk):
        X_train, X_test = np.ascontiguousarray(X_train), np.ascontiguousarray(X_test)
    dataset = Dataset(
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
        task=source.task,
        groups=None if source.groups is None else source.groups[train],
        ink=source.ink,
        folder=source.folder,
        notes=source.notes,
    )
    if features is None:
        return dataset
    if dataset.image_shape is None:
        raise InputError(f"{opt('features')} are of images, {name!r} has none; leave it out")
    try:
        matrix = np.load(features, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"{opt('features')} must be an .npy file that can be read, '{features}' cannot "
            f"({getattr(error, 'strerror', None) or error}); write it with numpy.save"
        ) from None
    n_images = len(source.y) + (0 if source.y_test is None else len(source.y_test))
    is_numbers = matrix.dtype.kind in "biuf" and matrix.ndim == 2 and len(matrix) == n_images
    if not is_numbers or not np.isfinite(matrix).all():
        raise InputError(
            f"{opt('features')} must hold a row of finite numbers for each of {n_images:,} images, "
            f"those of training first, '{features}' holds {matrix.dtype} of shape {matrix.shape}; "
            "write them in the order of the data set"
        )
    matrix = np.ascontiguousarray(matrix, np.float64)
    return dataset.with_features(matrix[rows[train]], matrix[test], Scaling("standardise"))


def _load(
    name: str,
    data_dir: str | Path,
    target: str | None,
    reading: Reading,
    task: Task | None,
    groups: str | None,
    images: ImageReading,
    show_progress: bool,
    input: Input,
) -> LoadedRows:
    """Load rows and labels from wherever ``name`` says they are; see ``load_dataset``."""
    path = Path(os.path.expanduser(name))
    if name not in DATASETS and (rows := open_table(path, target, task, reading, input)):
        _refuse_set(images, "a folder of images", name)
        return LoadedRows(rows.X, rows.y, Scaling("none"), table=rows, notes=rows.conversions)
    is_folder = bool(name) and name not in DATASETS and path.is_dir()
    if not is_folder:
        _refuse_set(images, "a folder of images", name)
    if name in DATASETS or is_folder:
        _refuse_set(reading, "a table of your own", name)
        if groups is not None or task == REGRESSION:
            raise InputError(
                f"{opt('groups') if groups else opt('task')} is for a table of your own, got "
                f"{opt('dataset', name)}; leave it out"
            )
        if target is not None:
            raise InputError(
                f"{opt('target')} applies to a table of your own, {opt('dataset', name)} "
                f"has its own labels, got {target!r}; leave it out"
            )
        if is_folder:
            return load_folder(path, data_dir, images, show_progress=show_progress, input=input)
        if input != "memory":
            refuse_unstreamed(path, input)
        return DATASETS[name](data_dir)
    if path.suffix.lower() not in SUFFIXES and path.name == name and not os.path.isfile(path):
        close_names = get_close_matches(name.lower(), DATASETS, n=1)
        hint = f"; did you mean {close_names[0]!r}?" if close_names else "; check the spelling"
        raise InputError(
            f"{opt('dataset')} must be one of {', '.join(DATASETS)}, a folder of images or the "
            f"path of a {', '.join(SUFFIXES)} file, got {name!r}{hint}"
        )
    if input != "memory":
        refuse_unstreamed(path, input)
    table = read_raw_table(path, target, task=task, groups=groups, **asdict(reading))
    return LoadedRows(
        table.matrix() if table.is_plain else table.X,
        table.y,
        Scaling("standardise") if table.is_plain else Preparation(table.kinds, table.missing),
        feature_names=[*table.kinds.numbers, *table.kinds.categories],
        table=table,
        groups=table.groups,
        notes=table.conversions,
    )


def refuse_unstreamed(path: Path, input: Input) -> None:
    """Raise InputError for data that have to be streamed, if their form does not allow it."""
    import psutil

    if input == "stream" and path.suffix.lower() != ".parquet":
        raise InputError(
            f"{opt('input', 'stream')} is for a folder of images or a .parquet table, got "
            f"{opt('dataset', path)}; leave it out, or write the table as Parquet"
        )
    n_bytes, total = path.stat().st_size if path.is_file() else 0, psutil.virtual_memory().total
    if n_bytes > total // 2 and path.suffix.lower() != ".parquet":
        raise InputError(
            f"{opt('dataset')} must be .parquet where it is larger than half of the memory, "
            f"'{path}' has {n_bytes / 2**30:.1f} GiB of {total / 2**30:.1f}; write it as Parquet"
        )


def _refuse_set(options: ImageReading | Reading, data_type: str, name: str) -> None:
    """Raise InputError if an option is set that applies to another type of data."""
    defaults = asdict(type(options)())
    for key, value in asdict(options).items():
        if value != defaults[key]:
            raise InputError(
                f"{opt('image_size' if key == 'size' else key)} is for {data_type}, got "
                f"{opt('dataset', name)}; leave it out"
            )
