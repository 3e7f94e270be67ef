"""A fitted kernel SVM as plain numbers, whichever solver fitted it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.data.dataset import by_name, take_rows
from pipelines.data.model_file import (
    Arrays,
    labels_as_json,
    labels_from_json,
    read_model_file,
    write_model,
)
from pipelines.data.preparation import Fitted, fitted_from
from pipelines.data.scaling import FittedScaling
from pipelines.svm.kernel import Kernel
from pipelines.svm.multiclass import class_values, codes_of
from pipelines.svm.probabilities import Calibration
from pipelines.svm.search import problems_of
from pipelines.svm.settings import DECISIONS

_ARRAYS = ("support_vectors", "coefficients", "intercepts")
_SLOPES, _OFFSETS = "calibration.slopes", "calibration.offsets"

# Entries of a block of the kernel matrix that predictions hold at once: 256 MB in double precision.
BLOCK_ENTRIES = 32_000_000


@dataclass(frozen=True)
class _SupportVectors:
    """The kernel, support vectors and coefficients, which classifiers and regressors share.

    ``scaling`` is applied to rows before the kernel. ``columns`` are the feature names of a table,
    by which the columns of a DataFrame are found.
    """

    support_vectors: np.ndarray
    coefficients: np.ndarray
    intercepts: np.ndarray
    kernel: Kernel
    gamma: float
    scaling: Fitted
    columns: tuple[str, ...] = field(default=(), kw_only=True)

    def decision_values(self, X: Any) -> np.ndarray:
        """The decision values of every binary problem.

        Parameters
        ----------
        X : array of shape (n_samples, n_features) or DataFrame
            Unscaled rows; the DataFrame that a ``TablePreprocessor`` takes; or, for a precomputed
            kernel, its values between rows and support vectors.

        Returns
        -------
        float64 array of shape (n_samples, n_problems)

        Raises
        ------
        ValueError
            Values of ``X`` are so large that decision values are not finite.
        """
        X = by_name(X, self.columns)
        if isinstance(self.scaling, FittedScaling):
            X = np.asarray(X)
        kernel, support = self.kernel.at(self.gamma), self.support_vectors.astype(np.float64)
        centre = kernel.centre(support)
        support -= centre
        step = max(1, BLOCK_ENTRIES // max(1, len(self.support_vectors)))
        values = np.empty((len(X), len(self.intercepts)))
        for start in range(0, len(X), step):
            block = slice(start, start + step)
            rows = self.scaling.transform(take_rows(X, block)).astype(np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                if not kernel.is_given:
                    rows -= centre
                    rows = kernel.between(rows, support)
                values[block] = rows @ self.coefficients + self.intercepts
            if not np.isfinite(values[block]).all():
                raise ValueError(
                    "X must hold values of which a kernel can be made, got values up to "
                    f"{np.abs(X).max():.3g}; scale its columns"
                )
        return values

    def save(self, path: Path, arrays: Arrays | None = None, **about: Any) -> None:
        """Write the machine as safetensors: numbers and text, no code.

        Parameters
        ----------
        path : Path
        arrays : dict of name to array, optional
        **about
            Arrays and JSON values of an estimator around the machine, stored beside it.
        """
        machine_arrays, texts = self._stored_parts()
        machine_arrays |= {name: getattr(self, name) for name in _ARRAYS} | self.scaling.arrays()
        kernel = {name: getattr(self.kernel, name) for name in ("name", "degree", "coef0")}
        about = {"kernel": kernel, "gamma": float(self.gamma)} | texts | about
        write_model(path, machine_arrays | (arrays or {}), about)

    def _stored_parts(self) -> tuple[Arrays, dict[str, Any]]:
        """Arrays and texts that only this type of machine stores."""
        raise NotImplementedError

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a machine that ``save`` wrote.

        Raises
        ------
        InputError
            The file is missing, or is not such a file.
        """
        return read_model_file(
            path,
            cls.from_stored,
            "a model that this program saved",
            "give the model.safetensors of a run's folder",
        )

    @classmethod
    def from_stored(cls, arrays: Arrays, about: Mapping[str, Any]) -> Self:
        """Build the machine from the content of a file.

        Raises
        ------
        ValueError, KeyError, TypeError
            The content is not that of such a machine; ``read_model_file`` reports them as one.
        """
        raise NotImplementedError

    @classmethod
    def _of_parts(
        cls,
        arrays: Arrays,
        about: Mapping[str, Any],
        n_problems: int,
        shapes: Mapping[str, Any],
        **fields: Any,
    ) -> Self:
        """Check that the arrays of a file fit together, and build the machine.

        Parameters
        ----------
        arrays, about : the content of the file
        n_problems : int
        shapes : mapping of name to shape
            Shapes of further arrays, which must also be finite.
        **fields
            Fields that only this type of machine has.
        """
        scaling, support = fitted_from(arrays), arrays["support_vectors"]
        n_support, n_features = support.shape
        shapes = {"coefficients": (n_support, n_problems), "intercepts": (n_problems,), **shapes}
        if not isinstance(scaling, FittedScaling) and len(scaling.layout) != n_features:
            raise ValueError(
                f"its rows have {len(scaling.layout)} columns, its support vectors {n_features}"
            )
        if isinstance(scaling, FittedScaling):
            for name, array in scaling.arrays().items():
                shapes[name] = array.shape if array.shape == (1,) else (n_features,)
        for name, shape in shapes.items():
            if arrays[name].shape != shape or not n_problems:
                raise ValueError(f"its {name} have the shape {arrays[name].shape}, not {shape}")
            if not np.isfinite(arrays[name]).all():
                raise ValueError(f"its {name} are not finite")
        parts: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
        return cls(
            **parts,
            kernel=Kernel(**about["kernel"]),
            gamma=float(about["gamma"]),
            scaling=scaling,
            **fields,
        )


