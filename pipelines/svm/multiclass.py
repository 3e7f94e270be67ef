"""From binary problems to several classes: votes, margins, decision values, coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np


def compact(coefficients: np.ndarray, n_support: np.ndarray) -> np.ndarray:
    """Coefficients of all pairs in the layout of ``SVC.dual_coef_``.

    A support vector has a coefficient only in the pairs of its own class. Against class j it is in
    row j - 1 where its own class is smaller, in row j where it is larger (LIBSVM's README).

    Parameters
    ----------
    coefficients : array of shape (n_support_vectors, n_pairs)
        Rows grouped by class.
    n_support : int array of shape (n_classes,)
        Support vectors of each class.

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
    """``SVC.dual_coef_`` with a column for each pair: the inverse of ``compact``."""
    n_pairs = len(n_support) * (len(n_support) - 1) // 2
    coefficients = np.zeros((dual_coef.shape[1], n_pairs))
    for column, (i, own_i), (j, own_j) in _pair_slices(n_support):
        coefficients[own_i, column] = dual_coef[j - 1, own_i]
        coefficients[own_j, column] = dual_coef[i, own_j]
    return coefficients


def _pair_slices(
    n_support: np.ndarray,
) -> Iterator[tuple[int, tuple[int, slice], tuple[int, slice]]]:
    """Yield the number of every pair, and both its classes with the slices of their vectors."""
    ends = np.cumsum(n_support)
    slices = [slice(end - count, end) for end, count in zip(ends, n_support, strict=True)]
    for column, (i, j) in enumerate(combinations(range(len(n_support)), 2)):
        yield column, (i, slices[i]), (j, slices[j])


def codes_of(values: np.ndarray, n_classes: int, decision: str) -> np.ndarray:
    """Predicted class codes from the decision values of all binary problems.

    Parameters
    ----------
    values : array of shape (n_samples, n_problems)
        Positive where the first class of a problem wins.
    n_classes : int
    decision : {"ovo", "ovr"}

    Returns
    -------
    int array of shape (n_samples,)
        One-vs-one: the class with the most votes, the smallest such class in a tie, as in LIBSVM.
        One-vs-rest: the class with the largest value.

    References
    ----------
    C.-C. Chang, C.-J. Lin, "LIBSVM: a library for support vector machines", ACM TIST 2, 2011.
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
    """The margin of each prediction: its lead over the second best class.

    Parameters
    ----------
    values : array of shape (n_samples, n_problems)
        Decision values, as for ``codes_of``.
    codes : int array of shape (n_samples,)
        The predicted classes.
    n_classes : int
    decision : {"ovo", "ovr"}

    Returns
    -------
    float64 array of shape (n_samples,)
        One-vs-rest: the difference between the two largest values. One-vs-one: the smallest
        decision value in favour of the class; negative if it won the vote but lost against some
        class.
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
    """Decision values for each class, in the form of ``SVC.decision_function``.

    Parameters
    ----------
    values : array of shape (n_samples, n_problems)
        Decision values, as for ``codes_of``.
    n_classes : int
    decision : {"ovo", "ovr"}

    Returns
    -------
    array of shape (n_samples,) for two classes, else (n_samples, n_classes)
        For two classes, positive for the second. One-vs-one: the votes for a class, plus less
        than half a vote from the sum of the values in its favour, which breaks ties.
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
