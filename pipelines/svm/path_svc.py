"""``PathSVC``: one C-SVC by the path solver, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from pipelines.data.model_file import DAMAGE, Arrays, read_model
from pipelines.data.scaling import FittedScaling
from pipelines.errors import InputError
from pipelines.svm.cpu.fit import FittedPath, fit_path
from pipelines.svm.kernel import Kernel
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.parameters import ABOVE_0, AT_LEAST_1, CONSTRAINTS, factors_by_code
from pipelines.svm.solutions import ITERATION_LIMIT


class PathSVC(ClassifierMixin, BaseEstimator):
    """An ordinary C-SVC; the same model as ``sklearn.svm.SVC``, found by the path solver.

    Parameters
    ----------
    C : float
        Above 0.
    gamma : float or {"scale", "auto"}
        As in ``SVC``: above 0, 1 / (n_features * X.var()), or 1 / n_features.
    kernel : {"rbf", "linear", "poly", "sigmoid"}
    degree : int, of ``poly``
    coef0 : float, of ``poly`` and ``sigmoid``
    decision : {"ovo", "ovr"}
        How several classes are told apart: by pairs, as ``SVC`` does, or each from
        the rest, as ``OneVsRestClassifier(SVC())``.
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
    classes_ : array of shape (n_classes,), the labels, sorted
    n_features_in_ : int
    feature_names_in_ : array of str of shape (n_features_in_,)
        Where ``X`` had names.
    support_ : int array of shape (n_support,), rows of the training set, ascending
    support_vectors_ : array of shape (n_support, n_features)
    n_support_ : int array of shape (n_classes,), support vectors of each class
    dual_coef_ : float64 array of shape (n_problems, n_support)
        Signed multipliers of every binary problem, 0 for a vector with no part in it.
        A value above 0 speaks for the first class of a pair, or the one against the rest.
    intercept_ : float64 array of shape (n_problems,)
    n_iter_ : int, SMO iterations of all problems together
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
        "n_threads": [AT_LEAST_1, None],
        "memory_bytes": [AT_LEAST_1],
    }

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
            Factors of C, at least 0; every class needs a row above 0.

        Raises
        ------
        ValueError
            A parameter or the data cannot be used; the message says which.

        Warns
        -----
        ConvergenceWarning
            The limit of iterations ended the fit.
        """
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32))
        check_classification_targets(y)
        self._validate_params()
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must have at least two classes, got 1 class: {classes[0]}")
        gamma = self._gamma(X)
        rows, weights = _rows_that_count(X, classes, codes, sample_weight)
        found = fit_path(
            X[rows],
            codes[rows],
            self.C,
            gamma,
            decision=self.decision,
            tol=self.tol,
            max_iter=self.max_iter,
            n_threads=self.n_threads,
            memory_bytes=self.memory_bytes,
            class_weight=self._factors(classes, codes),
            sample_weight=weights,
            kernel=self.kernel,
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
        return self._keep(found, X, classes, gamma, np.arange(len(X))[rows][found.support])

    def adopt(self, found: FittedPath, X: np.ndarray) -> Self:
        """Take over a fit with these parameters that was made elsewhere, on a GPU say.

        Parameters
        ----------
        found : FittedPath, of labels
        X : array of shape (n_samples, n_features), the rows it was fitted on
        """
        self.n_features_in_ = X.shape[1]
        return self._keep(found, X, found.classes, self._gamma(X), found.support)

    def _keep(
        self, found: FittedPath, X: np.ndarray, classes: np.ndarray, gamma: float, support: Any
    ) -> Self:
        self.classes_ = classes
        self.support_, self.n_support_ = support, found.n_support
        self.n_iter_ = int(found.n_iterations.sum())
        self.fit_status_ = int(found.status.max())
        self.machine_ = KernelMachine(
            support_vectors=X[support],
            coefficients=np.ascontiguousarray(found.dual_coef.T),
            intercepts=found.intercept,
            classes_=classes,
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

    def _gamma(self, X: np.ndarray) -> float:
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        if self.gamma == "scale":
            variance = float(X.var(dtype=np.float64))
            return 1.0 / (X.shape[1] * variance) if variance else 1.0
        return float(self.gamma)

    def _factors(self, classes: np.ndarray, codes: np.ndarray) -> dict[int, float] | str | None:
        """``class_weight`` for class codes; balanced by rows, whatever they weigh, as in SVC."""
        if self.class_weight is None:
            return None
        if self.class_weight == "balanced":
            if self.decision == "ovr" and len(classes) > 2:
                return "balanced"  # each problem has sides of its own to balance
            return dict(enumerate((len(codes) / (len(classes) * np.bincount(codes))).tolist()))
        factors: Any = self.class_weight
        return factors_by_code(factors, classes)

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
        return self.machine_.decision_function(validate_data(self, X, reset=False))

    def save(self, path: Path | str) -> None:
        """Write the fitted estimator as safetensors; loading it runs no code."""
        check_is_fitted(self)
        parameters = self.get_params()
        if isinstance(self.class_weight, dict):  # the keys of JSON are text, labels need not be
            parameters["class_weight"] = [list(pair) for pair in self.class_weight.items()]
        names = getattr(self, "feature_names_in_", None)
        estimator = {
            "parameters": parameters,
            "n_iter": self.n_iter_,
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
        try:
            arrays, about = read_model(Path(path))
            if "path_svc" not in about:
                raise ValueError("it holds none")
            machine = KernelMachine.from_stored(arrays, about)
            return cls._restored(machine, arrays, about["path_svc"])
        except DAMAGE as error:
            raise InputError(
                f"{path} must be a file that PathSVC.save wrote: {error}; "
                "a run's model.safetensors is read by KernelMachine.load"
            ) from None

    @classmethod
    def _restored(cls, machine: KernelMachine, arrays: Arrays, about: dict[str, Any]) -> Self:
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
        restored.n_iter_, restored.fit_status_ = int(about["n_iter"]), int(about["fit_status"])
        restored.n_features_in_ = machine.support_vectors.shape[1]
        if about["feature_names"] is not None:
            restored.feature_names_in_ = np.array(about["feature_names"], dtype=object)
        return restored


def _rows_that_count(
    X: np.ndarray, classes: np.ndarray, codes: np.ndarray, sample_weight: Any
) -> tuple[Any, np.ndarray | None]:
    """The rows of a weight above 0, and their weights."""
    if sample_weight is None:
        return slice(None), None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    rows = np.flatnonzero(weights > 0)
    lost = np.setdiff1d(np.arange(len(classes)), codes[rows])
    if len(lost):
        raise ValueError(
            f"sample_weight must be above 0 for a row of every class, class "
            f"{str(classes[lost[0]])!r} has none; drop the rows of that class"
        )
    return rows, weights[rows]
