"""What a fitted C-SVC says, in the form of ``sklearn.svm.SVC``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from pipelines.svm.kernel import PRECOMPUTED, Kernel
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.multiclass import class_values, codes_of, compact


def _has_probability(svc: Any) -> bool:
    if not svc.probability:
        raise AttributeError("predict_proba needs probability=True")
    return True


class FittedSVC(ClassifierMixin, BaseEstimator):
    """Predictions and attributes of a ``KernelMachine``, by the parameters of an estimator."""

    kernel: str | Callable[[Any, Any], Any]
    degree: int
    coef0: float
    decision: str
    decision_function_shape: str
    break_ties: bool
    probability: bool
    memory_bytes: int
    classes_: np.ndarray
    support_: np.ndarray
    n_support_: np.ndarray
    machine_: KernelMachine
    _rows_of_fit: Any

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == PRECOMPUTED
        tags.input_tags.sparse = self.kernel != PRECOMPUTED
        return tags

    @property
    def _is_given(self) -> bool:
        return self.solver_kernel.is_given

    @property
    def solver_kernel(self) -> Kernel:
        """The kernel as the solver knows it."""
        name = PRECOMPUTED if callable(self.kernel) else self.kernel
        return Kernel(name, self.degree, self.coef0)

    def _called(self, X: Any) -> np.ndarray:
        """The kernel that a callable gives between rows and those of the fit."""
        assert callable(self.kernel)
        values: np.ndarray = check_array(self.kernel(X, self._rows_of_fit), dtype=np.float64)
        return values

    def _dense(self, X: Any) -> np.ndarray:
        if not issparse(X):
            rows: np.ndarray = X
            return rows
        if self.kernel == PRECOMPUTED:
            raise TypeError("Sparse precomputed kernels are not supported; give X.toarray()")
        n_bytes = X.shape[0] * X.shape[1] * X.dtype.itemsize
        if n_bytes > self.memory_bytes:
            raise ValueError(
                f"X must fit in memory_bytes as a dense array, got {n_bytes:,} bytes for "
                f"memory_bytes={self.memory_bytes:,}; raise it, or reduce the columns first, "
                "with TruncatedSVD for instance"
            )
        return np.asarray(X.toarray())

    @property
    def support_vectors_(self) -> np.ndarray:
        return self.machine_.support_vectors

    @property
    def _by_pairs(self) -> bool:
        """Whether several classes were told apart pair by pair."""
        return self.decision == "ovo" and len(self.classes_) > 2

    @property
    def _sign(self) -> float:
        """SVC turns the sign of a single problem round: positive is the second class."""
        return -1.0 if len(self.classes_) == 2 else 1.0

    @property
    def dual_coef_(self) -> np.ndarray:
        coefficients = self.machine_.coefficients
        if self._by_pairs:
            return compact(coefficients, self.n_support_)
        return self._sign * coefficients.T

    @property
    def intercept_(self) -> np.ndarray:
        return self._sign * self.machine_.intercepts

    @property
    def coef_(self) -> np.ndarray:
        if self.kernel != "linear":
            raise AttributeError("coef_ is there for kernel='linear' alone")
        coef = self._sign * (self.machine_.coefficients.T @ self.machine_.support_vectors)
        coef.flags.writeable = False  # a change would not change predictions
        return coef

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Classes of the rows of ``X``, an array of shape (n_samples,)."""
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        values, n_classes = self._values(X), len(self.classes_)
        if self.break_ties and self._by_pairs:
            return self.classes_[class_values(values, n_classes, self.decision).argmax(axis=1)]
        return self.classes_[codes_of(values, n_classes, self.decision)]

    def _values(self, X: Any) -> np.ndarray:
        """Decision values of every problem, float64 of shape (n_samples, n_problems)."""
        if callable(self.kernel):
            return self.machine_.decision_values(self._called(X)[:, self.support_])
        X = self._dense(validate_data(self, X, reset=False, accept_sparse="csr"))
        return self.machine_.decision_values(X[:, self.support_] if self._is_given else X)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Decision values in the form of ``SVC.decision_function``.

        Returns
        -------
        float64 array of shape (n_samples,) for two classes, positive for the
        second, else of shape (n_samples, n_classes), by class, or by pair of classes as
        ``decision_function_shape`` says
        """
        check_is_fitted(self)
        values = self._values(X)
        if self._by_pairs and self.decision_function_shape == "ovo":
            return values
        return class_values(values, len(self.classes_), self.decision)

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Calibrated probabilities, an array of shape (n_samples, n_classes)."""
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
