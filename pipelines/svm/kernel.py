"""Kernel functions, by name and parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.svm.distances import finish_distances

KERNELS = ("rbf", "linear", "poly", "sigmoid")

DEFINITE = ("rbf", "linear", "poly")  # positive (semi-)definite, whatever the rows are

# X is the kernel matrix itself: (n, n) to fit, rows against support vectors to predict.
PRECOMPUTED = "precomputed"


@dataclass(frozen=True)
class Kernel:
    """A kernel function: its name and its parameters.

    Parameters
    ----------
    name : {"rbf", "linear", "poly", "sigmoid", "precomputed"}
    degree : int
        Degree of ``poly``.
    coef0 : float
        Constant of ``poly`` and ``sigmoid``.
    gamma : float
        A search over several gammas holds a kernel without a gamma; ``at`` sets it.

    Raises
    ------
    ValueError
        The name is none of these.
    """

    name: str = "rbf"
    degree: int = 3
    coef0: float = 0.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in (*KERNELS, PRECOMPUTED):
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {self.name!r}")

    def at(self, gamma: float) -> Kernel:
        """The same kernel at this gamma."""
        return replace(self, gamma=gamma)

    @property
    def of_distances(self) -> bool:
        """Whether it is a function of distances; otherwise it is a function of inner products."""
        return self.name == "rbf"

    @property
    def is_given(self) -> bool:
        """Whether the user gives its values in place of rows."""
        return self.name == PRECOMPUTED

    @property
    def is_definite(self) -> bool:
        """Whether the kernel is positive (semi-)definite for certain."""
        return self.name in DEFINITE

    def between(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Kernel values between the rows of ``X`` and those of ``Z``.

        The same as scikit-learn's ``pairwise_kernels``, whose import takes longer than most
        predictions.

        Parameters
        ----------
        X, Z : float64 arrays of shape (n, n_features) and (m, n_features)
            For ``rbf``, subtract ``centre`` first: distances then keep more digits.

        Returns
        -------
        float64 array of shape (n, m)
        """
        values: np.ndarray = X @ Z.T
        if self.of_distances:
            norms, other_norms = (np.einsum("ij,ij->i", rows, rows) for rows in (X, Z))
            finish_distances(values, X, Z, norms, other_norms, values)
            values *= -self.gamma
            return np.exp(values, out=values)
        if self.name != "linear":
            values *= self.gamma
            values += self.coef0
        if self.name == "sigmoid":
            np.tanh(values, out=values)
        if self.name == "poly":
            raise_to(values, self.degree)
        return values

    def centre(self, rows: np.ndarray) -> np.ndarray | float:
        """What to subtract from all rows: the mean of these, or 0 where that changes the kernel."""
        return rows.mean(axis=0, dtype=np.float64) if self.of_distances and len(rows) else 0.0


RBF = Kernel()


def raise_to(values: np.ndarray, degree: int) -> None:
    """Raise values to a small power, in place; numpy's ``power`` is slow for values below 0."""
    if degree == 0:
        values[...] = 1
        return
    base = values.copy()
    for _ in range(degree - 1):
        values *= base


def gamma_of(gamma: float | str, X: Any) -> float:
    """Gamma as a number: ``"scale"`` and ``"auto"`` depend on the rows, as in scikit-learn."""
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma == "scale":
        with np.errstate(over="ignore"):
            variance = float(X.var(dtype=np.float64))
        return 1.0 / (X.shape[1] * variance) if variance else 1.0
    return float(gamma)
