"""``PathSVC``: one C-SVC by the path solver, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from pipelines.data.model_file import Arrays, load_model
from pipelines.data.scaling import FittedScaling
from pipelines.svm.calibration import Calibration
from pipelines.svm.cpu.fit import FittedPath, fit_path
from pipelines.svm.fitted_svc import FittedSVC
from pipelines.svm.kernel import KERNELS, PRECOMPUTED
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.parameters import (
    ABOVE_0,
    AT_LEAST_1,
    CONSTRAINTS,
    factors_by_code,
    refuse_a_hard_margin,
    rows_that_count,
)
from pipelines.svm.solutions import ITERATION_LIMIT

Factors = dict[int, float] | str | None


class PathSVC(FittedSVC):
    """An ordinary C-SVC; the same model as ``sklearn.svm.SVC``, found by the path solver.

    Parameters
    ----------
    C : float
        Above 0 and finite.
    gamma : float or {"scale", "auto"}
        As in ``SVC``: above 0, 1 / (n_features * X.var()), or 1 / n_features.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable
        A callable is given two sets of rows, as ``fit`` and ``predict`` got them, and gives
        their kernel, of shape (n_samples, n_others). As in ``SVC``, ``"precomputed"`` takes
        such a kernel in the place of ``X``. Either may not be positive definite, so that
        every solve starts from 0, as in LIBSVM.
    degree : int, of ``poly``
    coef0 : float, of ``poly`` and ``sigmoid``
    decision : {"ovo", "ovr"}
        How several classes are told apart: by pairs, as ``SVC`` does, or each from
        the rest, as ``OneVsRestClassifier(SVC())``.
    decision_function_shape : {"ovr", "ovo"}
        Whether ``decision_function`` gives a value for each class or, of ``decision="ovo"``,
        for each pair.
    break_ties : bool
        Whether equal votes go to the class of the largest decision value, not to the first.
    class_weight : None, "balanced" or dict of label to factor of C
    probability : bool
        Whether to calibrate decision values for ``predict_proba``, by
        ``CalibratedClassifierCV`` on five folds; five more fits.
    tol : float
        LIBSVM's stopping tolerance.
    max_iter : int
        Most iterations of a binary problem at one C; -1 for LIBSVM's limit,
        max(10,000,000, 100 n_samples).
    n_threads : int, optional
        Every core by default.
    memory_bytes : int
        What may be held of kernel matrices; beyond it the fit works in blocks. A sparse
        ``X`` that would take more as a dense array is refused.
    shrinking, cache_size, verbose, random_state
        Those of ``SVC``, taken so that it can be replaced; without effect.

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
        Signed multipliers as in ``SVC``; of ``decision="ovr"`` and several classes of shape
        (n_classes, n_support), a row for each class against the rest.
    intercept_ : float64 array of shape (n_problems,), as in ``SVC``
    coef_ : float64 array of shape (n_problems, n_features), of ``kernel="linear"``
    n_iter_ : int array of shape (n_problems,), iterations on the whole way to this C
    fit_status_ : int, 0 when every problem converged
    machine_ : KernelMachine, the model as plain numbers

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> PathSVC(C=10).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    _parameter_constraints = {  # noqa: RUF012  as scikit-learn has it
        **CONSTRAINTS,
        "C": [ABOVE_0],
        "gamma": [StrOptions({"scale", "auto"}), ABOVE_0],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "break_ties": ["boolean"],
        "probability": ["boolean"],
        "n_threads": [AT_LEAST_1, None],
        "memory_bytes": [AT_LEAST_1],
    }

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
        n_threads: int | None = None,
        memory_bytes: int = 4 << 30,
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
        self.n_threads = n_threads
        self.memory_bytes = memory_bytes
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
            Factors of C. Rows of a weight of 0 or below are left out, as in ``SVC``; every
            class needs a row above 0.

        Raises
        ------
        ValueError
            A parameter or the data cannot be used; the message says which.

        Warns
        -----
        ConvergenceWarning
            The limit of iterations ended the fit.
        """
        refuse_a_hard_margin(self.C)
        self._validate_params()
        if self.probability:
            return self._fit_calibrated(X, y, sample_weight)
        rows, y = self.validated(X, y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must have at least two classes, got 1 class: {classes[0]}")
        gamma = self.gamma_of(rows)
        used, weights = rows_that_count(rows, classes, codes, sample_weight)
        some = (
            rows if weights is None else rows[np.ix_(used, used)] if self._is_given else rows[used]
        )
        found = fit_path(
            some,
            codes[used],
            self.C,
            gamma,
            decision=self.decision,
            tol=self.tol,
            max_iter=self.max_iter,
            n_threads=self.n_threads,
            memory_bytes=self.memory_bytes,
            class_weight=self._factors(classes, codes),
            sample_weight=weights,
            kernel=self.solver_kernel.name,
            degree=self.degree,
            coef0=self.coef0,
        )
        if np.any(found.status == ITERATION_LIMIT):
            warnings.warn(
                f"the fit did not converge to tol={self.tol} within max_iter={self.max_iter}; "
                "raise either of them, or scale the data",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self._keep(found, rows, classes, gamma, used[found.support])

    def _fit_calibrated(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """A fit without probabilities, and sigmoids from rows that other fits did not see."""
        plain = clone(self).set_params(probability=False)
        calibrated = CalibratedClassifierCV(plain, method="sigmoid", cv=5, ensemble=False)
        calibrated.fit(X, y, sample_weight=sample_weight)
        fitted = calibrated.calibrated_classifiers_[0].estimator
        for name in set(vars(fitted)) - set(self.get_params(deep=False)):
            setattr(self, name, getattr(fitted, name))
        self.machine_ = replace(fitted.machine_, calibration=Calibration.of(calibrated))
        return self

    def validated(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """What ``fit`` works on: dense rows, or the kernel that stands for them, and labels.

        Notes the number of features and their names.

        Raises
        ------
        ValueError, TypeError
            They cannot be used.
        """
        if callable(self.kernel):
            check_consistent_length(X, y)
            check_classification_targets(y)
            self._rows_of_fit = X
            rows, y = self._called(X), column_or_1d(y, warn=True)
        else:
            X, y = validate_data(
                self, X, y, dtype=(np.float64, np.float32), accept_sparse="csr",
            )  # fmt: skip
            check_classification_targets(y)
            rows = self._dense(X)
        if self.solver_kernel.is_given and rows.shape[0] != rows.shape[1]:
            raise ValueError(
                f"X must be a square matrix for kernel={PRECOMPUTED!r}, got the shape {rows.shape}"
            )
        return rows, y

    def adopt(self, found: FittedPath, X: np.ndarray) -> Self:
        """Take over a fit with these parameters that was made elsewhere, on a GPU say.

        Parameters
        ----------
        found : FittedPath, of labels
        X : array of shape (n_samples, n_features), the rows it was fitted on
        """
        self.n_features_in_ = X.shape[1]
        return self._keep(found, X, found.classes, self.gamma_of(X), found.support)

    def _keep(
        self, found: FittedPath, X: np.ndarray, classes: np.ndarray, gamma: float, support: Any
    ) -> Self:
        self.classes_ = classes
        self.support_, self.n_support_ = support, found.n_support
        self.n_iter_ = found.n_iterations.astype(np.int32)
        self.fit_status_ = int(found.status.max())
        self.machine_ = KernelMachine(
            support_vectors=np.empty((len(support), 0)) if self._is_given else X[support],
            coefficients=np.ascontiguousarray(found.dual_coef.T),
            intercepts=found.intercept,
            classes_=classes,
            kernel=self.solver_kernel,
            gamma=gamma,
            decision=self.decision,
            scaling=FittedScaling(np.zeros(1), np.ones(1)),
        )
        return self

    def gamma_of(self, X: np.ndarray) -> float:
        """The number that ``gamma`` stands for on these rows."""
        if self._is_given:
            return 1.0
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        if self.gamma == "scale":
            with np.errstate(over="ignore"):
                variance = float(X.var(dtype=np.float64))
            return 1.0 / (X.shape[1] * variance) if variance else 1.0
        return float(self.gamma)

    def _factors(self, classes: np.ndarray, codes: np.ndarray) -> Factors:
        """``class_weight`` for class codes; balanced by rows, whatever they weigh, as in SVC."""
        if self.class_weight is None:
            return None
        if self.class_weight == "balanced":
            if self.decision == "ovr" and len(classes) > 2:
                return "balanced"  # each problem has sides of its own to balance
            return dict(enumerate((len(codes) / (len(classes) * np.bincount(codes))).tolist()))
        factors: Any = self.class_weight
        return factors_by_code(factors, classes)

    def save(self, path: Path | str) -> None:
        """Write the fitted estimator as safetensors; loading it runs no code.

        Raises
        ------
        ValueError
            The kernel is precomputed or a callable: code is not stored.
        """
        check_is_fitted(self)
        if self.solver_kernel.is_given:
            raise ValueError(
                f"kernel must be one of {', '.join(KERNELS)} to be saved, got {self.kernel!r}"
            )
        parameters = self.get_params()
        if isinstance(self.class_weight, dict):  # the keys of JSON are text, labels need not be
            parameters["class_weight"] = [list(pair) for pair in self.class_weight.items()]
        names = getattr(self, "feature_names_in_", None)
        estimator = {
            "parameters": parameters,
            "n_iter": self.n_iter_.tolist(),
            "fit_status": self.fit_status_,
            "feature_names": None if names is None else list(names),
        }
        arrays = {"support": self.support_, "n_support": self.n_support_}
        self.machine_.save(Path(path), arrays, path_svc=estimator)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what ``save`` wrote: a fitted estimator.

        Raises
        ------
        InputError
            The file is missing, damaged or something else.
        """
        return load_model(
            Path(path), cls._from_stored, "a file that PathSVC.save wrote",
            "a run's model.safetensors is read by KernelMachine.load",
        )  # fmt: skip

    @classmethod
    def _from_stored(cls, arrays: Arrays, about: dict[str, Any]) -> Self:
        if "path_svc" not in about:
            raise ValueError("it holds none")
        machine, about = KernelMachine.from_stored(arrays, about), about["path_svc"]
        parameters = dict(about["parameters"])
        if isinstance(parameters["class_weight"], list):
            parameters["class_weight"] = dict(parameters["class_weight"])
        restored = cls(**parameters)
        restored._validate_params()
        support, n_support = arrays["support"], arrays["n_support"]
        if support.shape != (len(machine.support_vectors),):
            raise ValueError(f"its support has the shape {support.shape}")
        if n_support.shape != machine.classes_.shape or n_support.sum() != len(support):
            raise ValueError(f"its support is {len(support)}, by class {n_support.tolist()}")
        restored.machine_, restored.support_, restored.n_support_ = machine, support, n_support
        restored.classes_ = machine.classes_
        restored.n_iter_ = np.atleast_1d(np.array(about["n_iter"], np.int32))
        restored.fit_status_ = int(about["fit_status"])
        restored.n_features_in_ = machine.support_vectors.shape[1]
        if about["feature_names"] is not None:
            restored.feature_names_in_ = np.array(about["feature_names"], dtype=object)
        return restored
