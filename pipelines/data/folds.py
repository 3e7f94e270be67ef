"""Choose rows by class: folds, a test set, a smaller training set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.data import stratified
from pipelines.errors import InputError, opt

Rows = NDArray[np.int32]


def make_folds(
    y: NDArray[Any], n_folds: int, seed: int, classes: NDArray[Any] | None = None
) -> list[tuple[Rows, Rows]]:
    """Return shuffled stratified folds, those of ``StratifiedKFold(n_folds, shuffle=True)``.

    Parameters
    ----------
    y : class codes of shape (n_samples,)
    n_folds : at least 2, at most the rows of the rarest class
    seed : equal seeds give equal folds
    classes : labels of shape (n_classes,), to name a class in an error

    Returns
    -------
    For each fold its training and its validation rows, int32, both in ascending order.

    Raises
    ------
    InputError
        Too few folds, or a class with fewer rows than folds.
    """
    if n_folds < 2:
        raise InputError(f"{opt('folds')} must be at least 2, got {n_folds}")
    codes, counts = np.unique(y, return_counts=True)
    rarest = int(np.argmin(counts))
    if counts[rarest] < n_folds:
        label = codes[rarest] if classes is None else classes[codes[rarest]]
        fewer = f"use {opt('folds', counts[rarest])} or fewer, " if counts[rarest] >= 2 else ""
        raise InputError(
            f"{opt('folds')} must not exceed the training rows of any class, got {n_folds}, but "
            "class "
            f"{str(label)!r} has {counts[rarest]}; {fewer}add rows (a larger {opt('limit')}) or "
            f"drop the class"
        )
    fold_of = stratified.folds(y, n_folds, seed)
    return [
        (
            np.flatnonzero(fold_of != k).astype(np.int32),
            np.flatnonzero(fold_of == k).astype(np.int32),
        )
        for k in range(n_folds)
    ]


def split_test(
    y: NDArray[Any], test_size: float, seed: int, classes: NDArray[Any]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return training and test rows, those of scikit-learn's stratified ``train_test_split``.

    Parameters
    ----------
    y : class codes of shape (n_samples,)
    test_size : fraction of the rows, between 0 and 1
    classes : labels of shape (n_classes,), to name a class in an error

    Raises
    ------
    InputError
        A fraction out of bounds, or one that leaves a class without a training row.
    """
    if not 0 < test_size < 1:
        raise InputError(
            f"{opt('test_size')} must lie between 0 and 1, got {test_size}; 0.2 is usual"
        )
    counts = np.bincount(y, minlength=len(classes))
    if counts.min() < 2:
        raise InputError(
            f"{opt('test_size')} needs at least two rows of every class, class "
            f"{str(classes[counts.argmin()])!r} has {counts.min()}; add rows or drop the class"
        )
    n_test = int(np.ceil(test_size * len(y)))
    smaller = min(n_test, len(y) - n_test)
    if smaller < len(classes):
        raise InputError(
            f"{opt('test_size')} must leave at least one row per class on both sides, got "
            f"{test_size}: {smaller} of {len(y)} rows on one side for {len(classes)} classes; "
            f"choose it nearer to 0.5 or add rows"
        )
    train, test = stratified.split(y, n_test, seed)
    lost = np.setdiff1d(y, y[train])
    if len(lost):
        raise InputError(
            f"{opt('test_size')} must leave every class a training row, got {test_size}, which "
            f"leaves none of class {str(classes[lost[0]])!r}; choose it smaller or drop the class"
        )
    return train, test


def stratified_subset(y: NDArray[Any], limit: int | None, seed: int) -> NDArray[np.intp]:
    """Draw at most ``limit`` rows, each class in proportion and with at least one row.

    Parameters
    ----------
    y : class codes 0 .. n_classes - 1 of shape (n_samples,), each of them present
    limit : number of rows; None, or a number not below n_samples, takes all
    seed : equal seeds give equal rows

    Returns
    -------
    Rows in ascending order.

    Raises
    ------
    InputError
        ``limit`` is smaller than the number of classes.
    """
    counts = np.bincount(y)
    if limit is not None and limit < len(counts):
        raise InputError(
            f"{opt('limit')} must be at least {len(counts)}, one row for each class, got {limit}; "
            f"raise it or leave it out to take all {len(y)} training rows"
        )
    if limit is None or limit >= len(y):
        return np.arange(len(y))
    generator = np.random.default_rng(seed)
    chosen = [
        generator.choice(np.flatnonzero(y == code), size, replace=False)
        for code, size in enumerate(_shares(counts, limit))
    ]
    return np.sort(np.concatenate(chosen))


def _shares(counts: NDArray[np.intp], limit: int) -> NDArray[np.intp]:
    """Return whole numbers that add up to limit, nearest to the proportions, none below 1."""
    exact = counts * (limit / counts.sum())
    shares: NDArray[np.intp] = np.maximum(np.floor(exact).astype(np.intp), 1)
    while shares.sum() < limit:
        shares[np.argmax(exact - shares)] += 1
    while shares.sum() > limit:  # classes raised to one row are paid for by the larger ones
        shares[np.argmax(np.where(shares > 1, shares - exact, -np.inf))] -= 1
    return shares
