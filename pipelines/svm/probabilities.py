"""Class probabilities from decision values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Calibration:
    """Platt's sigmoids: 1 / (1 + exp(slope * value + offset)) for each class.

    For several classes, the sigmoids are divided by their sum, as in scikit-learn's
    ``CalibratedClassifierCV``.

    Attributes
    ----------
    slopes, offsets : float64 arrays of shape (n_classes,), or (1,) for two classes

    References
    ----------
    J. Platt, "Probabilistic outputs for support vector machines and comparisons to regularized
    likelihood methods", Advances in Large Margin Classifiers, 1999.
    """

    slopes: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, sigmoids: Iterable[Any]) -> Calibration:
        """Take the parameters of scikit-learn's fitted sigmoids."""
        a, b = zip(*((sigmoid.a_, sigmoid.b_) for sigmoid in sigmoids), strict=True)
        return cls(np.array(a, np.float64), np.array(b, np.float64))

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """The probability of every class.

        Parameters
        ----------
        values : array of shape (n_samples,) for two classes, else (n_samples, n_classes)
            As ``SVC.decision_function`` gives them.

        Returns
        -------
        float64 array of shape (n_samples, n_classes); rows add up to 1
        """
        from scipy.special import expit

        probabilities = expit(-(self.slopes * values.reshape(len(values), -1) + self.offsets))
        if probabilities.shape[1] == 1:
            return np.concatenate([1.0 - probabilities, probabilities], axis=1)
        total = probabilities.sum(axis=1, keepdims=True)
        uniform = np.full_like(probabilities, 1.0 / probabilities.shape[1])
        return np.divide(probabilities, total, out=uniform, where=total > 0)


def fit_sigmoids(values: np.ndarray, y: np.ndarray) -> Calibration:
    """Fit Platt's sigmoids, one for each class against the others.

    Parameters
    ----------
    values : array of shape (n_samples,) for two classes, else (n_samples, n_classes)
        Decision values of rows that the fit behind them did not train on.
    y : int array of shape (n_samples,)
        Class codes.
    """
    from pipelines.sklearn_private import SigmoidCalibration

    columns = np.asarray(values, np.float64).reshape(len(values), -1)
    # With two classes, a positive value means the second.
    positive = [1] if columns.shape[1] == 1 else range(columns.shape[1])
    return Calibration.of(
        SigmoidCalibration().fit(column, (y == code).astype(np.float64))
        for code, column in zip(positive, columns.T, strict=True)
    )
