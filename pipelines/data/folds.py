"""Rows chosen by class: folds, a test set, a smaller training set; and classes too rare for these.

Folds and test sets are, row for row, the same as scikit-learn's. They are computed here because
importing scikit-learn takes longer than a whole search of a small data set.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError, opt

Rows = NDArray[np.int32]
Rare = Literal["refuse", "drop", "merge"]
RARE: tuple[Rare, ...] = ("refuse", "drop", "merge")
MERGED = "rare"  # name of the class that "merge" makes
MOST_NAMED = 40  # classes that a message names


def make_folds(
    y: NDArray[Any], n_folds: int, seed: int, classes: NDArray[Any] | None = None
) -> list[tuple[Rows, Rows]]:
    """Shuffled stratified folds, equal row for row to ``StratifiedKFold(n_folds, shuffle=True)``.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Class codes.
    n_folds : int
        At least 2, at most the number of rows in the rarest class.
    seed : int
        Equal seeds give equal folds.
    classes : array of shape (n_classes,), optional
        Labels, to name a class in an error.

    Returns
    -------
    list of (int32 array, int32 array)
        For each fold, its training and its validation rows, both in ascending order.

    Raises
    ------
    InputError
        There are fewer than two folds, or a class has fewer rows than folds.
    """
    if n_folds < 2:
        raise InputError(f"{opt('folds')} must be at least 2, got {n_folds}")
    codes, first, inverse, counts = np.unique(
        y, return_index=True, return_inverse=True, return_counts=True
    )
    rarest = int(np.argmin(counts))
    if counts[rarest] < n_folds:
        label = codes[rarest] if classes is None else classes[codes[rarest]]
        fewer = f"use {opt('folds', counts[rarest])} or fewer, " if counts[rarest] >= 2 else ""
        raise InputError(
            f"{opt('folds')} must not exceed the training rows of any class, got {n_folds}, but "
            f"class {str(label)!r} has {counts[rarest]}; {fewer}add rows (a larger {opt('limit')}) "
            f"or drop the class"
        )
    generator = np.random.RandomState(seed)
    first_seen = np.argsort(np.argsort(first))[inverse]  # as StratifiedKFold numbers them
    sorted_codes = np.sort(first_seen)
    fold_counts = [
        np.bincount(sorted_codes[k::n_folds], minlength=len(first)) for k in range(n_folds)
    ]
    fold_of = np.empty(len(y), np.intp)
    for code, in_folds in enumerate(np.transpose(fold_counts)):
        of_class = np.repeat(np.arange(n_folds), in_folds)
        generator.shuffle(of_class)
        fold_of[first_seen == code] = of_class
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
    """Training and test rows, the same as those of scikit-learn's stratified ``train_test_split``.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Class codes 0 .. n_classes - 1, each at least twice.
    test_size : float
        Fraction of the rows to hold out, between 0 and 1.
    seed : int
        Equal seeds give equal sets.
    classes : array of shape (n_classes,)
        Labels, to name a class in an error.

    Returns
    -------
    train, test : int arrays
        Row numbers in random order.

    Raises
    ------
    InputError
        The fraction is out of bounds, or leaves a class without a training row.
    """
    if not 0 < test_size < 1:
        raise InputError(
            f"{opt('test_size')} must lie between 0 and 1, got {test_size}; 0.2 is usual"
        )
    n_test = int(np.ceil(test_size * len(y)))
    smaller = min(n_test, len(y) - n_test)
    if smaller < len(classes):
        raise InputError(
            f"{opt('test_size')} must leave at least one row per class on both sides, got "
            f"{test_size}: {smaller} of {len(y)} rows on one side for {len(classes)} classes; "
            f"choose it nearer to 0.5 or add rows"
        )
    generator, counts = np.random.RandomState(seed), np.bincount(y)
    of_train = _by_lot(counts, len(y) - n_test, generator)
    of_test = _by_lot(counts - of_train, n_test, generator)
    if not of_train.all():
        raise InputError(
            f"{opt('test_size')} must leave every class a training row, got {test_size}, which "
            f"leaves none of class {str(classes[of_train.argmin()])!r}; choose it smaller or drop "
            "the class"
        )
    train, test = [], []
    for code, (n, m) in enumerate(zip(of_train, of_test, strict=True)):
        rows = np.flatnonzero(y == code)[generator.permutation(counts[code])]
        train.append(rows[:n])
        test.append(rows[n : n + m])
    return (
        generator.permutation(np.concatenate(train)),
        generator.permutation(np.concatenate(test)),
    )


def _by_lot(
    counts: NDArray[np.intp], n_rows: int, generator: np.random.RandomState
) -> NDArray[np.intp]:
    """Divide ``n_rows`` among classes in proportion to ``counts``.

    What rounding down leaves goes to the largest remainders, by lot where these are equal.
    """
    exact = counts / counts.sum() * n_rows
    class_sizes = np.floor(exact)
    n_left = int(n_rows - class_sizes.sum())
    claims = exact - class_sizes
    for claim in np.unique(claims)[::-1]:
        if n_left <= 0:
            break
        (tied_classes,) = np.where(claims == claim)
        n_drawn = min(len(tied_classes), n_left)
        class_sizes[generator.choice(tied_classes, size=n_drawn, replace=False)] += 1
        n_left -= n_drawn
    return class_sizes.astype(np.intp)


def stratified_subset(y: NDArray[Any], limit: int | None, seed: int) -> NDArray[np.intp]:
    """Draw at most ``limit`` rows, each class in proportion and with at least one row.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Class codes 0 .. n_classes - 1, each of them present.
    limit : int or None
        Number of rows; None, or a number of at least n_samples, takes all.
    seed : int
        Equal seeds give equal rows.

    Returns
    -------
    int array
        Row numbers in ascending order.

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
    # Whole numbers that add up to the limit, close to the proportions, none below 1.
    exact = counts * (limit / counts.sum())
    class_sizes: NDArray[np.intp] = np.maximum(np.floor(exact).astype(np.intp), 1)
    while class_sizes.sum() < limit:
        class_sizes[np.argmax(exact - class_sizes)] += 1
    while class_sizes.sum() > limit:  # classes raised to one row are paid for by the larger ones
        class_sizes[np.argmax(np.where(class_sizes > 1, class_sizes - exact, -np.inf))] -= 1
    generator = np.random.default_rng(seed)
    chosen = [
        generator.choice(np.flatnonzero(y == code), size, replace=False)
        for code, size in enumerate(class_sizes)
    ]
    return np.sort(np.concatenate(chosen))


