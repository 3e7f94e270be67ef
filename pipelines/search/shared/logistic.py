"""Logistic regression: the losses for all C are evaluated together."""

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

# Sums are rounded in another order than in a separate fit, and the difference grows with each step.
# After this many steps it is below 1e-5 of the coefficients.
STEPS_TOGETHER = 40
# Rows times scores. Below this, function calls take longer than the computation itself.
LEAST_TOGETHER = 1000
LEAST_TOLERANCE = 1e-6  # below this, rounding decides when a descent ends
MOST_SCORES = 2**22  # in memory at once: rows times scores times C


@dataclass(frozen=True)
class LogisticProblem:
    """The rows and classes to which logistic regressions are fitted.

    Attributes
    ----------
    X : float array of shape (n_samples, n_features)
    codes : int array of shape (n_samples,)
        Class codes from 0.
    n_classes : int
    weights : float array of shape (n_samples,) or None
        None where all rows have weight 1.
    has_intercept : bool
        Whether an intercept is fitted; it has no penalty.
    """

    X: np.ndarray
    codes: np.ndarray
    n_classes: int
    weights: np.ndarray | None
    has_intercept: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the coefficients, (scores, features + intercept); two classes have one score."""
        n_scores = 1 if self.n_classes == 2 else self.n_classes
        return n_scores, self.X.shape[1] + int(self.has_intercept)

    def penalty(self, C: float) -> float:
        """The factor of half the sum of squared slopes that is added to the mean loss."""
        return 1.0 / (C * (len(self.X) if self.weights is None else float(self.weights.sum())))


class PlainLoss:
    """The penalised mean loss for one C, by scikit-learn's operations, so equal to the bit.

    Variables are in scikit-learn's order: the coefficients of one feature stand together.

    Parameters
    ----------
    problem : LogisticProblem
    C : float
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
        """Value and gradient, each in a list of one; see ``minimise_together``."""
        problem, X = self.problem, self.problem.X
        n_features = X.shape[1]
        # A vector for two classes, as in scikit-learn: a product with a matrix rounds otherwise.
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

    Variables are in scikit-learn's order: the coefficients of one feature stand together.

    Parameters
    ----------
    problem : LogisticProblem
    Cs : sequence of float
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
        """Values and gradients of the losses for some of the C; see ``minimise_together``.

        Parameters
        ----------
        indices : sequence of int
            Positions of the C.
        variables : float array of shape (n_indices, n_variables)
        """
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
        """Loss of each row for two classes; the derivatives overwrite the scores.

        Parameters
        ----------
        scores : float array of shape (n_C, n_samples)
        """
        margins = scores * self.signs
        powers = np.exp(-np.abs(margins))  # at most 1
        losses: np.ndarray = np.log1p(powers) - np.minimum(margins, 0.0)
        np.divide(np.where(margins < 0, 1.0, powers), 1.0 + powers, out=scores)
        scores *= -self.signs
        return losses

    def _multinomial(self, scores: np.ndarray) -> np.ndarray:
        """Loss of each row for more than two classes; the derivatives overwrite the scores.

        Parameters
        ----------
        scores : float array of shape (n_C, n_classes, n_samples)
        """
        scores -= scores.max(axis=1, keepdims=True)
        losses = -scores[:, *self.correct]
        np.exp(scores, out=scores)
        sums = scores.sum(axis=1)
        losses += np.log(sums)
        scores /= sums[:, None]
        scores[:, *self.correct] -= 1.0
        return losses


class LogisticRegressions(LinearModels):
    """``LogisticRegression`` for all C by parallel descents that evaluate their losses together.

    Each C starts at zero and takes the steps of a separate fit, and equally many: where one ends at
    ``max_iter``, so does the other. Only sums are rounded in another order, as on two machines. A
    descent that takes more than ``STEPS_TOGETHER`` steps is repeated with scikit-learn's rounding.
    """

    name = "losses of all C at once"
    types = (LogisticRegression,)
    shared = ("C",)

    def accepts(self, estimator: Any) -> bool:
        """Whether it is L-BFGS-B with an L2 penalty, in a version of scipy that we know."""
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
        """Whether the rows are dense and not in single precision, as the losses are in double."""
        return not sparse.issparse(X) and np.asarray(X[:1]).dtype != np.float32

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``SharedEstimators.fit``.

        Raises
        ------
        ValueError
            Parameters, rows or targets are such that a separate fit would fail as well.
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
    """For each C, the result of scipy's ``minimize`` with the options of scikit-learn.

    Parameters
    ----------
    problem : LogisticProblem
    Cs : sequence of float
    max_iter : int
    tol : float
        Bound on the largest component of the gradient.
    """
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
