"""Binary problems with so many rows that their kernel does not fit in memory.

The path is the same as in ``walk``. An inner solve needs the small kernel of its working set, and
the residuals of all rows need the kernel rows of the multipliers that changed (decomposition).

References
----------
T. Joachims, "Making large-scale SVM learning practical", Advances in Kernel Methods, 1999.
"""

from concurrent.futures import Executor
from functools import partial

import numpy as np

from pipelines.svm.cpu.binary_problem import (
    BETA,
    CHOSEN,
    FALL,
    RESIDUAL,
    TRIAL_RESIDUAL,
    Path,
    new_state,
)
from pipelines.svm.cpu.blocks import class_pulls
from pipelines.svm.cpu.kernels import kernel_values
from pipelines.svm.cpu.smo import solve_dense
from pipelines.svm.cpu.solve import Walker
from pipelines.svm.cpu.solver_threads import Resources
from pipelines.svm.cpu.steps import walk_on
from pipelines.svm.cpu.working_set import (
    intercept_of,
    keep_most_violating,
    optimality,
    select_rows,
    subtract_rows,
)
from pipelines.svm.distances import finish_distances
from pipelines.svm.kernel import Kernel
from pipelines.svm.rules import INNER_GAP, SCALE_FRACTION
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

# Columns that one thread works on at once.
_COLUMNS = 4096

# Bytes of kernel values that one thread computes at once for the sums over classes.
_BLOCK_BYTES = 1 << 25


class KernelRows:
    """A cache of rows of the kernel of one gamma; the least recently used ones are dropped.

    A row that was dropped and is computed again is the same to the last digit: products are
    computed in float64, so that their rounding to float32 does not depend on which rows are
    computed together.  Residuals updated with differing rows would drift.

    Parameters
    ----------
    rows : float array of shape (n, n_features), from ``prepare_rows``
    kernel : Kernel
    memory_bytes : int
        Bytes for the cached rows; at least 64 rows are cached.
    pool : Executor
        Its threads each compute some of the columns.
    """

    def __init__(self, rows: np.ndarray, kernel: Kernel, memory_bytes: int, pool: Executor) -> None:
        rows = np.ascontiguousarray(rows, np.float64)
        n = len(rows)
        self.kernel, self.n_computed = kernel, 0
        self._rows, self._pool = rows, pool
        self._norms = np.einsum("ij,ij->i", rows, rows)
        squared_norms = (
            np.zeros(n, np.float32) if kernel.of_distances else self._norms.astype(np.float32)
        )
        self.diagonal = kernel_values(squared_norms[:, None], kernel)[:, 0]
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

    def block(self, row_numbers: np.ndarray, other_numbers: slice | np.ndarray) -> np.ndarray:
        """Kernel values of some rows with others, float32 of shape (n_rows, n_others)."""
        rows, other_rows, norms = self._rows[row_numbers], self._rows[other_numbers], self._norms
        products = rows @ other_rows.T
        shared = np.empty(products.shape, np.float32)
        if self.kernel.of_distances:
            finish_distances(
                products, rows, other_rows, norms[row_numbers], norms[other_numbers], shared
            )
        else:
            shared[...] = products
        return kernel_values(shared, self.kernel, shared)

    def new_columns(self, members: np.ndarray, first: int) -> np.ndarray:
        """Kernel values of the members from ``first`` on with all members.

        float32 of shape (n_members - first, n_members); its last square part, of the new members
        with each other, is exactly symmetric.
        """
        columns = self.block(members[first:], members)
        square = columns[:, first:]
        square[...] = np.tril(square) + np.tril(square, -1).T
        return columns

    def _fetch(self, rows: np.ndarray) -> np.ndarray:
        """Load at most ``capacity`` rows into the store; returns their slots in it."""
        self._now += 1
        occupied_slots = self._slot[rows]
        self._used[occupied_slots[occupied_slots >= 0]] = self._now
        missing = rows[occupied_slots < 0]
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
        return self._slot[rows]

    def subtract(self, residual: np.ndarray, rows: np.ndarray, factors: np.ndarray) -> None:
        """Compute ``residual -= factors @ kernel[rows]``; shapes (n,), (m,) and (m,)."""
        for at in range(0, rows.size, self.capacity):
            slots = self._fetch(rows[at : at + self.capacity])
            row_factors = factors[at : at + self.capacity]

            def work(
                piece: tuple[slice, np.ndarray],
                slots: np.ndarray = slots,
                row_factors: np.ndarray = row_factors,
            ) -> None:
                columns, store = piece
                part = residual[None, columns]
                subtract_rows(part, 0, part.shape[1], store, slots, row_factors, len(row_factors))

            list(self._pool.map(work, self._store))