def fewest_rows(n_folds: int, test_size: float) -> int:
    """Fewest rows of a class that leave a training row for every fold after the test split."""
    n_rows = max(2, n_folds)
    while n_rows - math.ceil(test_size * n_rows) < n_folds:
        n_rows += 1
    return n_rows


def merge_or_drop(
    y: NDArray[Any], n_folds: int, test_size: float, rare: Rare
) -> tuple[NDArray[np.bool_], NDArray[Any], str]:
    """Drop or merge the classes that have too few rows, or refuse them.

    Parameters
    ----------
    y : array of shape (n_rows,)
        Labels.
    n_folds : int
        Folds of the training rows; 1 where folds may lack a class.
    test_size : float
        Fraction of the rows held out for the test.
    rare : {"refuse", "drop", "merge"}
        "refuse" raises an error if a class cannot be split at all; "drop" leaves the rows of rare
        classes out; "merge" makes one class of them.

    Returns
    -------
    kept : bool array of shape (n_rows,)
        Rows that are not dropped.
    y : array of shape (n_rows,)
        Labels; text where classes were merged.
    line : str
        A line for the console; empty where nothing was done.

    Raises
    ------
    InputError
        Classes cannot be split (the message names them all), or fewer than two classes would
        remain.
    """
    classes, counts = np.unique(y, return_counts=True)
    n_min = fewest_rows(n_folds, test_size)
    is_few = counts < n_min
    names, n_rare = _named(classes[is_few], counts[is_few]), int(counts[is_few].sum())
    all_rows = np.ones(len(y), dtype=bool)
    if not is_few.any() or (rare == "refuse" and counts.min() >= max(2, n_folds)):
        return all_rows, y, ""
    if rare == "refuse":
        folds = f", and for {opt('folds', n_folds)}" if n_folds > 1 else ""
        try:
            classes[is_few].astype(float)
            task = opt("task", "regression")
            numbers = f"; svm_grid, nn_bagging and cross_validate predict numbers with {task}"
        except ValueError:
            numbers = ""
        raise InputError(
            f"{opt('test_size')} needs at least {n_min} rows of every class for the test{folds}, "
            f"but classes have fewer: {names}; leave their rows out with {opt('rare', 'drop')}, or "
            f"make one class of them with {opt('rare', 'merge')}{numbers}"
        )
    if rare == "merge" and n_rare < n_min:
        raise InputError(
            f"{opt('rare', rare)} must make a class of at least {n_min} rows, {names} make one of "
            f"{n_rare}; leave them out with {opt('rare', 'drop')}"
        )
    if (~is_few).sum() < (2 if rare == "drop" else 1):
        raise InputError(
            f"{opt('rare', rare)} must leave two classes of at least {n_min} rows, there are "
            f"{_named(classes, counts)}; add rows, use fewer {opt('folds')}, or another "
            f"{opt('target')}"
        )
    is_rare = np.isin(y, classes[is_few])
    if rare == "drop":
        return ~is_rare, y, f"rare       left out: {names}"
    name = MERGED if MERGED not in classes.astype(str) else f"{MERGED} (merged)"
    line = f"rare       merged into one class {name!r}: {names}"
    return all_rows, np.where(is_rare, name, y.astype(str)), line


def _named(classes: NDArray[Any], counts: NDArray[Any]) -> str:
    """The classes with their numbers of rows, at most ``MOST_NAMED`` of them."""
    shown_classes = zip(classes[:MOST_NAMED].tolist(), counts[:MOST_NAMED].tolist(), strict=True)
    suffix = f" and {len(classes) - MOST_NAMED} more" if len(classes) > MOST_NAMED else ""
    return ", ".join(f"{str(label)!r} ({count})" for label, count in shown_classes) + suffix
