"""Several classes from binary problems: what the values of the problems say together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np


def compact(coefficients: np.ndarray, n_support: np.ndarray) -> np.ndarray:
    """Return coefficients of all pairs as ``SVC.dual_coef_`` has them.

    A support vector has a part in the pairs of its own class alone: row j - 1 holds what it
    is against class j where its class is smaller, row j where it is larger (LIBSVM's README).

    Parameters
    ----------
    coefficients : array of shape (n_support_vectors, n_pairs), the rows grouped by class
    n_support : int array of shape (n_classes,), support vectors of each class

    Returns
    -------
    array of shape (n_classes - 1, n_support_vectors)
    """
    dual_coef = np.zeros((len(n_support) - 1, len(coefficients)))
    for column, (i, own_i), (j, own_j) in _pair_slices(n_support):
        dual_coef[j - 1, own_i] = coefficients[own_i, column]
        dual_coef[i, own_j] = coefficients[own_j, column]
    return dual_coef


def spread(dual_coef: np.ndarray, n_support: np.ndarray) -> np.ndarray:
    """Return ``SVC.dual_coef_`` with a column for each pair: what ``compact`` takes."""
    n_pairs = len(n_support) * (len(n_support) - 1) // 2
    coefficients = np.zeros((dual_coef.shape[1], n_pairs))
    for column, (i, own_i), (j, own_j) in _pair_slices(n_support):
        coefficients[own_i, column] = dual_coef[j - 1, own_i]
        coefficients[own_j, column] = dual_coef[i, own_j]
    return coefficients


def _pair_slices(
    n_support: np.ndarray,
) -> Iterator[tuple[int, tuple[int, slice], tuple[int, slice]]]:
    """Yield every pair's number, and each of its classes with the places of its support vectors."""
    ends = np.cumsum(n_support)
    slices = [slice(end - count, end) for end, count in zip(ends, n_support, strict=True)]
    for column, (i, j) in enumerate(combinations(range(len(n_support)), 2)):
        yield column, (i, slices[i]), (j, slices[j])


def codes_of(values: np.ndarray, n_classes: int, decision: str) -> np.ndarray:
    """Return class codes from decision values.

    Parameters
    ----------
    values : array of shape (n_samples, n_problems)
        Positive where the positive class of a problem wins.

    Returns
    -------
    int array of shape (n_samples,)
        One-vs-one: most votes, ties to the smallest class, as LIBSVM
        (Chang and Lin, ACM TIST 2011). One-vs-rest: the largest value.
    """
    if decision == "ovr" and n_classes > 2:
        return values.argmax(axis=1)
    votes = np.zeros((len(values), n_classes), dtype=np.int32)
    for column, (positive, negative) in enumerate(combinations(range(n_classes), 2)):
        wins = values[:, column] > 0
        votes[:, positive] += wins
        votes[:, negative] += ~wins
    return votes.argmax(axis=1)


def margins(values: np.ndarray, codes: np.ndarray, n_classes: int, decision: str) -> np.ndarray:
    """Return the margin of each prediction: its lead over the second best class.

    Parameters
    ----------
    values : array of shape (n_samples, n_problems)
    codes : int array of shape (n_samples,), the predicted classes

    Returns
    -------
    float64 array of shape (n_samples,)
        One-vs-rest: the distance of the two largest values. One-vs-one: the smallest of the
        values that speak for the class; it is negative where a class won with a duel lost.
    """
    if n_classes == 2:
        return np.abs(values[:, 0])
    if decision == "ovr":
        ordered = np.sort(values, axis=1)
        return ordered[:, -1] - ordered[:, -2]
    least = np.full(len(values), np.inf)
    for column, (positive, negative) in enumerate(combinations(range(n_classes), 2)):
        for code, sign in ((positive, 1), (negative, -1)):
            is_predicted = codes == code
            least[is_predicted] = np.minimum(
                least[is_predicted], sign * values[is_predicted, column]
            )
    return least


def class_values(values: np.ndarray, n_classes: int, decision: str) -> np.ndarray:
    """Return decision values in the form of ``SVC.decision_function``.

    Parameters
    ----------
    values : array of shape (n_samples, n_problems)

    Returns
    -------
    array of shape (n_samples,) for two classes, positive for the second, else of
    shape (n_samples, n_classes)
        One-vs-one: the votes for a class, and between equal votes, by less than
        half a vote, the sum of the values that speak for it.
    """
    if n_classes == 2:
        return -values[:, 0]
    if decision == "ovr":
        return values
    votes = np.zeros((len(values), n_classes))
    sums = np.zeros((len(values), n_classes))
    for column, (positive, negative) in enumerate(combinations(range(n_classes), 2)):
        loses = values[:, column] < 0
        votes[:, positive] += ~loses
        votes[:, negative] += loses
        sums[:, positive] += values[:, column]
        sums[:, negative] -= values[:, column]
    return votes + sums / (3 * (np.abs(sums) + 1))
