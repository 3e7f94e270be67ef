"""Logistic regression: the losses of all C are evaluated together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import softmax
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from pipelines.search.shared.base import WEIGHTS
from pipelines.search.shared.lbfgs import is_known_scipy, minimise_together
from pipelines.search.shared.linear_responses import LinearModels, linear_responses
from pipelines.sklearn_private import (
    HalfBinomialLoss,
    HalfMultinomialLoss,
    check_optimize_result,
    check_sample_weight,
)

# Rounding, which grows with each step, is below 1e-5 of the coefficients after so many.
STEPS_TOGETHER = 40
# Rows times scores from which it takes longer to compute than to call the functions that do.
LEAST_TOGETHER = 1000
LEAST_TOLERANCE = 1e-6  # below, rounding decides when a descent ends
MOST_SCORES = 2**22  # that are in memory at once


@dataclass(frozen=True)
class LogisticProblem:
    """What logistic regressions are fitted to.

    Attributes
    ----------
    X : float array of shape (n_samples, n_features)
    codes : int array of shape (n_samples,), classes from 0
    weights : float array of shape (n_samples,); None where all rows weigh 1
    has_intercept : whether one is fitted, without a penalty
    """

    X: np.ndarray
    codes: np.ndarray
    n_classes: int
    weights: np.ndarray | None
    has_intercept: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Of the coefficients: two classes have one score, more one each; intercepts are last."""
        n_scores = 1 if self.n_classes == 2 else self.n_classes
        return n_scores, self.X.shape[1] + int(self.has_intercept)

    def penalty(self, C: float) -> float:
        """The factor of half the sum of the squared slopes, beside a mean of losses."""
        return 1.0 / (C * (len(self.X) if self.weights is None else float(self.weights.sum())))


class PlainLoss:
    """The penalised mean loss for one C, with the operations of scikit-learn: equal to the bit.

    Variables are as scikit-learn has them: the coefficients of one feature stand together.
    """

    def __init__(self, problem: LogisticProblem, C: float) -> None:
        self.problem, self.penalty = problem, problem.penalty(C)
        n_classes, weights = problem.n_classes, problem.weights
        multinomial_loss = HalfMultinomialLoss(n_classes=n_classes) if n_classes > 2 else None
        self.loss = multinomial_loss or HalfBinomialLoss()
        self.targets = problem.codes.astype(problem.X.dtype)
        self.total = len(problem.X) if weights is None else weights.sum()

    def __call__(
        self, indices: Sequence[int], variables: np.ndarray
    ) -> tuple[Sequence[float], Sequence[np.ndarray]]:
        """The value and the gradient; see ``minimise_together``."""
        problem, X = self.problem, self.problem.X
        n_features = X.shape[1]
        # Of two classes vectors, as products of vectors are rounded in another way.
        shape: Any = -1 if problem.n_classes == 2 else problem.shape
        coefficients = variables[0].reshape(shape, order="F")
        slopes = coefficients[..., :n_features]
        intercepts = coefficients[..., n_features] if problem.has_intercept else 0.0
        losses, errors = self.loss.loss_gradient(
            y_true=self.targets,
            raw_prediction=X @ slopes.T + intercepts,
            sample_weight=problem.weights,
        )
        errors /= self.total
        flat = slopes.ravel(order="K")
        value = float(losses.sum() / self.total) + 0.5 * self.penalty * float(flat @ flat)
        gradient = np.empty_like(coefficients)
        products = X.T @ errors if problem.n_classes == 2 else errors.T @ X
        gradient[..., :n_features] = products + self.penalty * slopes
        if problem.has_intercept:
            gradient[..., n_features] = errors.sum(axis=0)
        return [value], [gradient.ravel(order="F")]


