"""Kernel rows made when they are asked for, the last used ones kept."""

from concurrent.futures import Executor

import numpy as np

from pipelines.svm.cpu.kernels import finish_distances, kernel_values
from pipelines.svm.cpu.working_set import subtract_rows
from pipelines.svm.kernel import Kernel

# Columns that one thread works on at once.
_COLUMNS = 4096


class KernelRows:
    """Rows of the kernel of one gamma, within a given memory.

    A row that was dropped and is made again is the same: products are made in
    float64, so that their rounding to float32 does not depend on which rows were
    asked for together.  A residual that is kept up to date with rows that differ
    would drift.

    Parameters
    ----------
    rows : float array of shape (n, n_features), from ``prepare_rows``
    memory_bytes : for the rows that are kept; at least 64 of them
    pool : its threads share out the columns
    """

    def __init__(self, rows: np.ndarray, kernel: Kernel, memory_bytes: int, pool: Executor) -> None:
        rows = np.ascontiguousarray(rows, np.float64)
        n = len(rows)
        self.kernel, self.n_computed = kernel, 0
        self._rows, self._pool = rows, pool
        self._norms = np.einsum("ij,ij->i", rows, rows)
        self.diagonal = self._values(self._norms[:, None].copy(), slice(0, n), None)[:, 0]
        self.capacity = int(min(n, max(64, memory_bytes // (4 * n))))
        self._slot = np.full(n, -1, np.int64)
        self._owner = np.full(self.capacity, -1, np.int64)
        self._used = np.zeros(self.capacity, np.int64)
        self._now = 0
        # One array for the columns that a thread works on, so that its rows are contiguous.
        pieces = [slice(at, min(at + _COLUMNS, n)) for at in range(0, n, _COLUMNS)]
        self._store = [
            (piece, np.empty((self.capacity, piece.stop - piece.start), np.float32))
            for piece in pieces
        ]

    def _values(
        self, products: np.ndarray, some: slice | np.ndarray, others: slice | np.ndarray | None
    ) -> np.ndarray:
        """Return kernel from float64 products; ``others`` None: each row with itself."""
        shared = np.empty(products.shape, np.float32)
        if not self.kernel.of_distances:
            shared[...] = products
        elif others is None:
            shared[...] = 0
        else:
            finish_distances(products, self._norms[some], self._norms[others], shared)
        return kernel_values(shared, self.kernel, shared)

    def block(self, some: np.ndarray, others: slice | np.ndarray) -> np.ndarray:
        """Return kernel of some rows against others; float32 (len(some), len(others))."""
        return self._values(self._rows[some] @ self._rows[others].T, some, others)

    def new_columns(self, members: np.ndarray, first: int) -> np.ndarray:
        """Return kernel of the members from ``first`` on against all members, its last
        square part exactly symmetric; float32 (len(members) - first, len(members))."""
        found = self.block(members[first:], members)
        square = found[:, first:]
        square[...] = np.tril(square) + np.tril(square, -1).T
        return found

    def _fetch(self, wanted: np.ndarray) -> np.ndarray:
        """Fetch the wanted rows, at most ``capacity``; return their places in the store."""
        self._now += 1
        held = self._slot[wanted]
        self._used[held[held >= 0]] = self._now
        missing = wanted[held < 0]
        if missing.size:
            slots = np.argpartition(self._used, missing.size - 1)[: missing.size]
            dropped = self._owner[slots]
            self._slot[dropped[dropped >= 0]] = -1
            self._owner[slots], self._slot[missing] = missing, slots
            self._used[slots] = self._now
            self.n_computed += missing.size

            def fill(piece: tuple[slice, np.ndarray]) -> None:
                columns, store = piece
                store[slots] = self.block(missing, columns)

            list(self._pool.map(fill, self._store))
        return self._slot[wanted]

    def subtract(self, residual: np.ndarray, rows: np.ndarray, factors: np.ndarray) -> None:
        """Compute ``residual -= factors @ kernel[rows]``, of shapes (n,), (m,) and (m,)."""
        for at in range(0, rows.size, self.capacity):
            slots = self._fetch(rows[at : at + self.capacity])
            some = factors[at : at + self.capacity]

            def work(
                piece: tuple[slice, np.ndarray],
                slots: np.ndarray = slots,
                some: np.ndarray = some,
            ) -> None:
                columns, store = piece
                part = residual[None, columns]
                subtract_rows(part, 0, part.shape[1], store, slots, some, len(some))

            list(self._pool.map(work, self._store))
