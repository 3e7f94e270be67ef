"""The GPU's walk along C, carried out on the CPU to count what it would do.

The rules are those of ``pipelines.svm.cuda.smo``: which rows an inner solve takes, how far
it goes, how a solution becomes the start for the next C. The arithmetic is that of
``pipelines.svm.cpu``, so that iterations are those of the CPU's SMO on the same members.
"""

from __future__ import annotations

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.binary import BinaryProblem, new_state
from pipelines.svm.cpu.smo import solve_dense
from pipelines.svm.cpu.start import reach, tolerance_at
from pipelines.svm.cpu.steps import begin, settle
from pipelines.svm.cpu.working_set import intercept_of, optimality, select, subtract_rows
from pipelines.svm.rules import INNER_GAP, SCALE_SHARE
from pipelines.svm.solutions import CONVERGED, STALLED

# What is counted: inner solves, their iterations, members times iterations, and multipliers
# that changed in them, whose kernel rows are taken off all residuals.
SOLVES, ITERATIONS, VISITED, TAKEN_OFF = range(4)
N_COUNTS = 4


@compiled()
def replay(
    kernel: np.ndarray,
    problem: BinaryProblem,
    Cs: np.ndarray,
    tol: float,
    limit: int,
    capacity: int,
    share: float,
    counts: np.ndarray,
) -> int:
    """Walk one binary problem's path, and count.

    Parameters
    ----------
    kernel : float32 array of shape (n, n), exactly symmetric
    problem : BinaryProblem
    Cs : float64 array of shape (n_C,), ascending
    tol, limit : stopping tolerance, and the largest number of iterations for one C
    capacity : int
        Of more members than these, all rows are worked on.
    share : float
        Of more members than this part of the rows, too, where the rows fit ``capacity``.
    counts : int64 array of shape (N_COUNTS,), added to

    Returns
    -------
    int : how many C were solved; the others have the last one's solution
    """
    n = problem.y.size
    diagonal = np.empty(n, np.float32)
    for k in range(n):
        diagonal[k] = kernel[k, k]
    state = new_state(n)
    chosen, rows = np.empty(n, np.bool_), np.empty(n, np.int64)
    rise, fall = np.empty(n), np.empty(n)
    changed, factors = np.empty(n, np.int64), np.empty(n)
    flat = np.empty(0, np.float32)
    span, size = reach(problem)
    n_support, n_bounded = 0, 0
    for c in range(Cs.size):
        # Two values of C at a time: then there is no trial beside the start, as on the GPU.
        pair = Cs[max(c - 1, 0) : c + 1]
        lacks, _ = begin(min(c, 1), pair, problem, state, n_support, n_bounded, SCALE_SHARE)
        if c == 0:
            subtract_rows(state.trial_residual, kernel, state.rows[:lacks], state.factors[:lacks])
            settle(0, lacks, True, 0.0, problem.y, state)
        tol_here = tolerance_at(Cs[c], tol, span, size)
        residual, beta, lower, upper = state.residual, state.beta, state.lower, state.upper
        done, status = 0, CONVERGED
        while True:
            top, bottom, i, j = optimality(residual, beta, lower, upper)
            if not (top - bottom >= tol_here):
                status = CONVERGED
                break
            if status == STALLED or done >= limit:
                break
            level = intercept_of(residual, beta, lower, upper)
            m = select(residual, beta, lower, upper, level, i, j, chosen)
            inner_tol = max(tol_here, INNER_GAP * (top - bottom))
            if m > capacity or (m > share * n and n <= capacity):
                m = n
                iterations, status = solve_dense(
                    kernel, diagonal, residual, beta, lower, upper, rise, fall, tol_here,
                    limit - done,
                )  # fmt: skip
                n_changed = 0
            else:
                at = 0
                for k in range(n):
                    if chosen[k]:
                        rows[at] = k
                        at += 1
                if flat.size < m * m:
                    flat = np.empty(m * m, np.float32)
                compact = flat[: m * m].reshape(m, m)
                for p in range(m):
                    source = kernel[rows[p]]
                    for q in range(m):
                        compact[p, q] = source[rows[q]]
                some = rows[:m]
                r, b, lo, hi = residual[some], beta[some], lower[some], upper[some]
                iterations, status = solve_dense(
                    compact, diagonal[some], r, b, lo, hi, rise[:m], fall[:m], inner_tol,
                    limit - done,
                )  # fmt: skip
                n_changed = 0
                for p in range(m):
                    k = rows[p]
                    if b[p] != beta[k]:
                        changed[n_changed], factors[n_changed] = k, b[p] - beta[k]
                        beta[k] = b[p]
                        n_changed += 1
                subtract_rows(residual, kernel, changed[:n_changed], factors[:n_changed])
            done += iterations
            counts[SOLVES] += 1
            counts[ITERATIONS] += iterations
            counts[VISITED] += m * iterations
            counts[TAKEN_OFF] += n_changed
        n_support, n_bounded = 0, 0
        for k in range(n):
            if beta[k] != 0.0:
                n_support += 1
                n_bounded += beta[k] == lower[k] or beta[k] == upper[k]
        if n_bounded == 0 and status == CONVERGED:
            return c + 1
    return Cs.size
