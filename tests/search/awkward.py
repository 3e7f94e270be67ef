"""Estimators that do what scikit-learn's own do not; workers import them from here."""

from __future__ import annotations

import os
import random

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin


class Nearest(ClassifierMixin, BaseEstimator):
    """The class whose mean is nearest; does nothing awkward."""

    def __init__(self, k=1):
        self.k = k

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.stack([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict(self, X):
        distances = np.abs(X[:, None] - self.means_[None]).sum(axis=2)
        return self.classes_[distances.argmin(axis=1)]


class WritesRows(Nearest):
    """Writes to the rows and the targets that it is fitted on."""

    def fit(self, X, y):
        super().fit(X, y)
        X *= -self.k
        y[:] = y[0]
        return self


class WritesAsked(Nearest):
    """Writes to the rows that it is asked about."""

    def predict(self, X):
        predicted = super().predict(X)
        X += 100 * self.k
        return predicted


class WritingStep(TransformerMixin, BaseEstimator):
    """Writes to whatever it is given."""

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        X -= 3
        return self

    def transform(self, X):
        X -= self.mean_
        return X


def writing_score(estimator, X, y):
    """Return the accuracy, and write to rows and targets."""
    score = float(np.mean(estimator.predict(X) == y))
    X[:] = 0
    y[:] = 0
    return score


class ReturnsNone(Nearest):
    """Has a ``fit`` that returns nothing."""

    def fit(self, X, y):
        super().fit(X, y)


class Column(Nearest):
    """Predicts a column."""

    def predict(self, X):
        return super().predict(X)[:, None]


class Floats(Nearest):
    """Predicts classes as floats."""

    def predict(self, X):
        return super().predict(X).astype(float)


class Objects(Nearest):
    """Predicts a list of Python's own numbers."""

    def predict(self, X):
        return super().predict(X).tolist()


class Halves(Nearest):
    """Has probabilities, and predicts what is no class."""

    def predict(self, X):
        return super().predict(X) + 0.5

    def predict_proba(self, X):
        return (super().predict(X)[:, None] == self.classes_).astype(float)


class Short(Halves):
    """Predicts too few rows."""

    def predict(self, X):
        return Nearest.predict(self, X)[1:]


class Surrogates(Nearest):
    """Fails with a text that is no valid Unicode."""

    def fit(self, X, y):
        if self.k == 2:
            raise KeyError("no \udc80 here\nnor there")
        return super().fit(X, y)


class Kills(Nearest):
    """Ends the process of one candidate."""

    def fit(self, X, y):
        if self.k == 2:
            os._exit(3)
        return super().fit(X, y)


class Interrupts(Nearest):
    """Raises what no program does but when it is stopped."""

    def fit(self, X, y):
        if self.k == 2:
            raise KeyboardInterrupt
        return super().fit(X, y)


class NoParams(Nearest):
    """Does not tell its parameters."""

    def get_params(self, deep=True):
        raise RuntimeError("they are secret")


class CannotBeMade(Nearest):
    """Fails where it is made."""

    def __init__(self, k=1):
        raise OSError("its file is gone")


class Draws(Nearest):
    """Draws from numpy's global generator of random numbers."""

    def fit(self, X, y):
        super().fit(X, y)
        self.means_ = self.means_ + np.random.normal(size=self.means_.shape)  # noqa: NPY002
        return self


class DrawsFromPython(Nearest):
    """Draws from Python's, from which Dask draws, too."""

    def fit(self, X, y):
        super().fit(X, y)
        self.means_ = self.means_ + np.array([[random.gauss()] for _ in self.means_])
        return self


class DrawingStep(TransformerMixin, BaseEstimator):
    """Adds a draw from numpy's global generator."""

    def fit(self, X, y=None):
        self.shift_ = np.random.normal(size=X.shape[1])  # noqa: NPY002
        return self

    def transform(self, X):
        return X * self.shift_
