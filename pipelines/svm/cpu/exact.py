"""The kernel in double precision, for problems in which the rounding of single precision shows."""

import threading
from typing import Any

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.kernel import Kernel, raise_to

# Feature values that are worked on at once: they stay in a core's cache.
_TILE_VALUES = 1 << 15

# From this many features it takes longer to compute a product than to keep it for the next gamma.
_MANY_FEATURES = 32

# Rows that are converted to double precision at once, for the kernel of a few rows with many.
_ROWS_AT_ONCE = 4096


@compiled("contract")
def _products_of(
    columns: np.ndarray, rows: np.ndarray, of_distances: bool, out: np.ndarray, at: np.ndarray
) -> None:
    """Write squared distances or inner products of some rows with all rows to ``out``.

    They are summed feature by feature, so that they are exactly symmetric, and the same to the
    last digit whichever rows are computed together.

    columns : float64 (n_features, n), all rows; rows : int64 (m,)
    out : float64 (any, n), output; at : int64 (m,), the row of ``out`` for each of ``rows``
    """
    n_features, n = columns.shape
    step = max(64, _TILE_VALUES // max(1, n_features))
    for begin in range(0, n, step):
        width = min(step, n - begin)
        for p in range(rows.size):
            part = out[at[p], begin : begin + width]
            for k in range(width):
                part[k] = 0.0
            for f in range(n_features):
                column, value = columns[f, begin : begin + width], columns[f, rows[p]]
                if of_distances:
                    for k in range(width):
                        difference = column[k] - value
                        part[k] += difference * difference
                else:
                    for k in range(width):
                        part[k] += column[k] * value


class ExactRows:
    """Rows of one gamma's kernel in double precision, computed on demand and kept.

    Times a multiplier of 1e4, the rounding of a kernel in single precision exceeds the tolerance:
    a problem that is hard at a large C is finished with this kernel.  Only the rows whose
    multipliers may change are needed, often a small part of all.

    Parameters
    ----------
    rows : float array of shape (n, n_features), from ``prepare_rows``
    kernel : Kernel
    most_bytes : int
        Bytes for the rows that are kept.
    store : float64 array, optional
        The memory of another gamma, to be used again.
    products : (float64 array of shape (n, n), bool array of shape (n,)), optional
        Products of all pairs of rows, and whether each row's are computed; all gammas share them.

    Attributes
    ----------
    store : float64 array of shape (most rows, n)
    slot : int64 array of shape (n,)
        The row of ``store`` that holds each row, or -1.
    diagonal : float64 array of shape (n,)
    """

    def __init__(
        self,
        rows: np.ndarray,
        kernel: Kernel,
        most_bytes: int,
        store: np.ndarray | None = None,
        products: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self._columns = np.ascontiguousarray(np.asarray(rows, np.float64).T)
        self._kernel, self._products, n = kernel, products, len(rows)
        self._n_held, self._guard = 0, threading.Lock()
        # Allocated in full at once: pages that are never written take no memory.
        self.store = np.empty((min(n, most_bytes // (8 * n)), n)) if store is None else store
        self.slot = np.full(n, -1, np.int64)
        squared_norms = np.zeros(n)
        if not kernel.of_distances:
            squared_norms = np.einsum("fk,fk->k", self._columns, self._columns)
        self.diagonal = _apply(squared_norms, kernel)

    def hold(self, row_numbers: np.ndarray) -> bool:
        """Load rows, of distinct numbers, into the store; returns whether all of them had room."""
        with self._guard:
            missing = row_numbers[self.slot[row_numbers] < 0]
            first, last = self._n_held, self._n_held + missing.size
            if last > len(self.store):
                return False
            destination, slots = self.store[first:last], np.arange(first, last)
            if self._products is None:
                _products_of(self._columns, missing, self._kernel.of_distances, self.store, slots)
            else:
                products, is_computed = self._products
                new = missing[~is_computed[missing]]
                _products_of(self._columns, new, self._kernel.of_distances, products, new)
                is_computed[new] = True
                np.take(products, missing, axis=0, out=destination, mode="clip")
            _apply(destination, self._kernel)
            self._n_held = last
            self.slot[missing] = slots  # last: other threads read it without the lock
            return True


class ExactKernel:
    """The kernel of one gamma in double precision, within a memory limit.

    Parameters
    ----------
    rows : float array of shape (n, n_features), from ``prepare_rows``
    kernel : Kernel
    memory_bytes : int
        Bytes for all walks together.
    n_threads : int
        How many walks run at once.
    cache : dict, optional
        Holds memory and products for all gammas: writing to used memory is faster than filling
        fresh pages.
    """

    def __init__(
        self,
        rows: np.ndarray,
        kernel: Kernel,
        memory_bytes: int,
        n_threads: int,
        cache: dict[str, Any] | None = None,
    ) -> None:
        self._rows, self._kernel = rows, kernel
        self._memory_bytes, self._n_threads = memory_bytes, n_threads
        self._cache = {} if cache is None else cache
        self._guard = threading.Lock()
        self._all: ExactRows | None = None

    def of(self, row_numbers: np.ndarray | None) -> ExactRows:
        """The kernel of some rows, for one walk; None for all rows.

        All walks share the kernel of all rows. If it does not fit in memory, each walk has its own,
        so that the rows a walk can hold, and with them its result, do not depend on the others.
        """
        if row_numbers is not None or 8 * len(self._rows) ** 2 > self._memory_bytes:
            rows = self._rows if row_numbers is None else self._rows[row_numbers]
            return ExactRows(rows, self._kernel, self._memory_bytes // self._n_threads)
        with self._guard:
            if self._all is None:
                n, n_features = self._rows.shape
                if n_features >= _MANY_FEATURES and 2 * 8 * n * n <= self._memory_bytes:
                    products = self._cache.get("exact products") or (
                        np.empty((n, n)),
                        np.zeros(n, bool),
                    )
                    self._cache["exact products"] = products
                self._all = ExactRows(
                    self._rows,
                    self._kernel,
                    self._memory_bytes,
                    self._cache.get("exact"),
                    self._cache.get("exact products"),
                )
                self._cache["exact"] = self._all.store
            return self._all

    def between(self, row_numbers: np.ndarray, other_numbers: np.ndarray) -> np.ndarray:
        """Kernel values of some rows with others, float64 (m, n).

        For ``rbf`` these are the values themselves; those of ``ExactRows`` are smaller by 1.
        """
        features = np.asarray(self._rows[row_numbers], np.float64)
        values = np.empty((len(features), len(other_numbers)))
        for at in range(0, len(other_numbers), _ROWS_AT_ONCE):
            part = slice(at, at + _ROWS_AT_ONCE)
            other_features = np.asarray(self._rows[other_numbers[part]], np.float64)
            values[:, part] = self._kernel.between(features, other_features)
        return values


def _apply(values: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Apply the kernel function like ``kernel_values``, in place and in double precision."""
    if kernel.name == "linear":
        return values
    values *= -kernel.gamma if kernel.of_distances else kernel.gamma
    if kernel.of_distances:
        # In double precision the difference to 1 is exact enough, and exp is quick.
        np.exp(values, out=values)
        values -= 1.0
        return values
    values += kernel.coef0
    if kernel.name == "poly":
        raise_to(values, kernel.degree)
    else:
        np.tanh(values, out=values)
    return values
