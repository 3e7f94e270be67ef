"""Penalised linear least squares: work that does not depend on the penalty is done once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.linear_model import ElasticNet, Lasso, Ridge, RidgeClassifier, enet_path
from sklearn.utils.class_weight import compute_sample_weight

from pipelines.search.shared.base import WEIGHTS
from pipelines.search.shared.linear_responses import LinearModels

SEED_UNUSED = 0  # saves the draw of a seed, which cyclic coordinate descent does not use


@dataclass(frozen=True)
class CentredData:
    """Rows and targets as solvers take them: centred, then scaled by the roots of the weights.

    Attributes
    ----------
    rows : float array of shape (n_samples, n_features)
    targets : float array of shape (n_samples, n_targets)
    centre, level : float arrays of shape (n_features,) and (n_targets,)
        Weighted means of rows and targets, which were subtracted; zeros without an intercept.
    """

    rows: np.ndarray
    targets: np.ndarray
    centre: np.ndarray
    level: np.ndarray

    @classmethod
    def of(cls, X: Any, y: Any, has_intercept: bool, weights: np.ndarray | None) -> CentredData:
        """Centre and scale dense rows; single precision stays single precision.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_targets)
        has_intercept : bool
            Whether to subtract the means.
        weights : float array of shape (n_samples,) or None
        """
        rows = np.asarray(X)
        rows = rows if rows.dtype == np.float32 else rows.astype(np.float64)
        targets = np.asarray(y).reshape(len(rows), -1).astype(rows.dtype)
        centre, level = np.zeros(rows.shape[1], rows.dtype), np.zeros(targets.shape[1], rows.dtype)
        if has_intercept:
            centre, level = (
                np.average(part, axis=0, weights=weights).astype(rows.dtype)
                for part in (rows, targets)
            )
        rows, targets = rows - centre, targets - level
        if weights is not None:
            roots = np.sqrt(weights).astype(rows.dtype)[:, None]
            rows, targets = rows * roots, targets * roots
        return cls(rows, targets, centre, level)

    def model(self, fitted: Any, estimator: Any, coefficients: np.ndarray) -> Any:
        """Turn an unfitted estimator into a fitted one with the given coefficients.

        Parameters
        ----------
        fitted : fitted estimator
            Fitted on the same rows; all attributes but coefficients and intercept are copied.
        estimator : unfitted estimator
            It is changed, and returned.
        coefficients : float array of shape (n_targets, n_features)
        """
        vars(estimator).update(vars(fitted) | vars(estimator))
        estimator.coef_ = coefficients.reshape(np.shape(fitted.coef_))
        if estimator.fit_intercept:
            intercept = self.level - coefficients @ self.centre
            estimator.intercept_ = intercept if np.ndim(fitted.intercept_) else intercept[0]
        return estimator


class Ridges(LinearModels):
    """``Ridge`` and ``RidgeClassifier`` for all alphas from one singular value decomposition.

    With X = Q R and R = U S V', the coefficients are V S / (S² + alpha) U' Q' y. The rows are first
    reduced to the triangle R, so that the time of its decomposition does not depend on their
    number.

    References
    ----------
    Golub and Van Loan, Matrix Computations, Johns Hopkins University Press, section 8.6.3.
    """

    name = "one decomposition for all alphas"
    types = (Ridge, RidgeClassifier)
    shared = ("alpha",)

    def accepts(self, estimator: Any) -> bool:
        """Whether the solver is exact, there is one alpha above 0, and the rows are copied."""
        return (
            estimator.solver in ("auto", "cholesky", "svd")
            and not estimator.positive
            and estimator.copy_X is True
            and isinstance(estimator.alpha, Real)
            and float(estimator.alpha) > 0
        )

    def shares_on(self, X: Any) -> bool:
        """Whether the rows are dense."""
        return not sparse.issparse(X)

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``SharedEstimators.fit``; scikit-learn fits the first, for its other attributes."""
        first = estimators[0].fit(X, y, **weights)
        if len(estimators) == 1:
            return [first]
        sample_weight, targets = weights.get(WEIGHTS), y
        if hasattr(first, "classes_"):
            targets = first._label_binarizer.transform(y)
            if first.class_weight:
                sample_weight = compute_sample_weight(first.class_weight, y) * (
                    1.0 if sample_weight is None else sample_weight
                )
        data = CentredData.of(X, targets, first.fit_intercept, sample_weight)
        triangle = linalg.qr(np.hstack([data.rows, data.targets]), mode="r")[0]
        n_features = data.rows.shape[1]
        U, S, Vt = linalg.svd(triangle[:n_features, :n_features], full_matrices=False)
        rotated_targets = U.T @ triangle[:n_features, n_features:]
        return [first] + [
            data.model(
                first, model, (Vt.T @ ((S / (S**2 + model.alpha))[:, None] * rotated_targets)).T
            )
            for model in estimators[1:]
        ]