@dataclass(frozen=True)
class KernelMachine(_SupportVectors):
    """A fitted classifier: its decision functions over a common set of support vectors.

    Attributes
    ----------
    support_vectors : array of shape (n_support, n_features), scaled
    coefficients : float64 array of shape (n_support, n_problems)
        0 where a vector takes no part in a problem.
    intercepts : float64 array of shape (n_problems,)
    kernel : Kernel
    gamma : float
    scaling : FittedScaling or TablePreprocessor
        Applied to rows before the kernel.
    classes_ : array of shape (n_classes,)
    decision : {"ovo", "ovr"}
    calibration : Calibration or None
        For ``predict_proba``.
    """

    classes_: np.ndarray
    decision: str
    calibration: Calibration | None = None

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values of unscaled rows, in the form of ``class_values``."""
        return class_values(self.decision_values(X), len(self.classes_), self.decision)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated class probabilities of unscaled rows.

        Returns
        -------
        float64 array of shape (n_samples, n_classes)

        Raises
        ------
        ValueError
            The machine was not calibrated.
        """
        if self.calibration is None:
            raise ValueError(
                "predict_proba needs a calibrated machine, this one is not; "
                "search with probability=True"
            )
        return self.calibration.probabilities(self.decision_function(X))

    def predict(self, X: Any) -> np.ndarray:
        """Predicted classes of unscaled rows, an array of shape (n_samples,)."""
        return self.classes_[self.predict_codes(X)]

    def predict_codes(self, X: Any) -> np.ndarray:
        """Predictions for unscaled rows as indices of ``classes_``, int of shape (n_samples,)."""
        return codes_of(self.decision_values(X), len(self.classes_), self.decision)

    def _stored_parts(self) -> tuple[Arrays, dict[str, Any]]:
        about = {"classes": labels_as_json(self.classes_), "decision": self.decision}
        if self.calibration is None:
            return {}, about
        return {_SLOPES: self.calibration.slopes, _OFFSETS: self.calibration.offsets}, about

    @classmethod
    def from_stored(cls, arrays: Arrays, about: Mapping[str, Any]) -> Self:
        if "target_mean" in about:
            raise ValueError("it holds a regression, which KernelRegressor.load reads")
        classes, decision, calibration = labels_from_json(about["classes"]), about["decision"], None
        shapes, n_classes = {}, len(classes)
        if decision not in DECISIONS:
            raise ValueError(f"its decision is {decision!r}, neither 'ovo' nor 'ovr'")
        if _SLOPES in arrays:
            calibration = Calibration(arrays[_SLOPES], arrays[_OFFSETS])
            shapes = dict.fromkeys((_SLOPES, _OFFSETS), (1 if n_classes == 2 else n_classes,))
        n_problems = len(problems_of(n_classes, decision)) if n_classes > 1 else 0
        return cls._of_parts(
            arrays,
            about,
            n_problems,
            shapes,
            classes_=classes,
            decision=decision,
            calibration=calibration,
        )


@dataclass(frozen=True)
class KernelRegressor(_SupportVectors):
    """A fitted regression: its function over support vectors.

    Attributes
    ----------
    support_vectors : array of shape (n_support, n_features), scaled
    coefficients : float64 array of shape (n_support, 1)
    intercepts : float64 array of shape (1,)
    kernel : Kernel
    gamma : float
    scaling : FittedScaling or TablePreprocessor
        Applied to rows before the kernel.
    target_mean, target_scale : float
        A prediction is the function's value times ``target_scale``, plus ``target_mean``: the mean
        and standard deviation of the targets it was fitted on, if these were standardised.
    """

    target_mean: float = 0.0
    target_scale: float = 1.0

    def predict(self, X: Any) -> np.ndarray:
        """Predicted targets of unscaled rows, a float64 array of shape (n_samples,)."""
        return self.decision_values(X)[:, 0] * self.target_scale + self.target_mean

    def _stored_parts(self) -> tuple[Arrays, dict[str, Any]]:
        return {}, {"target_mean": self.target_mean, "target_scale": self.target_scale}

    @classmethod
    def from_stored(cls, arrays: Arrays, about: Mapping[str, Any]) -> Self:
        if "classes" in about:
            raise ValueError("it holds a classifier, which KernelMachine.load reads")
        target = {name: float(about[name]) for name in ("target_mean", "target_scale")}
        if not np.isfinite(list(target.values())).all():
            raise ValueError("its target_mean or target_scale is not finite")
        return cls._of_parts(arrays, about, 1, {}, **target)