class _Members:
    """The working set and its compact kernel, to which rows are added until it is too large."""

    def __init__(self, source: KernelRows, largest: int) -> None:
        self.source, self.rows = source, np.empty(0, np.int64)
        self.position = np.full(source.diagonal.size, -1, np.int64)
        self.compact = np.empty((largest, largest + 16), np.float32)

    def hold(self, rows: np.ndarray) -> None:
        """Make these rows members; drop the others if there are too many of them."""
        new = rows[self.position[rows] < 0]
        total = self.rows.size + new.size
        if total > min(len(self.compact), rows.size + rows.size // 2 + 32):
            self.position[self.rows] = -1
            self.rows, new = np.empty(0, np.int64), rows
        first = self.rows.size
        self.rows = np.concatenate((self.rows, new))
        self.position[new] = np.arange(first, self.rows.size)
        if new.size:
            columns = self.source.new_columns(self.rows, first)
            self.compact[first : self.rows.size, : self.rows.size] = columns
            self.compact[:first, first : self.rows.size] = columns[:, :first].T


def _solve_one_C(
    members: _Members, state: np.ndarray, numbers: np.ndarray, level: float, tol: float, limit: int
) -> tuple[int, int]:
    """Solve working sets until every row meets the stopping rule; returns iterations and status."""
    n, done, largest, source = state.shape[1], 0, len(members.compact), members.source
    while True:
        top, bottom, i, j = optimality(state, n)
        if not (top - bottom >= tol):
            return done, CONVERGED
        if done >= limit:
            return done, ITERATION_LIMIT
        count = select_rows(state, numbers, n, level, i, j)
        if count > largest:
            keep_most_violating(state, numbers, largest)
        members.hold(np.flatnonzero(numbers[CHOSEN]))
        rows = members.rows
        inner = state[: FALL + 1, rows]
        iterations, status = solve_dense(
            members.compact,
            source.diagonal[rows],
            inner,
            rows.size,
            max(tol, INNER_GAP * (top - bottom)),
            limit - done,
        )
        level = intercept_of(inner, rows.size)
        done += iterations
        change = inner[BETA] - state[BETA, rows]
        changed = np.flatnonzero(change)
        state[BETA, rows] = inner[BETA]
        source.subtract(state[RESIDUAL], rows[changed], change[changed])
        if status == STALLED:
            return done, STALLED


def largest_working_set(n: int, memory_bytes: int) -> int:
    """The size of a working set whose kernel takes at most an eighth of the memory."""
    return int(min(n, 4096, max(32, np.sqrt(memory_bytes / 32))))


def walk_rows(
    source: KernelRows,
    largest: int,
    problem_data: np.ndarray,
    Cs: np.ndarray,
    tol: float,
    limit: int,
    out: Path,
) -> tuple[int, int]:
    """Walk along C like ``walk``, with kernel rows in place of a kernel.

    Parameters
    ----------
    source : KernelRows, of the problem's rows
    largest : int
        The most rows in a working set.
    problem_data, Cs, tol, limit, out : as for ``walk``

    Returns
    -------
    solved, single : int, as for ``walk``
    """
    (state, numbers), members = new_state(problem_data, Cs[0]), _Members(source, largest)
    solved = walk_on(
        -1,
        partial(_solve_one_C, members, state, numbers),
        partial(source.subtract, state[TRIAL_RESIDUAL]),
        problem_data,
        state,
        numbers,
        Cs,
        tol,
        limit,
        SCALE_FRACTION,
        out,
    )
    out.repeat_from(solved)
    return solved, Cs.size


def _pulls(
    source: KernelRows, starts: np.ndarray, weights: np.ndarray, pool: Executor
) -> np.ndarray:
    """Kernel times weights over each class, float64 (n_folds, n_classes, n), block by block.

    starts : int64 (n_classes + 1,), where each class begins
    weights : float64 (n_folds, n)
    """
    n = source.diagonal.size
    pulls = np.empty((len(weights), len(starts) - 1, n))
    step = int(max(16, min(n, _BLOCK_BYTES // (8 * n))))

    def work(first: int) -> None:
        row_numbers = np.arange(first, min(first + step, n))
        block_pulls = np.empty((*pulls.shape[:2], row_numbers.size))
        class_pulls(
            source.block(row_numbers, slice(0, n)),
            starts,
            weights,
            0,
            row_numbers.size,
            block_pulls,
        )
        pulls[:, :, row_numbers] = block_pulls

    list(pool.map(work, range(0, n, step)))
    return pulls


def open_rows(
    rows: np.ndarray, kernel: Kernel, resources: Resources, starts: np.ndarray, weights: np.ndarray
) -> tuple[Walker, np.ndarray]:
    """``OpenKernel`` for rows whose kernel does not fit: its rows are cached in 5/8 of the memory.

    Parameters
    ----------
    rows : float array of shape (n, n_features), sorted, from ``prepare_rows``
    kernel : Kernel
    resources : Resources
    starts, weights : see ``OpenKernel``
    """
    source = KernelRows(rows, kernel, resources.memory_bytes // 8 * 5, resources.pool)
    largest = largest_working_set(len(rows), resources.memory_bytes)
    return partial(walk_rows, source, largest), _pulls(source, starts, weights, resources.pool)
