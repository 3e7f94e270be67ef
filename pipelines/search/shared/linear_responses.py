"""Predictions of linear models: one matrix product gives the scores of all candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import validate_data

from pipelines.search.shared.base import SharedEstimators


def linear_responses(fitted: Sequence[Any], X: Any) -> list[np.ndarray]:
    """Rows times coefficients, plus intercepts, for all estimators in one product.

    Parameters
    ----------
    fitted : sequence of fitted linear models
    X : array or sparse matrix of shape (n_samples, n_features)

    Returns
    -------
    list of float array
        For each estimator, of shape (n_samples,), or (n_samples, n_outputs) if it has several
        outputs.
    """
    rows = validate_data(fitted[0], X, accept_sparse=["csr", "csc", "coo"], reset=False)
    stacked = np.concatenate([np.atleast_2d(model.coef_) for model in fitted])
    products = safe_sparse_dot(rows, stacked.T, dense_output=True)
    parts = np.split(products, len(fitted), axis=1)
    responses = (part + model.intercept_ for part, model in zip(parts, fitted, strict=True))
    return [part[:, 0] if part.shape[1] == 1 else part for part in responses]


class LinearModels(SharedEstimators):
    """Shared fits that yield linear models."""

    takes_weights = True

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """See ``SharedEstimators.predict``; multi-label models predict each by itself."""
        classes = getattr(fitted[0], "classes_", None)
        if classes is None or method == "decision_function":
            return linear_responses(fitted, X)
        binarizer = getattr(fitted[0], "_label_binarizer", None)
        if method != "predict" or (binarizer and binarizer.y_type_.startswith("multilabel")):
            return None
        return [
            classes[scores.argmax(axis=1) if scores.ndim > 1 else (scores > 0).astype(int)]
            for scores in linear_responses(fitted, X)
        ]
