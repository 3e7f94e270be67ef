"""The kernel in double precision, for the problems that need it."""

import threading

import numpy as np

from pipelines.svm.cpu.kernels import finish_distances
from pipelines.svm.kernel import Kernel


class ExactKernel:
    """Blocks of one gamma's kernel in double precision, within a given memory.

    A multiplier of 1e4 makes of the rounding of a kernel in single precision more than
    the tolerance, so what is hard at a large C is finished on this one.

    Parameters
    ----------
    rows : float array of shape (n, n_features), from ``prepare_rows``
    most_bytes : a larger block is not made
    """

    def __init__(self, rows: np.ndarray, kernel: Kernel, gamma: float, most_bytes: int) -> None:
        self._rows, self._kernel, self._gamma = rows, kernel, gamma
        self._most_bytes = most_bytes
        self._guard, self._all = threading.Lock(), np.empty((0, 0))

    def of(self, places: np.ndarray | slice) -> np.ndarray | None:
        """The kernel of some rows, float64 (m, m), exactly symmetric; None: no room."""
        rows = np.ascontiguousarray(self._rows[places], np.float64)
        if 8 * len(rows) ** 2 > self._most_bytes:
            return None
        values = rows @ rows.T
        if self._kernel.of_distances:
            norms = np.diagonal(values).copy()
            finish_distances(values, norms, norms, values)
            np.fill_diagonal(values, 0)
        return _apply(values, self._kernel, self._gamma)

    def between(self, places: np.ndarray) -> np.ndarray:
        """The kernel of some rows against all, float64 (m, n)."""
        rows = np.asarray(self._rows, np.float64)
        return exact_values(rows[places], rows, self._kernel, self._gamma)

    def of_all(self) -> np.ndarray | None:
        """The kernel of all rows, made once."""
        with self._guard:
            if not self._all.size:
                found = self.of(slice(None))
                if found is None:
                    return None
                self._all = found
            return self._all


def exact_values(rows: np.ndarray, others: np.ndarray, kernel: Kernel, gamma: float) -> np.ndarray:
    """The kernel between two sets of rows, float64 (len(rows), len(others)).

    For ``rbf`` the rows are best centred, as ``prepare_rows`` does.
    """
    values = rows @ others.T
    if kernel.of_distances:
        norms = np.einsum("ij,ij->i", rows, rows)
        finish_distances(values, norms, np.einsum("ij,ij->i", others, others), values)
    return _apply(values, kernel, gamma)


def _apply(values: np.ndarray, kernel: Kernel, gamma: float) -> np.ndarray:
    """As ``kernel_values``, in place and in double precision."""
    if kernel.name == "linear":
        return values
    values *= -gamma if kernel.of_distances else gamma
    if kernel.of_distances:
        # In double precision the difference to 1 is exact enough, and exp is quick.
        np.exp(values, out=values)
        values -= 1.0
        return values
    values += kernel.coef0
    if kernel.name == "poly":
        np.power(values, kernel.degree, out=values)
    else:
        np.tanh(values, out=values)
    return values


def exact_kernel(
    rows: np.ndarray, kernel: Kernel, gamma: float, memory_bytes: int, n_threads: int
) -> ExactKernel | None:
    """An ``ExactKernel`` for as many walks at once; None where it may not be positive definite."""
    if not kernel.is_definite:
        return None
    return ExactKernel(rows, kernel, gamma, memory_bytes // (2 * n_threads))
