"""Linear support vector machines: a Newton path along C, each fit begun where the last ended."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.svm import LinearSVC
from sklearn.utils.class_weight import compute_class_weight

from pipelines.search.shared.base import SharedEstimators

MOST_FEATURES = 2000  # a step solves a system of that size
MOST_STEPS = 100  # few are taken: from one C to the next the rows inside the margin hardly change
PRECISION = 1e-12  # of the gradient, relative to that of no coefficients
LEAST_STEP = 1e-10


class LinearSVCs(SharedEstimators):
    """``LinearSVC`` along C, with its default loss, the squared hinge.

    The primal problem is solved by Newton's method on the rows inside the margin, to machine
    precision, where ``LinearSVC`` ends within its ``tol`` (O. Chapelle, Training a support vector
    machine in the primal, Neural Computation 19, 2007).
    """

    name = "a Newton path of C"
    types = (LinearSVC,)
    shared = ("C", "tol", "max_iter", "dual", "verbose")
    one_fit = False

    def accepts(self, estimator: Any) -> bool:
        """Return whether loss and penalty have a Hessian, with one class against the rest."""
        return (
            estimator.loss == "squared_hinge"
            and estimator.penalty == "l2"
            and estimator.multi_class == "ovr"
            and estimator.C > 0
        )

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """Fit as ``SharedEstimators.fit`` says.

        Raises
        ------
        ValueError, TypeError
            The rows are sparse, or have more than ``MOST_FEATURES`` features.
        """
        rows, first = np.asarray(X, np.float64), estimators[0]
        if rows.shape[1] > MOST_FEATURES:
            raise ValueError(f"rows of more than {MOST_FEATURES:,} features share nothing")
        if not np.isfinite(rows).all():
            raise ValueError("rows with NaN or infinity share nothing")
        if first.fit_intercept:  # it is penalised as the coefficient of a constant feature
            rows = np.hstack([rows, np.full((len(rows), 1), float(first.intercept_scaling))])
        classes, codes = np.unique(np.asarray(y), return_inverse=True)
        if len(classes) < 2:
            raise ValueError("the training rows are of one class")
        factors = np.asarray(weights.get("sample_weight", np.ones(len(rows))), np.float64)
        by_class = compute_class_weight(
            first.class_weight, classes=classes, y=np.asarray(y), sample_weight=factors
        )
        positives = [1] if len(classes) == 2 else list(range(len(classes)))
        order = sorted(range(len(estimators)), key=lambda i: estimators[i].C)
        found = {i: np.empty((len(positives), rows.shape[1])) for i in order}
        steps = dict.fromkeys(order, 0)
        for place, positive in enumerate(positives):
            signs, w = np.where(codes == positive, 1.0, -1.0), np.zeros(rows.shape[1])
            # Of several classes liblinear weighs the positive one alone.
            own = by_class[codes]
            if len(classes) > 2:
                own = np.where(signs > 0, own, 1.0)
            for i in order:
                w, n_steps = _newton(rows, signs, float(estimators[i].C) * factors * own, w)
                found[i][place], steps[i] = w, max(steps[i], n_steps)
        return [_fitted(one, X, classes, found[i], steps[i]) for i, one in enumerate(estimators)]


def _newton(
    X: np.ndarray, signs: np.ndarray, C: np.ndarray, w: np.ndarray
) -> tuple[np.ndarray, int]:
    """Minimise |w|² / 2 + sum C max(0, 1 - sign (X w))² from ``w``; and the steps it took."""
    least = PRECISION * max(1.0, float(np.linalg.norm(2 * X.T @ (C * signs))))
    for step in range(MOST_STEPS):
        short = 1 - signs * (X @ w)
        inside = short > 0
        some, pull = X[inside], C[inside]
        gradient = w - 2 * some.T @ (pull * signs[inside] * short[inside])
        if np.linalg.norm(gradient) <= least:
            return w, step
        hessian = 2 * (some.T * pull) @ some
        hessian[np.diag_indices_from(hessian)] += 1.0
        move = linalg.solve(hessian, -gradient, assume_a="pos")
        value, slope, size = _objective(X, signs, C, w), gradient @ move, 1.0
        while _objective(X, signs, C, w + size * move) > value + 1e-4 * size * slope:
            size /= 2
            if size < LEAST_STEP:  # rounding is all that is left
                return w, step
        w = w + size * move
    return w, MOST_STEPS


def _objective(X: np.ndarray, signs: np.ndarray, C: np.ndarray, w: np.ndarray) -> float:
    short = np.maximum(0.0, 1 - signs * (X @ w))
    return float(0.5 * w @ w + C @ (short * short))


def _fitted(one: Any, X: Any, classes: np.ndarray, w: np.ndarray, n_steps: int) -> Any:
    """Return the estimator as ``LinearSVC.fit`` would have left it."""
    fitted = copy.copy(one)
    fitted.classes_, fitted.n_iter_ = classes, n_steps
    fitted.coef_, fitted.intercept_ = w, np.zeros(len(w))
    if one.fit_intercept:
        fitted.coef_ = np.ascontiguousarray(w[:, :-1])
        fitted.intercept_ = one.intercept_scaling * w[:, -1]
    fitted.n_features_in_ = fitted.coef_.shape[1]
    if hasattr(X, "columns"):
        fitted.feature_names_in_ = np.asarray(X.columns, dtype=object)
    return fitted


KINDS = (LinearSVCs(),)
