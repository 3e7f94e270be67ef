"""Nearest neighbours: those of the largest k, in order, have those of every smaller k in them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from pipelines.data.dataset import rows_of
from pipelines.search.shared.base import SharedEstimators


class Neighbors(SharedEstimators):
    """Nearest neighbours for all ``n_neighbors`` and weights by one query.

    Where two neighbours are equally far and only one of them is among the first k, which of
    them it is depends on k in scikit-learn; such rows are queried again, for that k.
    """

    name = "one query of neighbors"
    types = (KNeighborsClassifier, KNeighborsRegressor)
    shared = ("n_neighbors", "weights")
    takes_weights = False

    def accepts(self, estimator: Any) -> bool:
        """Return a number of neighbours, and distances between rows."""
        k = estimator.n_neighbors
        return isinstance(k, int | np.integer) and bool(k > 0) and estimator.metric != "precomputed"

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``SharedEstimators.fit``; the rows are taken in once."""
        first, *others = estimators
        if max(one.n_neighbors for one in estimators) > np.shape(X)[0]:
            raise ValueError("some have more neighbors than there are rows")
        first.fit(X, y)
        fitted = [first]
        for other in others:
            fitted.append(copy.copy(first).set_params(**other.get_params(deep=False)))
        return fitted

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Return the responses for all ``n_neighbors`` from one query."""
        ks = [one.n_neighbors for one in fitted]
        n_rows = fitted[0].n_samples_fit_
        query = Query(fitted[0], X, min(max(ks) + 1, n_rows))
        votes = None
        if hasattr(fitted[0], "classes_") and not fitted[0].outputs_2d_:
            votes = Votes(fitted[0], query)
        responses = []
        for one, k in zip(fitted, ks, strict=True):
            if votes is not None and one.weights == "uniform" and method != "predict_log_proba":
                responses.append(
                    votes.of(k, one) if method == "predict_proba" else votes.winner(k, one)
                )
            else:
                responses.append(query.ask(one, method))
        return responses


class Query:
    """The neighbours of some rows, nearest first."""

    def __init__(self, fitted: Any, X: Any, n_neighbors: int) -> None:
        self.X = X
        self.distances, self.indices = fitted.kneighbors(X, n_neighbors=n_neighbors)

    def of(self, estimator: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return distances and indices of the first k, as the estimator alone would find them."""
        distances, indices = self.distances[:, :k], self.indices[:, :k]
        tied = self.tied(k)
        if len(tied):
            distances, indices = distances.copy(), indices.copy()
            distances[tied], indices[tied] = self.alone(estimator, tied, k)
        return distances, indices

    def alone(self, estimator: Any, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return distances and indices of the k nearest of some rows, queried for that k."""
        found: tuple[np.ndarray, np.ndarray] = estimator.kneighbors(rows_of(self.X, rows), k)
        return found

    def tied(self, k: int) -> np.ndarray:
        """Return rows whose neighbours k and k + 1 are equally far."""
        if k >= self.distances.shape[1]:
            return np.empty(0, np.intp)
        return np.flatnonzero(self.distances[:, k - 1] == self.distances[:, k])

    def ask(self, estimator: Any, method: str) -> np.ndarray:
        """Let the estimator respond from the neighbours that were queried before."""
        distances, indices = self.of(estimator, estimator.n_neighbors)
        stand_in = copy.copy(estimator)

        def kneighbors(X: Any = None, n_neighbors: Any = None, return_distance: bool = True) -> Any:
            return (distances, indices) if return_distance else indices

        stand_in.kneighbors = kneighbors
        stand_in._fit_method = "asked"  # scikit-learn has a way round kneighbors for brute force
        response: np.ndarray = getattr(stand_in, method)(self.X)
        return response


class Votes:
    """Classes counted neighbour by neighbour."""

    def __init__(self, fitted: Any, query: Query) -> None:
        self.codes, self.query = fitted._y, query
        n_rows, self.n_classes = len(query.indices), len(fitted.classes_)
        self._rows = np.arange(n_rows)
        self._counts = np.zeros((n_rows, self.n_classes))
        self._counted = 0

    def of(self, k: int, estimator: Any) -> np.ndarray:
        """Return shares of the classes among the first k, of shape (n_rows, n_classes)."""
        counts = self._first(k).copy()
        self._correct(counts, self.query.tied(k), k, estimator)
        return counts / k

    def winner(self, k: int, estimator: Any) -> np.ndarray:
        """Return the class with the most votes among the first k; of several the smallest."""
        counts, tied = self._first(k), self.query.tied(k)
        if len(tied):
            first, second = np.sort(counts[tied], axis=1)[:, :-3:-1].T
            distances = self.query.distances[tied, :k]
            exchangeable = (distances == distances[:, -1:]).sum(axis=1)
            # A vote that goes from one class to another takes two off the lead.
            doubtful = tied[first - second <= 2 * exchangeable]
            counts = counts.copy()
            self._correct(counts, doubtful, k, estimator)
        classes: np.ndarray = estimator.classes_[counts.argmax(axis=1)]
        return classes

    def _first(self, k: int) -> np.ndarray:
        """Return votes of the first k as the query has them."""
        if k < self._counted:
            self._counts[:], self._counted = 0.0, 0
        for place in range(self._counted, k):
            self._counts[self._rows, self.codes[self.query.indices[:, place]]] += 1
        self._counted = k
        return self._counts

    def _correct(self, counts: np.ndarray, rows: np.ndarray, k: int, estimator: Any) -> None:
        """Count anew, for rows where it is k that decides between neighbours equally far."""
        if len(rows):
            _, indices = self.query.alone(estimator, rows, k)
            for row, found in zip(rows, indices, strict=True):
                counts[row] = np.bincount(self.codes[found], minlength=self.n_classes)


KINDS = (Neighbors(),)
