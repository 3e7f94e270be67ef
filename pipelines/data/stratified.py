"""Folds and splits by class, row for row those of scikit-learn.

Written anew, as its import takes longer than a whole search of a small data set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


def folds(y: NDArray[Any], n_folds: int, seed: int) -> Rows:
    """Return the fold that validates each row: ``StratifiedKFold(n_folds, shuffle=True)``.

    Parameters
    ----------
    y : array of shape (n_samples,), labels
    n_folds : int
    seed : int, its ``random_state``

    Returns
    -------
    int array of shape (n_samples,)
    """
    generator = np.random.RandomState(seed)
    _, first, inverse = np.unique(y, return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(first))[inverse]  # classes in the order in which they appear
    in_order, n_classes = np.sort(codes), len(first)
    shares = [np.bincount(in_order[k::n_folds], minlength=n_classes) for k in range(n_folds)]
    fold_of = np.empty(len(y), np.intp)
    for code, counts in enumerate(np.transpose(shares)):
        of_class = np.repeat(np.arange(n_folds), counts)
        generator.shuffle(of_class)
        fold_of[codes == code] = of_class
    return fold_of


def split(y: NDArray[Any], n_test: int, seed: int) -> tuple[Rows, Rows]:
    """Return training and test rows: ``train_test_split(stratify=y)``.

    Parameters
    ----------
    y : int array of shape (n_samples,), class codes, each of 0 .. n_classes - 1 present
    n_test : int, how many rows of them all
    seed : int, its ``random_state``
    """
    generator = np.random.RandomState(seed)
    counts = np.bincount(y)
    of_train = _shares(counts, len(y) - n_test, generator)
    of_test = _shares(counts - of_train, n_test, generator)
    train, test = [], []
    for code, (n, m) in enumerate(zip(of_train, of_test, strict=True)):
        rows = np.flatnonzero(y == code)[generator.permutation(counts[code])]
        train.append(rows[:n])
        test.append(rows[n : n + m])
    return (
        generator.permutation(np.concatenate(train)),
        generator.permutation(np.concatenate(test)),
    )


def _shares(counts: Rows, n_rows: int, generator: np.random.RandomState) -> Rows:
    """Share ``n_rows`` out by ``counts``; what rounding leaves goes by lot among equal claims."""
    exact = counts / counts.sum() * n_rows
    shares = np.floor(exact)
    left = int(n_rows - shares.sum())
    claims = exact - shares
    for claim in np.unique(claims)[::-1]:
        if left <= 0:
            break
        (equal,) = np.where(claims == claim)
        more = min(len(equal), left)
        shares[generator.choice(equal, size=more, replace=False)] += 1
        left -= more
    return shares.astype(np.intp)
