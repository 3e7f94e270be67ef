"""The walk along C for a problem whose kernel does not fit in memory.

The same path as in ``walk``, in which the residual of all rows needs the kernel
rows of the multipliers that changed, and an inner solve the small kernel of its
working set (decomposition: T. Joachims, "Making large-scale SVM learning
practical", 1999).
"""

import numpy as np

from pipelines.svm.cpu.problem import (
    BETA,
    CHANGED,
    CHOSEN,
    FACTORS,
    FALL,
    LOWER,
    RESIDUAL,
    TRIAL_RESIDUAL,
    UPPER,
    Path,
    new_state,
)
from pipelines.svm.cpu.row_cache import KernelRows
from pipelines.svm.cpu.smo import solve_dense
from pipelines.svm.cpu.steps import begin, finish, reach, settle, tolerance_at
from pipelines.svm.cpu.working_set import intercept_of, optimality, select
from pipelines.svm.rules import INNER_GAP, SCALE_SHARE
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED


class _Members:
    """The working set and its kernel, grown while it pays and then begun anew."""

    def __init__(self, source: KernelRows, largest: int) -> None:
        self.source, self.rows = source, np.empty(0, np.int64)
        self.place = np.full(source.diagonal.size, -1, np.int64)
        self.compact = np.empty((largest, largest + 16), np.float32)

    def hold(self, wanted: np.ndarray) -> None:
        """Load at least the wanted rows into the members."""
        new = wanted[self.place[wanted] < 0]
        total = self.rows.size + new.size
        if total > min(len(self.compact), wanted.size + wanted.size // 2 + 32):
            self.place[self.rows] = -1
            self.rows, new = np.empty(0, np.int64), wanted
        first = self.rows.size
        self.rows = np.concatenate((self.rows, new))
        self.place[new] = np.arange(first, self.rows.size)
        if new.size:
            columns = self.source.new_columns(self.rows, first)
            self.compact[first : self.rows.size, : self.rows.size] = columns
            self.compact[:first, first : self.rows.size] = columns[:, :first].T


def _worst(state: np.ndarray, largest: int) -> np.ndarray:
    """Return the rows that violate most, half of them to rise and half to fall."""
    half, residual = largest // 2, state[RESIDUAL]
    rise = np.flatnonzero(state[BETA] < state[UPPER])
    fall = np.flatnonzero(state[BETA] > state[LOWER])
    if rise.size > half:
        rise = rise[np.argpartition(-residual[rise], half - 1)[:half]]
    if fall.size > half:
        fall = fall[np.argpartition(residual[fall], half - 1)[:half]]
    return np.union1d(rise, fall)


def _solve_one_C(
    members: _Members, state: np.ndarray, numbers: np.ndarray, level: float, tol: float, limit: int
) -> tuple[int, int]:
    """Solve working sets until every row meets the stopping rule; iterations and status."""
    n, done, largest, source = state.shape[1], 0, len(members.compact), members.source
    while True:
        top, bottom, i, j = optimality(state, n)
        if not (top - bottom >= tol):
            return done, CONVERGED
        if done >= limit:
            return done, ITERATION_LIMIT
        count = select(state, numbers, n, level, i, j)
        wanted = np.flatnonzero(numbers[CHOSEN]) if count <= largest else _worst(state, largest)
        members.hold(wanted)
        rows = members.rows
        inner = state[: FALL + 1, rows]
        iterations, status = solve_dense(
            members.compact, source.diagonal[rows], inner, rows.size,
            max(tol, INNER_GAP * (top - bottom)), limit - done,
        )  # fmt: skip
        level = intercept_of(inner, rows.size)
        done += iterations
        change = inner[BETA] - state[BETA, rows]
        changed = np.flatnonzero(change)
        state[BETA, rows] = inner[BETA]
        source.subtract(state[RESIDUAL], rows[changed], change[changed])
        if status == STALLED:
            return done, STALLED


def largest_working_set(n: int, memory_bytes: int) -> int:
    """Return the size of a working set whose kernel takes an eighth of the memory at most."""
    return int(min(n, 4096, max(32, np.sqrt(memory_bytes / 32))))


def walk_rows(
    source: KernelRows,
    largest: int,
    given: np.ndarray,
    Cs: np.ndarray,
    tol: float,
    limit: int,
    out: Path,
) -> int:
    """Walk along C like ``walk``, from kernel rows in place of a kernel.

    source : kernel rows of the problem's rows
    largest : number of rows of a working set
    """
    (state, numbers), members = new_state(given, Cs[0]), _Members(source, largest)
    reached = reach(given)
    level, n_support, n_bounded = 0.0, 0, 0
    for c, C in enumerate(Cs):
        m, changed = begin(c, Cs, given, state, numbers, n_support, n_bounded, SCALE_SHARE)
        if m > 0:
            source.subtract(state[TRIAL_RESIDUAL], numbers[CHANGED, :m], state[FACTORS, :m])
        level = settle(c, m, changed, level, given, state)
        out.iterations[c], out.status[c] = _solve_one_C(
            members, state, numbers, level, tolerance_at(C, tol, reached), limit
        )
        level, out.objectives[c], n_support, n_bounded = finish(
            c, given, state, out.betas, out.residuals
        )
        out.intercepts[c] = level
        if n_bounded == 0 and out.status[c] == CONVERGED:
            out.repeat_from(c + 1)
            return c + 1
    return Cs.size
