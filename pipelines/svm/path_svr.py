"""``PathSVR``: one epsilon-SVR by the path solver, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from pipelines.sklearn_private import Interval, check_sample_weight
from pipelines.svm.cpu.regression import fit_regression
from pipelines.svm.kernel_machine import KernelRegressor
from pipelines.svm.path_estimator import PathEstimator
from pipelines.svm.settings import Settings


class PathSVR(RegressorMixin, PathEstimator):
    """Epsilon-support vector regression: the model of ``sklearn.svm.SVR``, by the path solver.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable, default "rbf"
        As for ``PathSVC``.
    degree : int, default 3
        Degree of ``poly``; at least 0.
    gamma : float or {"scale", "auto"}, default "scale"
        As in ``SVR``: above 0, 1 / (n_features * X.var()), or 1 / n_features.
    coef0 : float, default 0.0
        Constant of ``poly`` and ``sigmoid``; finite.
    tol : float, default 1e-3
        LIBSVM's stopping tolerance, in units of ``y``; above 0.
    C : float, default 1.0
        Penalty of an error; above 0 and finite.
    epsilon : float, default 0.1
        Half the width of the tube around the targets within which errors cost nothing; at least 0,
        in units of ``y``.
    scale_target : bool, default False
        Whether to standardise the targets by their mean and standard deviation: ``C``,
        ``epsilon`` and ``tol`` are then in units of that standard deviation, as are
        ``dual_coef_`` and ``intercept_``.
    max_iter : int, default -1
        Most iterations at one C, at least 1; -1 for LIBSVM's limit,
        max(10,000,000, 200 n_samples).
    n_jobs : int, optional
        Threads; at least 1. None and -1 use every core.
    memory_bytes : int, default 4 GiB
        Bytes of kernel matrices that may be held, as for ``PathSVC``; at least 1.
    approximation : {"nystroem"} or None, default None
        As for ``PathSVC``.
    n_landmarks : int, default 1000
        As for ``PathSVC``; at least 1.
    random_state : int, RandomState or None, default None
        Seed for the choice of landmarks; None for 0.
    shrinking : bool, default True
    cache_size : float, default 200
    verbose : bool or int, default False
        Parameters of ``SVR`` without effect, accepted so that this class can replace it.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : array of str of shape (n_features_in_,)
        Where ``X`` had names.
    support_ : int array of shape (n_support,), rows of the training set, ascending
    support_vectors_ : array of shape (n_support, n_features)
        Without columns where the kernel is precomputed or a callable.
    n_support_ : int array of shape (1,)
    dual_coef_ : float64 array of shape (1, n_support), as in ``SVR``
    intercept_ : float64 array of shape (1,)
        The middle of an interval where every multiplier is at a bound, as for ``PathSVC``.
    coef_ : float64 array of shape (1, n_features), for ``kernel="linear"``
    n_iter_ : int, iterations of the whole path up to this C
    fit_status_ : int, 0 when it converged
    machine_ : KernelRegressor, the model as plain numbers

    References
    ----------
    C.-C. Chang, C.-J. Lin, "LIBSVM: a library for support vector machines", ACM TIST 2, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> PathSVR(C=10, epsilon=0.01).fit(X, np.sin(X[:, 0])).predict([[1.5]]).round(2)
    array([1.])
    """

    _parameter_constraints = {  # noqa: RUF012  as scikit-learn has it
        **PathEstimator._parameter_constraints,
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "scale_target": ["boolean"],
    }

    _machine_type, _stored_as = KernelRegressor, "path_svr"

    def __init__(
        self,
        *,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        scale_target: bool = False,
        max_iter: int = -1,
        n_jobs: int | None = None,
        memory_bytes: int = 4 << 30,
        approximation: str | None = None,
        n_landmarks: int = 1000,
        random_state: Any = None,
        shrinking: bool = True,
        cache_size: float = 200,
        verbose: bool | int = False,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.scale_target = scale_target
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.memory_bytes = memory_bytes
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.random_state = random_state
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit on the rows of ``X``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Of shape (n_samples, n_samples) for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C. Rows with a weight of 0 or below are left out, as in ``SVR``.

        Returns
        -------
        PathSVR
            The estimator itself.

        Raises
        ------
        ValueError
            A parameter or the data cannot be used; the message says which.

        Warns
        -----
        ConvergenceWarning
            The iteration limit ended the fit.
        """
        self._validate_params()
        rows, targets = self.validated(X, y)
        gamma, weights = self.gamma_of(rows), None
        if sample_weight is not None:
            weights = check_sample_weight(sample_weight, rows, dtype=np.float64)
        targets = np.asarray(targets, np.float64)
        mean, scale = target_moments(targets) if self.scale_target else (0.0, 1.0)
        settings, scaled = Settings.of(self), (targets - mean) / scale
        if settings.n_landmarks:
            from pipelines.svm.landmarks.landmark_search import fit_regressor

            fitted = fit_regressor(rows, scaled, self.C, gamma, self.epsilon, settings, weights)
        else:
            fitted = fit_regression(
                rows,
                scaled,
                self.C,
                gamma,
                self.epsilon,
                sample_weight=weights,
                **vars(settings),
            )
        self.n_iter_ = fitted.n_iterations
        self._keep_fit(
            rows,
            fitted.support,
            fitted.status,
            coefficients=fitted.dual_coef[:, None],
            intercepts=np.array([fitted.intercept]),
            gamma=gamma,
            target_mean=mean,
            target_scale=scale,
        )
        return self

    @property
    def n_support_(self) -> np.ndarray:  # type: ignore[override]
        return np.array([len(self.support_)], np.int32)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the targets of the rows of ``X``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            For ``kernel="precomputed"``, the kernel with the rows of the fit, of shape
            (n_samples, n_samples_fit).

        Returns
        -------
        float64 array of shape (n_samples,)
            In units of ``y``.
        """
        check_is_fitted(self)
        return self._values(X)[:, 0] * self.machine_.target_scale + self.machine_.target_mean


def target_moments(targets: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of targets; the deviation is 1 where all are equal."""
    return float(np.mean(targets)), float(np.std(targets)) or 1.0
