"""A fitted kernel SVM as plain numbers, whichever solver found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.data.dataset import rows_of
from pipelines.data.model_file import (
    Arrays,
    labels_as_json,
    labels_from_json,
    load_model,
    write_model,
)
from pipelines.data.preparation import Fitted, fitted_from
from pipelines.data.scaling import FittedScaling
from pipelines.svm.calibration import Calibration
from pipelines.svm.kernel import Kernel
from pipelines.svm.multiclass import class_values, codes_of
from pipelines.svm.problems import problems_of

_ARRAYS = ("support_vectors", "coefficients", "intercepts")
Shapes = list[tuple[int, ...]]

BLOCK_ENTRIES = 32_000_000  # of a block of the kernel matrix: 256 MB in double precision


@dataclass(frozen=True)
class _SupportVectors:
    """The kernel, support vectors and coefficients that both kinds of machine have.

    ``scaling`` is applied to rows before the kernel.
    """

    support_vectors: np.ndarray
    coefficients: np.ndarray
    intercepts: np.ndarray
    kernel: Kernel
    gamma: float
    scaling: Fitted

    def decision_values(self, X: Any) -> np.ndarray:
        """Return values of every problem's decision function.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), unscaled; the DataFrame that a
            ``TablePreprocessor`` takes; of a precomputed kernel, its values between rows and
            support vectors

        Returns
        -------
        float64 array of shape (n_samples, n_problems)

        Raises
        ------
        ValueError
            Values of ``X`` are so large that decision values are not finite.
        """
        if isinstance(self.scaling, FittedScaling):
            X = np.asarray(X)
        step = max(1, BLOCK_ENTRIES // max(1, len(self.support_vectors)))
        blocks = [
            self._block(rows_of(X, slice(start, start + step))) for start in range(0, len(X), step)
        ]
        return np.concatenate(blocks) if blocks else np.empty((0, len(self.intercepts)))

    def _block(self, X: Any) -> np.ndarray:
        rows = self.scaling.transform(X).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            values = rows if self.kernel.is_given else self.kernel.at(self.gamma).between(
                rows, self.support_vectors.astype(np.float64)
            )  # fmt: skip
            found: np.ndarray = values @ self.coefficients + self.intercepts
        if not np.isfinite(found).all():
            raise ValueError(
                "X must hold values of which a kernel can be made, got values up to "
                f"{np.abs(X).max():.3g}; scale its columns"
            )
        return found

    def save(self, path: Path, arrays: Arrays | None = None, **about: Any) -> None:
        """Write the machine as safetensors: numbers and text, no code.

        ``arrays`` and ``about`` are written beside it, for an estimator around it.
        """
        own_arrays, own_metadata = self._stored()
        own_arrays |= {name: getattr(self, name) for name in _ARRAYS} | self.scaling.arrays()
        kernel = {name: getattr(self.kernel, name) for name in ("name", "degree", "coef0")}
        own_metadata |= {"kernel": kernel, "gamma": float(self.gamma)}
        write_model(path, own_arrays | (arrays or {}), own_metadata | about)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a machine that ``save`` wrote.

        Raises
        ------
        InputError
            The file is missing or not such a file.
        """
        return load_model(
            path, cls.from_stored, "a model that this program saved",
            "give the model.safetensors of a run's folder",
        )  # fmt: skip

    @classmethod
    def from_stored(cls, arrays: Arrays, about: Mapping[str, Any]) -> Self:
        """Return the machine in the content of a file.

        Raises
        ------
        KeyError, TypeError, ValueError
            Something is missing, or the parts do not belong together.
        """
        machine = cls(
            **{name: arrays[name] for name in _ARRAYS}, kernel=Kernel(**about["kernel"]),
            gamma=float(about["gamma"]), scaling=fitted_from(arrays), **cls._more(arrays, about),
        )  # fmt: skip
        machine._check()
        return machine

    def _stored(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays and metadata of the fields that only this kind of machine has."""
        raise NotImplementedError

    @classmethod
    def _more(cls, arrays: Arrays, about: Mapping[str, Any]) -> dict[str, Any]:
        """Read the fields that only this kind of machine has."""
        raise NotImplementedError

    def _check(self) -> None:
        """Raise an error if shapes or values do not belong together."""
        raise NotImplementedError

    def _check_shapes(self, n_problems: int, more: Mapping[str, tuple[Any, Shapes]]) -> None:
        n_support, n_features = self.support_vectors.shape
        expected: dict[str, tuple[Any, Shapes]] = {
            "coefficients": (self.coefficients, [(n_support, n_problems)]),
            "intercepts": (self.intercepts, [(n_problems,)]),
            **more,
        }
        if isinstance(self.scaling, FittedScaling):
            either: Shapes = [(1,), (n_features,)]
            expected["scaling.center"] = (self.scaling.center, either)
            expected["scaling.scale"] = (self.scaling.scale, either)
        elif len(self.scaling.layout) != n_features:
            raise ValueError(
                f"its rows have {len(self.scaling.layout)} columns, its support vectors "
                f"{n_features}"
            )
        for name, (array, shapes) in expected.items():
            if np.shape(array) not in shapes or not n_problems:
                raise ValueError(f"its {name} have the shape {np.shape(array)}, not {shapes[0]}")
            if not np.isfinite(array).all():
                raise ValueError(f"its {name} are not finite")


@dataclass(frozen=True)
class KernelMachine(_SupportVectors):
    """Decision functions over a common set of support vectors.

    Attributes
    ----------
    support_vectors : array of shape (n_support, n_features), scaled
    coefficients : float64 array of shape (n_support, n_problems)
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
        """Return decision values of unscaled rows, in the form of ``class_values``."""
        return class_values(self.decision_values(X), len(self.classes_), self.decision)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return calibrated probabilities of unscaled rows.

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
        """Return classes of unscaled rows, an array of shape (n_samples,)."""
        return self.classes_[self.predict_codes(X)]

    def predict_codes(self, X: Any) -> np.ndarray:
        """Return indices into ``classes_`` for unscaled rows, int of shape (n_samples,)."""
        return codes_of(self.decision_values(X), len(self.classes_), self.decision)

    def _stored(self) -> tuple[Arrays, dict[str, Any]]:
        arrays = {}
        if self.calibration is not None:
            arrays["calibration.slopes"] = self.calibration.slopes
            arrays["calibration.offsets"] = self.calibration.offsets
        return arrays, {"classes": labels_as_json(self.classes_), "decision": self.decision}

    @classmethod
    def _more(cls, arrays: Arrays, about: Mapping[str, Any]) -> dict[str, Any]:
        if "target_mean" in about:
            raise ValueError("it holds a regression, which KernelRegressor.load reads")
        calibration = None
        if "calibration.slopes" in arrays:
            calibration = Calibration(arrays["calibration.slopes"], arrays["calibration.offsets"])
        classes = labels_from_json(about["classes"])
        return {"classes_": classes, "decision": about["decision"], "calibration": calibration}

    def _check(self) -> None:
        if self.decision not in ("ovo", "ovr"):
            raise ValueError(f"its decision is {self.decision!r}, neither 'ovo' nor 'ovr'")
        n_classes = len(self.classes_)
        more: dict[str, tuple[Any, Shapes]] = {}
        if self.calibration is not None:
            each = (1,) if n_classes == 2 else (n_classes,)
            more["calibration.slopes"] = (self.calibration.slopes, [each])
            more["calibration.offsets"] = (self.calibration.offsets, [each])
        self._check_shapes(len(problems_of(n_classes, self.decision)) if n_classes > 1 else 0, more)


@dataclass(frozen=True)
class KernelRegressor(_SupportVectors):
    """A regression function over support vectors.

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
        Of the targets it was fitted on: a prediction is the function's value times
        ``target_scale``, plus ``target_mean``.
    """

    target_mean: float = 0.0
    target_scale: float = 1.0

    def predict(self, X: Any) -> np.ndarray:
        """Return targets of unscaled rows, a float64 array of shape (n_samples,)."""
        return self.decision_values(X)[:, 0] * self.target_scale + self.target_mean

    def _stored(self) -> tuple[Arrays, dict[str, Any]]:
        return {}, {"target_mean": self.target_mean, "target_scale": self.target_scale}

    @classmethod
    def _more(cls, arrays: Arrays, about: Mapping[str, Any]) -> dict[str, Any]:
        if "classes" in about:
            raise ValueError("it holds a classifier, which KernelMachine.load reads")
        return {name: float(about[name]) for name in ("target_mean", "target_scale")}

    def _check(self) -> None:
        self._check_shapes(1, {name: (getattr(self, name), [()]) for name in (
            "target_mean", "target_scale")})  # fmt: skip
