"""A fitted kernel SVM as plain numbers, whichever solver found them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from pipelines.data.errors import InputError
from pipelines.data.scaling import FittedScaling
from pipelines.svm.path.kernels import Kernel

BLOCK_ENTRIES = 32_000_000  # of a block of the kernel matrix: 256 MB in double precision


def problems(n_classes: int, decision: str) -> list[tuple[int, int]]:
    """The binary problems of a multi-class SVM.

    Returns
    -------
    list of (positive class, negative class)
        One-vs-one: every pair, the smaller class positive, in LIBSVM's order.
        One-vs-rest: every class against -1, the rest. Two classes make one
        problem either way.
    """
    if decision == "ovo" or n_classes == 2:
        return list(combinations(range(n_classes), 2))
    return [(one, -1) for one in range(n_classes)]


def codes_of(values: np.ndarray, n_classes: int, decision: str) -> np.ndarray:
    """Class codes from decision values.

    Parameters
    ----------
    values : array of shape (n_samples, n_problems)
        Positive where the positive class of a problem wins.

    Returns
    -------
    int array of shape (n_samples,)
        One-vs-one: most votes, ties to the smallest class, as LIBSVM
        (Chang and Lin, ACM TIST 2011). One-vs-rest: the largest value.
    """
    if decision == "ovr" and n_classes > 2:
        return values.argmax(axis=1)
    votes = np.zeros((len(values), n_classes), dtype=np.int32)
    for column, (positive, negative) in enumerate(problems(n_classes, "ovo")):
        wins = values[:, column] > 0
        votes[:, positive] += wins
        votes[:, negative] += ~wins
    return votes.argmax(axis=1)


@dataclass(frozen=True)
class KernelMachine:
    """Decision functions over a common set of support vectors.

    Attributes
    ----------
    support_vectors : array of shape (n_support, n_features), scaled
    coefficients : float64 array of shape (n_support, n_problems)
    intercepts : float64 array of shape (n_problems,)
    classes_ : array of shape (n_classes,)
    kernel : Kernel
    gamma : float
    decision : {"ovo", "ovr"}
    scaling : FittedScaling
        Applied to rows before the kernel.
    """

    support_vectors: np.ndarray
    coefficients: np.ndarray
    intercepts: np.ndarray
    classes_: np.ndarray
    kernel: Kernel
    gamma: float
    decision: str
    scaling: FittedScaling

    def decision_values(self, X: np.ndarray) -> np.ndarray:
        """Values of every problem's decision function.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), unscaled

        Returns
        -------
        float64 array of shape (n_samples, n_problems)
        """
        n_support = len(self.support_vectors)
        step = max(1, BLOCK_ENTRIES // max(1, n_support))
        blocks = [self._block(X[start : start + step]) for start in range(0, len(X), step)]
        return np.concatenate(blocks) if blocks else np.empty((0, len(self.intercepts)))

    def _block(self, X: np.ndarray) -> np.ndarray:
        from sklearn.metrics.pairwise import pairwise_kernels

        values = pairwise_kernels(
            self.scaling.transform(X).astype(np.float64),
            self.support_vectors.astype(np.float64),
            metric=self.kernel.name,
            filter_params=True,
            gamma=self.gamma,
            degree=self.kernel.degree,
            coef0=self.kernel.coef0,
        )
        return values @ self.coefficients + self.intercepts

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Decision values in scikit-learn's form.

        Returns
        -------
        float64 array of shape (n_samples,) for two classes, positive for the
        second, else of shape (n_samples, n_problems)
        """
        values = self.decision_values(X)
        return -values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Classes of unscaled rows, an array of shape (n_samples,)."""
        return self.classes_[self.predict_codes(X)]

    def predict_codes(self, X: np.ndarray) -> np.ndarray:
        """Indices into ``classes_`` for unscaled rows, an int array of shape (n_samples,)."""
        return codes_of(self.decision_values(X), len(self.classes_), self.decision)

    def save(self, path: Path) -> None:
        """Write the machine as safetensors: numbers and text, no code."""
        from safetensors.numpy import save_file

        arrays = {
            "support_vectors": self.support_vectors,
            "coefficients": self.coefficients,
            "intercepts": self.intercepts,
            "scaling.center": np.atleast_1d(self.scaling.center),
            "scaling.scale": np.atleast_1d(self.scaling.scale),
        }
        about = {
            "classes": json.dumps(self.classes_.tolist()),
            "kernel": json.dumps(asdict(self.kernel)),
            "gamma": repr(float(self.gamma)),
            "decision": self.decision,
        }
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        save_file(contiguous, path, metadata=about)

    @classmethod
    def load(cls, path: Path) -> KernelMachine:
        """Read a machine that ``save`` wrote.

        Raises
        ------
        InputError
            The file is missing or not such a file.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as stored:
                about = stored.metadata()
                names = stored.keys()
                arrays = {name: stored.get_tensor(name) for name in names}
            return cls(
                arrays["support_vectors"],
                arrays["coefficients"],
                arrays["intercepts"],
                np.asarray(json.loads(about["classes"])),
                Kernel(**json.loads(about["kernel"])),
                float(about["gamma"]),
                about["decision"],
                FittedScaling(arrays["scaling.center"], arrays["scaling.scale"]),
            )
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path} must be a model that this program saved: {error}; "
                "give the model.safetensors of a run's folder"
            ) from None
