"""How far a network's last hidden layer is from what it was in training: the score of novelty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

SHRINKAGE = 0.01  # part of the covariance that is taken to be alike in all directions


@dataclass(frozen=True, eq=False)
class FeatureDistance:
    """The Mahalanobis distance of features to the nearest mean of a class.

    The covariance within the classes is common to all. Lee, Lee, Lee and Shin, A simple
    unified framework for detecting out-of-distribution samples, NeurIPS 31 (2018).

    Attributes
    ----------
    whitening : float32 array of shape (n_features, n_features)
        Brings features to unit covariance within classes, in units of the median distance
        of the rows it was fitted on, so that those of several networks can be averaged.
    centers : float32 array of shape (n_classes, n_features)
        Whitened means of the classes that have rows.
    """

    whitening: np.ndarray
    centers: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, y: np.ndarray) -> Self:
        """Fit features, of shape (n_rows, n_features), of rows of the classes ``y``."""
        rows = features.astype(np.float64)
        classes, codes = np.unique(y, return_inverse=True)
        means = np.stack([rows[codes == code].mean(axis=0) for code in range(len(classes))])
        within = rows - means[codes]
        covariance = within.T @ within / len(rows)
        alike = np.trace(covariance) / len(covariance) or 1.0
        covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * alike * np.eye(len(covariance))
        whitening = np.linalg.inv(np.linalg.cholesky(covariance)).T
        typical = np.median(cls(whitening, means @ whitening).distance(rows)) or 1.0
        whitening /= typical
        return cls(whitening.astype(np.float32), (means @ whitening).astype(np.float32))

    def distance(self, features: np.ndarray) -> np.ndarray:
        """Return the distances of features, of shape (n_rows, n_features): float32, (n_rows,)."""
        from scipy.spatial.distance import cdist

        nearest = cdist(features @ self.whitening, self.centers).min(axis=1)
        return np.asarray(nearest, np.float32)
