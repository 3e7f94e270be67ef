"""``PathSVC``: one C-SVC by the path solver, as a scikit-learn estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from pipelines.data.scaling import FittedScaling
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.path.fit import fit_path
from pipelines.svm.path.kernels import Kernel


class PathSVC(ClassifierMixin, BaseEstimator):
    """An ordinary C-SVC; the same model as ``sklearn.svm.SVC``, found by the path solver.

    Parameters
    ----------
    C : float
    gamma : float or {"scale", "auto"}
        As scikit-learn means them.
    kernel : {"rbf", "linear", "poly", "sigmoid"}
    degree : int, of ``poly``
    coef0 : float, of ``poly`` and ``sigmoid``
    decision : {"ovo", "ovr"}
        One-vs-one, as LIBSVM, or one-vs-rest.
    class_weight : None, "balanced" or dict of label to factor of C
    tol : float
        LIBSVM's stopping tolerance.
    max_iter : int
        Most iterations of a binary problem at one C; -1 for LIBSVM's limit.
    n_threads : int, optional
        Every core by default.
    memory_bytes : int
        What may be held of kernel matrices; beyond it the fit works in blocks.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    support_ : int array of shape (n_support,), rows of the training set
    support_vectors_ : array of shape (n_support, n_features)
    dual_coef_ : float64 array of shape (n_problems, n_support)
        Signed multipliers of every binary problem, 0 for a vector with no part in it.
    intercept_ : float64 array of shape (n_problems,)
    n_iter_ : int, SMO iterations of all problems together
    fit_status_ : int, 0 when every problem converged
    machine_ : KernelMachine, the model as plain numbers
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        gamma: float | str = "scale",
        kernel: str = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
        decision: str = "ovo",
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-3,
        max_iter: int = -1,
        n_threads: int | None = None,
        memory_bytes: int = 4 << 30,
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.decision = decision
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.memory_bytes = memory_bytes

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit on the rows of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C.

        Raises
        ------
        ValueError
            A parameter or the data cannot be used; the message says which.
        """
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32))
        check_classification_targets(y)
        self._check()
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        if len(np.unique(y)) < 2:
            raise ValueError("y must have at least two classes, got 1 class")
        gamma = self._gamma(X)
        found = fit_path(
            X,
            y,
            self.C,
            gamma,
            decision=self.decision,
            tol=self.tol,
            max_iter=self.max_iter,
            n_threads=self.n_threads,
            memory_bytes=self.memory_bytes,
            class_weight=self.class_weight,
            sample_weight=sample_weight,
            kernel=self.kernel,
            degree=self.degree,
            coef0=self.coef0,
        )
        self.classes_ = found.classes
        self.support_ = found.support
        self.n_iter_ = int(found.n_iterations.sum())
        self.fit_status_ = int(found.status.max())
        self.machine_ = KernelMachine(
            support_vectors=X[found.support],
            coefficients=np.ascontiguousarray(found.dual_coef.T),
            intercepts=found.intercept,
            classes_=found.classes,
            kernel=Kernel(self.kernel, self.degree, self.coef0),
            gamma=gamma,
            decision=self.decision,
            scaling=FittedScaling(np.zeros(1), np.ones(1)),
        )
        return self

    @property
    def support_vectors_(self) -> np.ndarray:
        return self.machine_.support_vectors

    @property
    def dual_coef_(self) -> np.ndarray:
        return self.machine_.coefficients.T

    @property
    def intercept_(self) -> np.ndarray:
        return self.machine_.intercepts

    def _check(self) -> None:
        if not (np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C must be a finite number above 0, got {self.C!r}")
        if isinstance(self.gamma, str) and self.gamma not in ("scale", "auto"):
            raise ValueError(
                f"gamma must be a number above 0, 'scale' or 'auto', got {self.gamma!r}"
            )
        if self.tol <= 0:
            raise ValueError(f"tol must be above 0, got {self.tol!r}")

    def _gamma(self, X: np.ndarray) -> float:
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        if self.gamma == "scale":
            variance = X.var(dtype=np.float64)
            return 1.0 / (X.shape[1] * variance) if variance else 1.0
        return float(self.gamma)

    def predict(self, X: Any) -> np.ndarray:
        """Classes of the rows of ``X``, an array of shape (n_samples,)."""
        check_is_fitted(self)
        return self.machine_.predict(validate_data(self, X, reset=False))

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values in the form of ``SVC.decision_function``.

        Returns
        -------
        float64 array of shape (n_samples,) for two classes, positive for the
        second, else of shape (n_samples, n_classes), by class
        """
        check_is_fitted(self)
        values = self.machine_.decision_values(validate_data(self, X, reset=False))
        if len(self.classes_) == 2:
            return -values[:, 0]
        if self.decision == "ovr":
            return values
        return _ovr_decision_function(values < 0, -values, len(self.classes_))

    def save(self, path: Path | str) -> None:
        """Write the fitted model as safetensors; loading it runs no code."""
        check_is_fitted(self)
        self.machine_.save(Path(path))

    @staticmethod
    def load(path: Path | str) -> KernelMachine:
        """Read what ``save`` wrote, or a run's ``model.safetensors``.

        Returns
        -------
        KernelMachine, with ``predict`` and ``decision_function``
        """
        return KernelMachine.load(Path(path))