class ElasticNets(LinearModels):
    """``Lasso`` and ``ElasticNet`` for all penalties from one Gram matrix of the features.

    Coordinate descent needs only the products of features with each other and with the targets.
    Each candidate starts at zero, as a separate fit does. So it takes the same steps, up to
    rounding, and equally many: where one ends at ``max_iter``, so does the other.

    References
    ----------
    Friedman, Hastie and Tibshirani, Regularization paths for generalized linear models via
    coordinate descent, Journal of Statistical Software 33, 2010, section 2.2.
    """

    name = "one Gram matrix for all penalties"
    types = (Lasso, ElasticNet)
    shared = ("alpha", "l1_ratio")

    def accepts(self, estimator: Any) -> bool:
        """Whether the descent is cyclic, has a penalty, and a tolerance well above rounding."""
        return (
            estimator.selection == "cyclic"
            and isinstance(estimator.precompute, bool)
            and estimator.copy_X is True
            and isinstance(estimator.alpha, Real)
            and 0 < float(estimator.alpha) < np.inf
            and isinstance(estimator.l1_ratio, Real)
            and 0 <= float(estimator.l1_ratio) <= 1
            and estimator.tol >= 1e-8
            and isinstance(estimator.random_state, Integral | np.random.RandomState | None)
        )

    def draw(self, estimator: Any) -> None:
        """See ``SharedFit.draw``; a descent draws a seed even if it is cyclic."""
        if estimator.random_state is None:
            np.random.randint(2**31 - 1)  # noqa: NPY002

    def shares_on(self, X: Any) -> bool:
        """Whether rows are dense, in double precision, and more numerous than the features.

        Only then is the Gram matrix smaller than the rows, and exact enough for the tolerance.
        """
        if sparse.issparse(X) or np.asarray(X[:1]).dtype == np.float32:
            return False
        n_rows, n_columns = np.shape(X)
        return bool(n_rows > n_columns)

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``SharedEstimators.fit``; scikit-learn fits the strongest penalty, which is quick.

        Raises
        ------
        ValueError
            There are several targets and no seed, so that each target would draw one from the
            global generator; or a descent gave coefficients that are not finite.
        """
        sample_weight = weights.get(WEIGHTS)
        if sample_weight is not None:
            # scikit-learn rescales the weights so that they sum to the number of rows.
            sample_weight = sample_weight * (len(sample_weight) / sample_weight.sum())
        strongest_index = max(range(len(estimators)), key=lambda i: estimators[i].alpha)
        seed = estimators[strongest_index].random_state
        if seed is None and np.ndim(y) > 1 and np.shape(y)[1] > 1:
            raise ValueError("several targets share work where random_state is given")
        first = (
            estimators[strongest_index].set_params(random_state=SEED_UNUSED).fit(X, y, **weights)
        )
        first.set_params(random_state=seed)
        if len(estimators) == 1:
            return [first]
        data = CentredData.of(X, y, first.fit_intercept, sample_weight)
        gram, products = data.rows.T @ data.rows, data.rows.T @ data.targets
        return [
            first if i == strongest_index else self._descend(first, estimator, data, gram, products)
            for i, estimator in enumerate(estimators)
        ]

    def _descend(
        self, first: Any, estimator: Any, data: CentredData, gram: np.ndarray, products: np.ndarray
    ) -> Any:
        """Fit an estimator to one target after the other, by coordinate descent.

        Parameters
        ----------
        first : fitted estimator
            Its attributes are copied; see ``CentredData.model``.
        estimator : unfitted estimator
        data : CentredData
        gram : float array of shape (n_features, n_features)
        products : float array of shape (n_features, n_targets)
            Products of the features with the targets.
        """
        coefficients, gaps, steps = [], [], []
        for target, product in zip(data.targets.T, products.T, strict=True):
            _, path, gap, n_steps = enet_path(
                data.rows,
                np.ascontiguousarray(target),
                l1_ratio=estimator.l1_ratio,
                alphas=[estimator.alpha],
                precompute=gram,
                Xy=np.ascontiguousarray(product),
                return_n_iter=True,
                positive=estimator.positive,
                check_input=False,
                tol=estimator.tol,
                max_iter=estimator.max_iter,
                random_state=SEED_UNUSED,
            )
            coefficients.append(path[:, 0])
            gaps.append(gap[0])
            steps.append(n_steps[0])
        model = data.model(first, estimator, np.array(coefficients))
        if not np.isfinite(model.coef_).all():
            raise ValueError("coordinate descent gave coefficients that are not finite")
        model.dual_gap_ = np.array(gaps) if len(gaps) > 1 else gaps[0]
        model.n_iter_ = steps if len(steps) > 1 else steps[0]
        return model
