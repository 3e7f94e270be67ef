"""Classes with too few rows to be dealt to a test set and to folds."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError, opt

Rare = Literal["refuse", "drop", "merge"]
RARE: tuple[Rare, ...] = ("refuse", "drop", "merge")
MERGED = "rare"
MOST_NAMED = 40

Kept = tuple[NDArray[np.bool_], NDArray[Any], str]


def fewest_rows(n_folds: int, test_size: float) -> int:
    """Return rows that a class needs, so that its share of the training rows reaches every fold."""
    least = max(2, n_folds)
    while least - math.ceil(test_size * least) < n_folds:
        least += 1
    return least


def merge_or_drop(y: NDArray[Any], n_folds: int, test_size: float, rare: Rare) -> Kept:
    """Drop or merge the classes that are too rare, or refuse them.

    Parameters
    ----------
    y : labels of shape (n_rows,)
    n_folds : of the training rows; 1 where folds may lack a class
    test_size : share of the rows kept for the test
    rare : "refuse" is an error where one cannot be dealt at all; "drop" leaves their rows out;
        "merge" makes one class of them

    Returns
    -------
    kept : bool array of shape (n_rows,)
    y : labels of shape (n_rows,); text where classes were merged
    line : what was done, or an empty text

    Raises
    ------
    InputError
        Classes cannot be dealt, all of them named; or too few are left.
    """
    classes, counts = np.unique(y, return_counts=True)
    least = fewest_rows(n_folds, test_size)
    few = counts < least
    everything = np.ones(len(y), dtype=bool)
    if rare == "refuse":
        if counts.min() < max(2, n_folds):
            raise _too_rare(classes[few], counts[few], least, n_folds)
        return everything, y, ""
    if not few.any():
        return everything, y, ""
    if rare == "drop":
        if few.sum() > len(classes) - 2:
            raise _none_left(rare, classes, counts, least)
        line = f"rare       left out: {_named(classes[few], counts[few])}"
        return ~np.isin(y, classes[few]), y, line
    together = int(counts[few].sum())
    if together < least:
        raise InputError(
            f"{opt('rare', rare)} must make a class of at least {least} rows, "
            f"{_named(classes[few], counts[few])} make one of {together}; leave them out with "
            f"{opt('rare', 'drop')}"
        )
    if few.all():
        raise _none_left(rare, classes, counts, least)
    name = MERGED if MERGED not in classes.astype(str) else f"{MERGED} (merged)"
    labels = np.where(np.isin(y, classes[few]), name, y.astype(str))
    line = f"rare       merged into one class {name!r}: {_named(classes[few], counts[few])}"
    return everything, labels, line


def _named(classes: NDArray[Any], counts: NDArray[Any]) -> str:
    shown = zip(classes[:MOST_NAMED].tolist(), counts[:MOST_NAMED].tolist(), strict=True)
    more = f" and {len(classes) - MOST_NAMED} more" if len(classes) > MOST_NAMED else ""
    return ", ".join(f"{str(label)!r} ({count})" for label, count in shown) + more


def _too_rare(classes: NDArray[Any], counts: NDArray[Any], least: int, n_folds: int) -> InputError:
    folds = f", and for {opt('folds', n_folds)}" if n_folds > 1 else ""
    numbers = "; cross_validate can predict the number itself" if _are_numbers(classes) else ""
    return InputError(
        f"{opt('test_size')} needs at least {least} rows of every class for the test{folds}, but "
        f"classes have fewer: {_named(classes, counts)}; leave their rows out with "
        f"{opt('rare', 'drop')}, or make one class of them with {opt('rare', 'merge')}{numbers}"
    )


def _are_numbers(classes: NDArray[Any]) -> bool:
    try:
        classes.astype(float)
    except ValueError:
        return False
    return True


def _none_left(rare: Rare, classes: NDArray[Any], counts: NDArray[Any], least: int) -> InputError:
    return InputError(
        f"{opt('rare', rare)} must leave two classes of at least {least} rows, there are "
        f"{_named(classes, counts)}; add rows, use fewer {opt('folds')}, or another "
        f"{opt('target')}"
    )
