"""The base class of ``PathSVC`` and ``PathSVR``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from pipelines.data.model_file import Arrays, read_model_file
from pipelines.data.scaling import FittedScaling
from pipelines.sklearn_private import Interval, Options, StrOptions, check_y
from pipelines.svm.kernel import DEFINITE, KERNELS, PRECOMPUTED, gamma_of
from pipelines.svm.kernel_machine import KernelMachine, KernelRegressor
from pipelines.svm.settings import Settings
from pipelines.svm.solutions import ITERATION_LIMIT

_ABOVE_0 = Interval(Real, 0, None, closed="neither")
_AT_LEAST_1 = Interval(Integral, 1, None, closed="left")


class PathEstimator(BaseEstimator):
    """The common part of ``PathSVC`` and ``PathSVR``: parameters, input, kernel and file."""

    _parameter_constraints = {  # noqa: RUF012  as scikit-learn has it
        "C": [_ABOVE_0],
        "gamma": [StrOptions({"scale", "auto"}), _ABOVE_0],
        "kernel": [StrOptions({*KERNELS, PRECOMPUTED}), callable],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "tol": [_ABOVE_0],
        "max_iter": [_AT_LEAST_1, Options(Integral, {-1})],
        "n_jobs": [_AT_LEAST_1, Options(Integral, {-1}), None],
        "memory_bytes": [_AT_LEAST_1],
        "approximation": [StrOptions({"nystroem"}), None],
        "n_landmarks": [_AT_LEAST_1],
        "random_state": ["random_state"],
    }

    _machine_type: ClassVar[type[KernelMachine | KernelRegressor]]  # of ``machine_``
    _stored_as: ClassVar[str]  # where a file holds the estimator's part, beside its machine
    C: float
    gamma: float | str
    kernel: str | Callable[[Any, Any], Any]
    degree: int
    coef0: float
    tol: float
    max_iter: int
    n_jobs: int | None
    memory_bytes: int
    approximation: str | None
    n_landmarks: int
    random_state: Any
    support_: np.ndarray
    n_support_: np.ndarray
    machine_: Any
    fit_status_: int
    n_iter_: Any
    _rows_of_fit: Any
    _sign: float = 1.0  # turns the machine's coefficients into LIBSVM's

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Names of the parameters; cached, as scikit-learn reads the signature at each call."""
        names: list[str] = super()._get_param_names()
        return names

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == PRECOMPUTED
        tags.input_tags.sparse = self.kernel != PRECOMPUTED
        return tags

    @property
    def _is_given(self) -> bool:
        return callable(self.kernel) or self.kernel == PRECOMPUTED

    def validated(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Validate the input of ``fit``, and note the number of features and their names.

        Returns
        -------
        rows : array of shape (n_samples, n_features)
            Dense; or the kernel matrix, of shape (n_samples, n_samples).
        y : array of shape (n_samples,)

        Raises
        ------
        ValueError, TypeError
            The parameters, ``X`` or ``y`` cannot be used.
        """
        if self.approximation is not None and self.kernel not in DEFINITE:
            raise ValueError(
                f"kernel must be one of {', '.join(DEFINITE)} for "
                f"approximation={self.approximation!r}, got {self.kernel!r}"
            )
        numeric = is_regressor(self)
        if callable(self.kernel):
            check_consistent_length(X, y)
            y = check_y(y, y_numeric=numeric, estimator=self)
            self._rows_of_fit = X
            rows = self._called(X)
        else:
            X, y = validate_data(
                self, X, y, dtype=(np.float64, np.float32), accept_sparse="csr", y_numeric=numeric
            )
            rows = self._dense(X)
        if not numeric and y.dtype.kind not in "biu":  # integers are classes in any case
            check_classification_targets(y)
        if self._is_given and rows.shape[0] != rows.shape[1]:
            raise ValueError(
                f"X must be a square matrix for kernel={PRECOMPUTED!r}, got the shape {rows.shape}"
            )
        return rows, y

    def _called(self, X: Any) -> np.ndarray:
        """Values of a callable kernel between ``X`` and the rows of the fit."""
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

    def gamma_of(self, X: np.ndarray) -> float:
        """Gamma as a number, which ``"scale"`` and ``"auto"`` derive from these rows."""
        has_none = self._is_given or self.kernel == "linear"
        return 1.0 if has_none else gamma_of(self.gamma, X)

    def _keep_fit(self, X: np.ndarray, support: np.ndarray, status: Any, **machine: Any) -> None:
        """Set the fitted attributes from a solution, and warn if it did not converge.

        ``machine`` are the fields of ``machine_`` that depend on its type.
        """
        self.support_, self.fit_status_ = support, int(np.max(status))
        self.machine_ = self._machine_type(
            support_vectors=np.empty((len(support), 0)) if self._is_given else X[support],
            kernel=Settings.of(self).at(),
            scaling=FittedScaling(np.zeros(1), np.ones(1)),
            **machine,
        )
        if np.any(status == ITERATION_LIMIT):
            warnings.warn(
                f"the fit did not converge to tol={self.tol} within max_iter={self.max_iter}; "
                "raise either of them, or scale the data",
                ConvergenceWarning,
                stacklevel=3,
            )

    @property
    def support_vectors_(self) -> np.ndarray:
        """The support vectors; without columns if the kernel is precomputed or a callable."""
        return self.machine_.support_vectors

    @property
    def dual_coef_(self) -> np.ndarray:
        """Signed multipliers of the support vectors, with a row for each problem."""
        return self._sign * self.machine_.coefficients.T

    @property
    def intercept_(self) -> np.ndarray:
        """The constants of the decision functions."""
        return self._sign * self.machine_.intercepts

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, for the linear kernel only; read-only.

        Raises
        ------
        AttributeError
            The kernel is not linear.
        """
        if self.kernel != "linear":
            raise AttributeError("coef_ is there for kernel='linear' alone")
        coef = self._sign * (self.machine_.coefficients.T @ self.machine_.support_vectors)
        coef.flags.writeable = False  # a change would not change predictions
        return coef

    def _values(self, X: Any) -> np.ndarray:
        """Decision values of every problem, float64 of shape (n_samples, n_problems)."""
        if callable(self.kernel):
            return self.machine_.decision_values(self._called(X)[:, self.support_])
        # Integers are converted to float64 block by block later; text has to be converted here.
        is_text = getattr(getattr(X, "dtype", None), "kind", None) in ("U", "S")
        dtype: Any = np.float64 if is_text else "numeric"
        X = self._dense(validate_data(self, X, reset=False, accept_sparse="csr", dtype=dtype))
        return self.machine_.decision_values(X[:, self.support_] if self._is_given else X)

    def save(self, path: Path | str) -> None:
        """Write the fitted estimator as safetensors; loading it runs no code.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        ValueError
            The kernel is precomputed or a callable: code is not stored.
        """
        check_is_fitted(self)
        if self._is_given:
            raise ValueError(
                f"kernel must be one of {', '.join(KERNELS)} to be saved, got {self.kernel!r}"
            )
        names = getattr(self, "feature_names_in_", None)
        estimator = {
            # Pairs instead of an object: JSON's keys are text, labels need not be.
            "parameters": {
                name: [list(pair) for pair in value.items()] if isinstance(value, dict) else value
                for name, value in self.get_params().items()
            },
            "n_iter": np.asarray(self.n_iter_).tolist(),
            "fit_status": self.fit_status_,
            "feature_names": None if names is None else list(names),
        }
        arrays = {"support": self.support_, "n_support": self.n_support_}
        self.machine_.save(Path(path), arrays, **{self._stored_as: estimator})

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a fitted estimator that ``save`` wrote.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        InputError
            The file is missing or damaged, or holds no such estimator.
        """
        return read_model_file(
            Path(path),
            cls._from_stored,
            f"a file that {cls.__name__}.save wrote",
            f"a run's model.safetensors is read by {cls._machine_type.__name__}.load",
        )

    @classmethod
    def _from_stored(cls, arrays: Arrays, about: dict[str, Any]) -> Self:
        machine = cls._machine_type.from_stored(arrays, about)
        if cls._stored_as not in about:
            raise ValueError("it holds none")
        about = about[cls._stored_as]
        restored = cls(
            **{
                name: dict(value) if isinstance(value, list) else value
                for name, value in about["parameters"].items()
            }
        )
        restored._validate_params()
        support = arrays["support"]
        if support.shape != (len(machine.support_vectors),):
            raise ValueError(f"its support has the shape {support.shape}")
        restored.machine_, restored.support_ = machine, support
        restored.n_iter_, restored.fit_status_ = about["n_iter"], int(about["fit_status"])
        restored.n_features_in_ = machine.support_vectors.shape[1]
        if about["feature_names"] is not None:
            restored.feature_names_in_ = np.array(about["feature_names"], dtype=object)
        return restored