class Losses:
    """Penalised mean losses for several C, evaluated together.

    Variables are as scikit-learn has them: the coefficients of one feature stand together.
    """

    def __init__(self, problem: LogisticProblem, Cs: Sequence[float]) -> None:
        self.problem, codes = problem, problem.codes
        self.penalties = np.array([problem.penalty(C) for C in Cs])
        weights = np.ones(len(codes)) if problem.weights is None else problem.weights
        self.relative_weights = weights / weights.sum()
        self.signs = np.where(codes == 1, 1.0, -1.0)
        self.correct = codes, np.arange(len(codes))

    def __call__(
        self, indices: Sequence[int], variables: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Values and gradients of the losses at some places; see ``minimise_together``."""
        X, n, n_features = self.problem.X, len(indices), self.problem.X.shape[1]
        n_scores, n_variables = self.problem.shape
        coefficients = variables.reshape(n, n_variables, n_scores).transpose(0, 2, 1)
        slopes = coefficients[:, :, :n_features]
        scores = (slopes.reshape(-1, n_features) @ X.T).reshape(n, n_scores, -1)
        if self.problem.has_intercept:
            scores += coefficients[:, :, n_features:]
        losses = self._binary(scores[:, 0]) if n_scores == 1 else self._multinomial(scores)
        scores *= self.relative_weights
        penalties = self.penalties[indices, None, None]
        gradients = np.empty((n, n_scores, n_variables))
        products = scores.reshape(-1, len(X)) @ X
        gradients[:, :, :n_features] = products.reshape(slopes.shape) + penalties * slopes
        if self.problem.has_intercept:
            gradients[:, :, n_features:] = scores.sum(axis=2, keepdims=True)
        values = losses @ self.relative_weights + (0.5 * penalties * slopes**2).sum(axis=(1, 2))
        return values, gradients.transpose(0, 2, 1).reshape(n, -1)

    def _binary(self, scores: np.ndarray) -> np.ndarray:
        """Losses of rows of two classes, by candidate; their derivatives replace the scores."""
        margins = scores * self.signs
        powers = np.exp(-np.abs(margins))  # at most 1
        losses: np.ndarray = np.log1p(powers) - np.minimum(margins, 0.0)
        np.divide(np.where(margins < 0, 1.0, powers), 1.0 + powers, out=scores)
        scores *= -self.signs
        return losses

    def _multinomial(self, scores: np.ndarray) -> np.ndarray:
        """Losses of rows of more classes, by candidate; their derivatives replace the scores."""
        scores -= scores.max(axis=1, keepdims=True)
        losses = -scores[:, *self.correct]
        np.exp(scores, out=scores)
        sums = scores.sum(axis=1)
        losses += np.log(sums)
        scores /= sums[:, None]
        scores[:, *self.correct] -= 1.0
        return losses


class LogisticRegressions(LinearModels):
    """``LogisticRegression`` for all C by descents side by side, with one evaluation of all.

    Each C begins at zero and takes the steps of a separate fit, and as many: where one ends at
    ``max_iter``, so does the other. They differ by how sums are rounded, as on two machines; where
    that would count, after ``STEPS_TOGETHER``, they are fitted again, rounded as by themselves.
    """

    name = "losses of all C at once"
    types = (LogisticRegression,)
    shared = ("C",)

    def accepts(self, estimator: Any) -> bool:
        """Whether the solver is L-BFGS-B with a penalty on the squares, and known."""
        return (
            estimator.solver == "lbfgs"
            and estimator.penalty in ("l2", "deprecated")
            and estimator.l1_ratio in (None, 0)
            and getattr(estimator, "multi_class", "deprecated") == "deprecated"
            and not estimator.dual
            and not estimator.verbose
            and isinstance(estimator.C, Real)
            and 0 < float(estimator.C) < np.inf
            and is_known_scipy()
        )

    def shares_on(self, X: Any) -> bool:
        """Whether the rows are dense, and have double precision, as the evaluation has."""
        return not sparse.issparse(X) and np.asarray(X[:1]).dtype != np.float32

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``SharedEstimators.fit``.

        Raises
        ------
        ValueError
            Parameters, rows or targets are such that a separate fit fails.
        """
        first = estimators[0]
        first._validate_params()
        X, y = validate_data(first, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        first.classes_, codes = np.unique(y, return_inverse=True)
        if len(first.classes_) < 2:
            raise ValueError("logistic regression takes two classes or more")
        sample_weight = weights.get(WEIGHTS)
        if sample_weight is not None or first.class_weight is not None:
            sample_weight = check_sample_weight(sample_weight, X, dtype=X.dtype, copy=True)
        if first.class_weight is not None:
            sample_weight *= compute_class_weight(
                first.class_weight, classes=first.classes_, y=y, sample_weight=sample_weight
            )[codes]
        problem = LogisticProblem(X, codes, len(first.classes_), sample_weight, first.fit_intercept)
        minima = _minima(problem, [model.C for model in estimators], first.max_iter, first.tol)
        for model, minimum in zip(estimators, minima, strict=True):
            vars(model).update(vars(first) | vars(model))
            n_steps = check_optimize_result("lbfgs", minimum, first.max_iter)
            model.n_iter_ = np.array([n_steps], np.int32)
            model.coef_ = minimum.x.reshape(problem.shape, order="F")
            model.intercept_ = np.zeros(len(model.coef_))
            if first.fit_intercept:
                model.coef_, model.intercept_ = model.coef_[:, :-1], model.coef_[:, -1]
        return list(estimators)

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """See ``SharedEstimators.predict``; also probabilities and their logarithms."""
        if method not in ("predict_proba", "predict_log_proba"):
            return super().predict(fitted, method, X)
        scores = linear_responses(fitted, X)
        if scores[0].ndim == 1:
            probabilities = [
                np.stack([1 - second, second], axis=1) for second in map(expit, scores)
            ]
        else:
            probabilities = [softmax(score) for score in scores]
        return (
            probabilities
            if method == "predict_proba"
            else [np.log(probability) for probability in probabilities]
        )


def _minima(problem: LogisticProblem, Cs: Sequence[float], max_iter: int, tol: float) -> list[Any]:
    """What scipy's ``minimize`` gives for each C, as scikit-learn calls it."""
    n_variables, n_steps = int(np.prod(problem.shape)), min(max_iter, STEPS_TOGETHER)
    options = {"maxls": 50, "gtol": tol, "ftol": 64 * np.finfo(float).eps}
    minima: list[Any] = [None] * len(Cs)
    n_scores = len(problem.X) * problem.shape[0]
    if n_scores >= LEAST_TOGETHER and tol >= LEAST_TOLERANCE:
        width = max(1, MOST_SCORES // n_scores)
        parts = [Cs[start : start + width] for start in range(0, len(Cs), width)]
        minima = [
            minimum
            for part in parts
            for minimum in minimise_together(
                Losses(problem, part), len(part), n_variables, maxiter=n_steps, **options
            )
        ]
    for i, C in enumerate(Cs):
        if minima[i] is None or (minima[i].status != 0 and n_steps < max_iter):
            loss = PlainLoss(problem, C)
            minima[i] = minimise_together(loss, 1, n_variables, maxiter=max_iter, **options)[0]
    return minima
