"""Linear models: one decomposition for every alpha of ridge regression."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.linear_model import Ridge, RidgeClassifier

from pipelines.data.dataset import read_only
from pipelines.search.shared.base import SharedEstimators


class Ridges(SharedEstimators):
    """``Ridge`` for all alphas by one singular value decomposition.

    With X = Q R and R = U S V', the coefficients are V S / (S² + alpha) U' Q' y. The rows are
    first turned into the triangle R, whose decomposition does not depend on their number
    (Golub and Van Loan, Matrix Computations, 8.6.3).
    """

    name = "one decomposition for all alphas"
    types = (Ridge, RidgeClassifier)
    shared = ("alpha",)
    takes_weights = False

    def accepts(self, estimator: Any) -> bool:
        """Return a solver that gives the exact solution, and one alpha above 0."""
        return (
            estimator.solver in ("auto", "cholesky", "svd")
            and not estimator.positive
            and isinstance(estimator.alpha, int | float)
            and estimator.alpha > 0
            and getattr(estimator, "class_weight", None) is None
        )

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``SharedEstimators.fit``; the first plainly, for all that is no coefficient."""
        first = estimators[0].fit(read_only(X), y)
        rows = np.asarray(X)
        rows = rows if rows.dtype == np.float32 else rows.astype(np.float64)
        if hasattr(first, "classes_"):
            targets = first._label_binarizer.transform(y)
        else:
            targets = np.asarray(y)
        targets = targets.reshape(len(rows), -1).astype(rows.dtype)
        centre, level = np.zeros(rows.shape[1], rows.dtype), np.zeros(targets.shape[1], rows.dtype)
        if first.fit_intercept:
            centre, level = rows.mean(axis=0), targets.mean(axis=0)
        triangle = linalg.qr(np.hstack([rows - centre, targets - level]), mode="r")[0]
        n_features = rows.shape[1]
        U, S, Vt = linalg.svd(triangle[:n_features, :n_features], full_matrices=False)
        turned = U.T @ triangle[:n_features, n_features:]
        fitted = [first]
        for other in estimators[1:]:
            coefficients = (Vt.T @ ((S / (S**2 + other.alpha))[:, None] * turned)).T
            model = copy.copy(first).set_params(**other.get_params(deep=False))
            model.coef_ = coefficients.reshape(np.shape(first.coef_))
            intercept = level - coefficients @ centre
            if first.fit_intercept:
                model.intercept_ = intercept if np.ndim(first.intercept_) else float(intercept[0])
            fitted.append(model)
        return fitted


KINDS = (Ridges(),)
