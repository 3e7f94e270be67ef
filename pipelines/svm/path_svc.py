"""``PathSVC``: one C-SVC by the path solver, as a scikit-learn estimator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pipelines.data.model_file import Arrays
from pipelines.sklearn_private import StrOptions, check_sample_weight
from pipelines.svm.cpu.fit import FittedPath, fit_path
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.multiclass import class_values, codes_of, compact
from pipelines.svm.path_estimator import PathEstimator
from pipelines.svm.probabilities import Calibration
from pipelines.svm.settings import DECISIONS, Settings


def _has_probability(svc: Any) -> bool:
    if not svc.probability:
        raise AttributeError("predict_proba needs probability=True")
    return True


class PathSVC(ClassifierMixin, PathEstimator):
    """C-support vector classification: the model of ``sklearn.svm.SVC``, by the path solver.

    Parameters
    ----------
    C : float, default 1.0
        Penalty of an error; above 0 and finite.
    gamma : float or {"scale", "auto"}, default "scale"
        As in ``SVC``: above 0, 1 / (n_features * X.var()), or 1 / n_features.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable, default "rbf"
        A callable is called with two sets of rows, as ``fit`` and ``predict`` got them, and
        returns their kernel matrix, of shape (n_samples, n_others). As in ``SVC``,
        ``"precomputed"`` takes such a matrix in place of ``X``. Either may not be positive
        definite, so every solve starts from 0, as in LIBSVM.
    degree : int, default 3
        Degree of ``poly``; at least 0.
    coef0 : float, default 0.0
        Constant of ``poly`` and ``sigmoid``; finite.
    decision : {"ovo", "ovr"}, default "ovo"
        One-vs-one, as ``SVC``, or one-vs-rest, as ``OneVsRestClassifier(SVC())``.
    decision_function_shape : {"ovr", "ovo"}, default "ovr"
        Whether ``decision_function`` returns a value for each class or, with ``decision="ovo"``,
        for each pair.
    break_ties : bool, default False
        Whether equal votes go to the class with the largest decision value, not to the first.
    class_weight : None, "balanced" or dict of label to factor of C, default None
    probability : bool, default False
        Whether to calibrate decision values for ``predict_proba``, by
        ``CalibratedClassifierCV`` on five folds; five more fits.
    tol : float, default 1e-3
        LIBSVM's stopping tolerance; above 0.
    max_iter : int, default -1
        Most iterations of a binary problem at one C, at least 1; -1 for LIBSVM's limit,
        max(10,000,000, 100 n_samples).
    n_jobs : int, optional
        Threads; at least 1. None and -1 use every core.
    memory_bytes : int, default 4 GiB
        Bytes of kernel matrices that may be held, at least 1; beyond it the fit works in blocks. A
        sparse ``X`` that would take more as a dense array is refused.
    approximation : {"nystroem"} or None, default None
        Whether to approximate the kernel by landmarks, some of the rows: the time then grows with
        the number of rows, not with its square. For the kernels rbf, linear and poly.
    n_landmarks : int, default 1000
        Number of landmarks with ``approximation``, which are then the support vectors; at least 1.
    shrinking : bool, default True
    cache_size : float, default 200
    verbose : bool or int, default False
        Parameters of ``SVC`` without effect, accepted so that this class can replace it.
    random_state : int, RandomState or None, default None
        Seed for the choice of landmarks; None for 0. Without effect on exact fits.

    Attributes
    ----------
    classes_ : array of shape (n_classes,), the labels, sorted
    n_features_in_ : int
    feature_names_in_ : array of str of shape (n_features_in_,)
        Where ``X`` had names.
    support_ : int array of shape (n_support,), rows of the training set, class by class
    support_vectors_ : array of shape (n_support, n_features)
        Without columns where the kernel is precomputed or a callable.
    n_support_ : int array of shape (n_classes,), support vectors of each class
    dual_coef_ : float64 array of shape (n_classes - 1, n_support)
        Signed multipliers as in ``SVC``; with ``decision="ovr"`` and several classes, of shape
        (n_classes, n_support), a row for each class against the rest; with ``approximation``, of
        shape (n_problems, n_support).
    intercept_ : float64 array of shape (n_problems,), as in ``SVC``
        Where every multiplier is at a bound, any value in an interval is optimal: this is the
        middle, while ``SVC`` may choose another.
    coef_ : float64 array of shape (n_problems, n_features), for ``kernel="linear"``
    n_iter_ : int array of shape (n_problems,), iterations of the whole path up to this C
    fit_status_ : int, 0 when every problem converged
    machine_ : KernelMachine, the model as plain numbers

    References
    ----------
    C.-C. Chang, C.-J. Lin, "LIBSVM: a library for support vector machines", ACM TIST 2, 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> PathSVC(C=10).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    _parameter_constraints = {  # noqa: RUF012  as scikit-learn has it
        **PathEstimator._parameter_constraints,
        "decision": [StrOptions(set(DECISIONS))],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "break_ties": ["boolean"],
        "probability": ["boolean"],
    }

    _machine_type, _stored_as = KernelMachine, "path_svc"

    def __init__(
        self,
        C: float = 1.0,
        *,
        gamma: float | str = "scale",
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
        decision: str = "ovo",
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        class_weight: dict[Any, float] | str | None = None,
        probability: bool = False,
        tol: float = 1e-3,
        max_iter: int = -1,
        n_jobs: int | None = None,
        memory_bytes: int = 4 << 30,
        approximation: str | None = None,
        n_landmarks: int = 1000,
        shrinking: bool = True,
        cache_size: float = 200,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.decision = decision
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.class_weight = class_weight
        self.probability = probability
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.memory_bytes = memory_bytes
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit on the rows of ``X``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Of shape (n_samples, n_samples) for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C. Rows with a weight of 0 or below are left out, as in ``SVC``; every class
            needs a row with a weight above 0.

        Returns
        -------
        PathSVC
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
        rows, y = self.validated(X, y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must have at least two classes, got 1 class: {classes[0]}")
        gamma, settings = self.gamma_of(rows), Settings.of(self)
        weights = checked_weights(rows, classes, codes, sample_weight)
        if isinstance(self.class_weight, Mapping):
            factors = factors_by_code(self.class_weight, classes)
            settings = replace(settings, class_weight=factors)
        if self.probability:  # checked before, as the calibration sees only rows of splits
            return self.fit_calibrated(X, y, sample_weight)
        fitted = self._solve(rows, codes, gamma, settings, weights)
        self.classes_, self.n_support_ = classes, fitted.n_support
        self.n_iter_ = fitted.n_iterations.astype(np.int32)
        self._keep_fit(
            rows,
            fitted.support,
            fitted.status,
            intercepts=fitted.intercept,
            gamma=gamma,
            coefficients=np.ascontiguousarray(fitted.dual_coef.T),
            classes_=classes,
            decision=self.decision,
        )
        return self

    def _solve(
        self, X: np.ndarray, y: np.ndarray, gamma: float, settings: Settings, weights: Any
    ) -> FittedPath:
        """Fit class codes; ``X`` is dense, or the kernel matrix."""
        if settings.n_landmarks:
            from pipelines.svm.landmarks.landmark_search import fit_classifier

            return fit_classifier(X, y, self.C, gamma, settings, weights)
        return fit_path(X, y, self.C, gamma, sample_weight=weights, **vars(settings))

    def fit_calibrated(self, X: Any, y: Any, sample_weight: Any = None, cv: Any = 5) -> Self:
        """Fit without probabilities, then fit sigmoids to decision values of held-out rows.

        Parameters
        ----------
        X, y, sample_weight : as for ``fit``
        cv : int or splits, default 5
            Splits; the sigmoids are fitted to the decision values of their validation rows.
        """
        plain, classes = clone(self).set_params(probability=False), None
        if isinstance(self.class_weight, Mapping):  # the calibration fits codes, not labels
            classes, y = np.unique(y, return_inverse=True)
            plain.class_weight = factors_by_code(self.class_weight, classes)
        calibrated = CalibratedClassifierCV(plain, method="sigmoid", cv=cv, ensemble=False)
        calibrated.fit(X, y, sample_weight=sample_weight)
        (only,) = calibrated.calibrated_classifiers_
        fitted = only.estimator
        for name in set(vars(fitted)) - set(self.get_params(deep=False)):
            setattr(self, name, getattr(fitted, name))
        if classes is not None:
            self.classes_ = classes
        self.machine_ = replace(
            fitted.machine_, classes_=self.classes_, calibration=Calibration.of(only.calibrators)
        )
        return self

    @property
    def _by_pairs(self) -> bool:
        """Whether there are more than two classes, separated pair by pair."""
        return self.decision == "ovo" and len(self.classes_) > 2

    @property
    def _sign(self) -> float:  # type: ignore[override]
        """-1 for two classes: ``SVC`` flips the sign of a single problem, so that positive decision
        values mean the second class."""
        return -1.0 if len(self.classes_) == 2 else 1.0

    @property
    def dual_coef_(self) -> np.ndarray:
        if self._by_pairs and self.approximation is None:
            return compact(self.machine_.coefficients, self.n_support_)
        return super().dual_coef_

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the classes of the rows of ``X``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            For ``kernel="precomputed"``, the kernel with the rows of the fit, of shape
            (n_samples, n_samples_fit).

        Returns
        -------
        array of shape (n_samples,)

        Raises
        ------
        ValueError
            ``break_ties`` is set, and ``decision_function_shape`` is ``"ovo"``.
        """
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        values, n_classes = self._values(X), len(self.classes_)
        if self.break_ties and self._by_pairs:
            return self.classes_[class_values(values, n_classes, self.decision).argmax(axis=1)]
        return self.classes_[codes_of(values, n_classes, self.decision)]

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Decision values in the form of ``SVC.decision_function``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            As for ``predict``.

        Returns
        -------
        float64 array of shape (n_samples,) for two classes, else (n_samples, n_classes)
            For two classes, positive for the second. With ``decision_function_shape="ovo"``, a
            column for each pair of classes.
        """
        check_is_fitted(self)
        values = self._values(X)
        if self._by_pairs and self.decision_function_shape == "ovo":
            return values
        return class_values(values, len(self.classes_), self.decision)

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Calibrated class probabilities; only with ``probability=True``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            As for ``predict``.

        Returns
        -------
        float64 array of shape (n_samples, n_classes)
            In the order of ``classes_``; rows add up to 1.

        Raises
        ------
        NotFittedError
            It was fitted with ``probability=False``.
        """
        check_is_fitted(self)
        if self.machine_.calibration is None:
            raise NotFittedError(
                "predict_proba is not available when fitted with probability=False; fit again"
            )
        values = class_values(self._values(X), len(self.classes_), self.decision)
        return self.machine_.calibration.probabilities(values)

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Natural logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @classmethod
    def _from_stored(cls, arrays: Arrays, about: dict[str, Any]) -> Self:
        restored = super()._from_stored(arrays, about)
        classes, n_support = restored.machine_.classes_, arrays["n_support"]
        n_all = len(restored.support_)
        if n_support.shape != classes.shape or n_support.sum() != n_all:
            raise ValueError(f"its support is {n_all}, by class {n_support.tolist()}")
        restored.classes_, restored.n_support_ = classes, n_support
        restored.n_iter_ = np.atleast_1d(np.array(restored.n_iter_, np.int32))
        return restored


def factors_by_code(class_weight: Mapping[Any, float], classes: np.ndarray) -> dict[int, float]:
    """The factors of C by class code, from factors by label; 1 for a label that has none.

    Raises
    ------
    ValueError
        A factor is not above 0 and finite; or a label is not a class while a class has no factor,
        which looks like a slip.
    """
    for label, factor in class_weight.items():
        if not (isinstance(factor, Real) and math.isfinite(factor) and factor > 0):
            raise ValueError(
                f"class_weight must be of finite factors above 0, got {factor!r} for {label!r}"
            )
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown and not all(label in class_weight for label in labels):
        raise ValueError(
            f"class_weight must be of the classes of y, got {unknown[0]!r}, which is none of "
            f"{', '.join(map(repr, labels[:5]))}"
        )
    return {code: float(class_weight.get(label, 1.0)) for code, label in enumerate(labels)}


def checked_weights(
    X: np.ndarray, classes: np.ndarray, codes: np.ndarray, sample_weight: Any
) -> np.ndarray | None:
    """The sample weights as float64, or None.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    classes : array of shape (n_classes,)
    codes : int array of shape (n_samples,)
        Indices of ``classes``.
    sample_weight : array-like of shape (n_samples,), optional

    Raises
    ------
    ValueError
        A class has no row with a weight above 0.
    """
    if sample_weight is None:
        return None
    weights: np.ndarray = check_sample_weight(sample_weight, X, dtype=np.float64)
    missing_classes = np.setdiff1d(np.arange(len(classes)), codes[weights > 0])
    if len(missing_classes):
        raise ValueError(
            f"sample_weight must be above 0 for a row of every class, class "
            f"{str(classes[missing_classes[0]])!r} has none; drop the rows of that class"
        )
    return weights
