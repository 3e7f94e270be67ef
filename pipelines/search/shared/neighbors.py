"""Nearest neighbours: the k nearest begin with those for every smaller k, in order."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from pipelines.data.dataset import take_rows
from pipelines.search.shared.base import SharedEstimators


class Neighbors(SharedEstimators):
    """Nearest neighbours for all ``n_neighbors`` and ``weights`` from one query.

    Two neighbours may be equally distant while only one of them is among the first k. Which one
    scikit-learn returns then depends on k, so such rows are queried again for that k.
    """

    name = "one query of neighbors"
    types = (KNeighborsClassifier, KNeighborsRegressor)
    shared = ("n_neighbors", "weights")
    takes_weights = False

    def accepts(self, estimator: Any) -> bool:
        """Whether it has a number of neighbours, and computes distances from rows."""
        k = estimator.n_neighbors
        return isinstance(k, int | np.integer) and bool(k > 0) and estimator.metric != "precomputed"

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``SharedEstimators.fit``; the rows are indexed once.

        Raises
        ------
        ValueError
            An estimator asks for more neighbours than there are rows.
        """
        first, *other_estimators = estimators
        if max(estimator.n_neighbors for estimator in estimators) > np.shape(X)[0]:
            raise ValueError("some have more neighbors than there are rows")
        first.fit(X, y)
        fitted = [first]
        for other in other_estimators:
            fitted.append(copy.copy(first).set_params(**other.get_params(deep=False)))
        return fitted

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """See ``SharedEstimators.predict``; from one query for the largest k, plus one neighbour.

        The neighbour beyond the largest k shows whether the last one is tied.
        """
        distances, indices = _query(fitted, X)
        is_plain = method == "predict" and not getattr(fitted[0], "outputs_2d_", True)
        if not is_plain or any(estimator.weights != "uniform" for estimator in fitted):
            return [_respond(estimator, method, X, distances, indices) for estimator in fitted]
        # Votes are counted neighbour by neighbour, and read off at each k. Of classes with equal
        # votes the first wins, as in scikit-learn.
        votes, n_counted = np.zeros((len(indices), len(fitted[0].classes_))), 0
        rows, winners = np.arange(len(indices)), dict[int, np.ndarray]()
        for estimator in sorted(fitted, key=lambda estimator: estimator.n_neighbors):
            for rank in range(n_counted, n_counted := estimator.n_neighbors):
                votes[rows, estimator._y[indices[:, rank]]] += 1
            winners[n_counted] = estimator.classes_[votes.argmax(axis=1)]
            if len(tied_rows := _find_tied_rows(distances, n_counted)):
                winners[n_counted][tied_rows] = estimator.predict(take_rows(X, tied_rows))
        return [winners[estimator.n_neighbors] for estimator in fitted]


# The last query of a group, by its first estimator: scorers that need different methods predict the
# same rows.
_latest: WeakKeyDictionary[Any, tuple[Any, tuple[np.ndarray, np.ndarray]]] = WeakKeyDictionary()


def _query(fitted: Sequence[Any], X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Distances and indices of the neighbours for the largest k, plus one, nearest first."""
    first, n_neighbors = fitted[0], max(estimator.n_neighbors for estimator in fitted)
    rows, neighbors = _latest.get(first, (None, None))
    if neighbors is None or rows is not X:
        n = min(n_neighbors + 1, first.n_samples_fit_)
        neighbors = first.kneighbors(X, n_neighbors=n)
        _latest[first] = X, neighbors
    return neighbors


def _find_tied_rows(distances: np.ndarray, k: int) -> np.ndarray:
    """Numbers of the rows whose neighbours k and k + 1 are equally distant."""
    if k >= distances.shape[1]:
        return np.empty(0, np.intp)
    return np.flatnonzero(distances[:, k - 1] == distances[:, k])


def _respond(
    estimator: Any, method: str, X: Any, distances: np.ndarray, indices: np.ndarray
) -> np.ndarray:
    """Predict with an estimator from neighbours that were queried before.

    Parameters
    ----------
    estimator : fitted estimator
    method : str
    X : rows to predict
    distances, indices : arrays of shape (n_samples, n_neighbors)
        Nearest first, for at least the estimator's k.
    """
    k = estimator.n_neighbors
    tied_rows = _find_tied_rows(distances, k)
    distances, indices = distances[:, :k], indices[:, :k]
    if len(tied_rows) or callable(estimator.weights):  # a function of weights may write to them
        distances, indices = distances.copy(), indices.copy()
    if len(tied_rows):
        distances[tied_rows], indices[tied_rows] = estimator.kneighbors(take_rows(X, tied_rows), k)
    stand_in = copy.copy(estimator)

    def kneighbors(X: Any = None, n_neighbors: Any = None, return_distance: bool = True) -> Any:
        return (distances, indices) if return_distance else indices

    stand_in.kneighbors = kneighbors
    # Any other name than "brute", for which scikit-learn predicts without ``kneighbors``.
    stand_in._fit_method = "asked"
    response: np.ndarray = getattr(stand_in, method)(X)
    return response


SHARED_FITS = (Neighbors(),)
