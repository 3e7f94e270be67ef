"""A fitted classifier as a scorer of scikit-learn sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Answers(ClassifierMixin, BaseEstimator):
    """It knows the answers for one set of rows."""

    def __init__(
        self, classes: np.ndarray, predicted: np.ndarray, decisions: np.ndarray | None
    ) -> None:
        self.classes_ = classes
        self._predicted = predicted
        self._decisions = decisions

    def predict(self, X: Any) -> np.ndarray:
        return self._predicted

    def decision_function(self, X: Any) -> np.ndarray | None:
        return self._decisions
