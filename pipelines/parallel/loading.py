"""Rows of a data set as a network takes them: images as bytes, tables prepared."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np

from pipelines.data import DATASETS, FittedScaling, load_dataset
from pipelines.data.dataset import rows_of
from pipelines.data.folds import Rare
from pipelines.data.image_folder import ImageReading
from pipelines.data.preparation import Preparation
from pipelines.data.tables import SUFFIXES, RawTable, Reading, read_raw_table
from pipelines.errors import InputError, opt
from pipelines.parallel.problem import CLASSES, NUMBERS, Network, Problem, Rows, held_out


def load_rows(
    name: str, network: str, hidden: tuple[int, ...], *, data_dir: str,
    task: str | None, target: str | None, limit: int | None, test_size: float,
    validation: float, seed: int, reading: Reading, rare: Rare, images: ImageReading,
    show_progress: bool,
) -> Problem:  # fmt: skip
    """Load a data set by its name, or a table of classes or numbers by its path.

    Preparation is learned from the rows that are trained on alone.

    Parameters
    ----------
    network, hidden : see ``Network``

    Others are those of ``pipelines.data.load_dataset`` and ``held_out``.

    Raises
    ------
    InputError
        Anything that can be put right, in one line.
    """
    if name in DATASETS and task == NUMBERS:
        raise InputError(
            f"{opt('task')} must be {CLASSES} for {opt('dataset', name)}, got {task}; leave it out"
        )
    if name not in DATASETS and Path(name).suffix.lower() in SUFFIXES and task != CLASSES:
        table = read_raw_table(Path(name), target, task=cast(Any, task), **asdict(reading))
        if table.task == NUMBERS:
            return _of_numbers(table, network, hidden, limit, test_size, validation, seed)
    found = load_dataset(
        name, data_dir=data_dir, target=target, limit=limit, test_size=test_size, seed=seed,
        reading=reading, rare=rare, images=images, show_progress=show_progress,
    )  # fmt: skip
    if network == "bagging" and found.image_shape is None:
        raise InputError(
            f"{opt('network')} must be mlp or your own for a table, got bagging, whose convolution "
            "needs images"
        )
    kept, held = held_out(found.y_train, CLASSES, validation, seed)
    scaling = found.scaling.fit(rows_of(found.X_train, kept))
    as_bytes = (
        isinstance(scaling, FittedScaling)
        and isinstance(scaling.center, float)
        and getattr(found.X_train, "dtype", None) == np.uint8
    )

    def rows(X: Any, y: np.ndarray) -> Rows:
        matrix = X if as_bytes else scaling.transform(X).astype(np.float32)
        return {"X": np.ascontiguousarray(matrix), "y": y.astype(np.int64)}

    train = rows(rows_of(found.X_train, kept), found.y_train[kept])
    n_inputs = train["X"].shape[1]
    center, scale = 0.0, 1.0
    if as_bytes:
        assert isinstance(scaling, FittedScaling)
        center, scale = float(scaling.center), float(scaling.scale)
    return Problem(
        found.name, CLASSES,
        Network(network, n_inputs, found.n_classes, found.image_shape, hidden, found.ink),
        train, rows(rows_of(found.X_train, held), found.y_train[held]),
        rows(found.X_test, found.y_test), center, scale, classes=found.classes,
    )  # fmt: skip


def _of_numbers(
    table: RawTable, network: str, hidden: tuple[int, ...], limit: int | None,
    test_size: float, validation: float, seed: int,
) -> Problem:  # fmt: skip
    if network == "bagging":
        raise InputError(
            f"{opt('network')} must be mlp or your own for numbers, got bagging, which tells "
            "classes apart"
        )
    y = np.asarray(table.y, float)
    train, test = held_out(y, NUMBERS, test_size, seed)
    if limit is not None:
        train = train[:limit]
    kept, held = held_out(y[train], NUMBERS, validation, seed + 1)
    kept, held = train[kept], train[held]
    prepare = Preparation(table.kinds, table.missing).fit(rows_of(table.X, kept))
    center, unit = float(y[kept].mean()), float(y[kept].std()) or 1.0

    def rows(numbers: np.ndarray) -> Rows:
        X = np.ascontiguousarray(prepare.transform(rows_of(table.X, numbers)), np.float32)
        return {"X": X, "y": ((y[numbers] - center) / unit).astype(np.float32)}

    train_rows, held_rows, test_rows = (rows(numbers) for numbers in (kept, held, test))
    inputs = Network(network, train_rows["X"].shape[1], 1, None, hidden)
    return Problem(table.name, NUMBERS, inputs, train_rows, held_rows, test_rows, unit=unit)
