"""Prediction sets that hold the true one with confidence, class by class, through MAPIE."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


def prediction_sets(
    known: np.ndarray, truth: np.ndarray, new: np.ndarray, confidence: float = 0.95
) -> np.ndarray:
    """Return the classes a sample may have; each class is missed at most 1 - ``confidence``.

    For each class the threshold of its certainty is set on known samples of that class alone
    (class-conditional, or Mondrian, conformal prediction: Vovk, Gammerman and Shafer,
    Algorithmic Learning in a Random World, 2005), so that a rare or hard class is served like
    the others. A class with too few known samples is in every set.

    Parameters
    ----------
    known : float array of shape (n_known, n_classes), probabilities of samples not trained on
    truth : int array of shape (n_known,), class codes
    new : float array of shape (n_new, n_classes)
    confidence : float between 0 and 1

    Returns
    -------
    bool array of shape (n_new, n_classes)
    """
    from mapie.classification import SplitConformalClassifier

    n_classes = known.shape[1]
    inside = np.ones((len(new), n_classes), dtype=bool)
    fewest = int(max(1 / confidence, 1 / (1 - confidence))) + 1  # what MAPIE asks for
    known, new = _sums_to_one(known), _sums_to_one(new)
    for code in range(n_classes):
        own = known[truth == code]
        if len(own) < fewest or not len(new):
            continue
        with warnings.catch_warnings():
            # It misses the other classes, which are what each turn leaves out.
            warnings.filterwarnings("ignore", message=".*conformalization dataset has less labels")
            classifier = SplitConformalClassifier(
                _PrecomputedProbabilities(n_classes), confidence_level=confidence,
                conformity_score="lac", prefit=True,
            ).conformalize(own, np.full(len(own), code))  # fmt: skip
        inside[:, code] = classifier.predict_set(new)[1][:, code, 0]
    return inside


def _sums_to_one(probabilities: np.ndarray) -> np.ndarray:
    """Return rows divided by their sums, which single precision has rounded."""
    wide = probabilities.astype(np.float64)
    whole: np.ndarray = wide / wide.sum(axis=1, keepdims=True)
    return whole


class _PrecomputedProbabilities(ClassifierMixin, BaseEstimator):
    """A fitted classifier that takes class probabilities for ``X`` and predicts just them."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def fit(self, X: np.ndarray, y: np.ndarray) -> _PrecomputedProbabilities:
        """Do nothing: part of scikit-learn's interface."""
        return self

    @property
    def classes_(self) -> np.ndarray:
        return np.arange(self.n_classes)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return ``X`` itself, of shape (n_samples, n_classes)."""
        return X

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the class of the largest."""
        return X.argmax(axis=1)
