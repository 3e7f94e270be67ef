"""The walk along C for a problem whose kernel is in memory."""

from typing import NamedTuple

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.binary import BinaryProblem, Path, State, new_state
from pipelines.svm.cpu.smo import solve_dense
from pipelines.svm.cpu.steps import begin, finish, settle
from pipelines.svm.cpu.tolerance import reach, tolerance_at
from pipelines.svm.cpu.working_set import gather, intercept_of, optimality, select, subtract_rows
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

# A working set pays when it is this much smaller than the problem, and up to this
# size (its kernel is then 64 MiB); else all rows are worked on in place.
_WORKING_SHARE = 0.2
_LARGEST_WORKING_SET = 4096

# An inner solve closes nine tenths of the gap before the other rows are looked
# at: to finish on a set that is not yet the right one wastes iterations.
INNER_GAP = 0.1


class Members(NamedTuple):
    """The working set.

    chosen : bool (n,), the rows an inner solve needs
    place : int64 (n,), where each row is among the members, or -1
    rows : int64 (capacity,), the members
    compact : float32 (capacity, capacity + 16), their kernel
    work : float64 (6, capacity), work space
    """

    chosen: np.ndarray
    place: np.ndarray
    rows: np.ndarray
    compact: np.ndarray
    work: np.ndarray


@compiled()
def _no_members(n: int) -> Members:
    capacity = min(_LARGEST_WORKING_SET, max(2, int(_WORKING_SHARE * n)))
    return Members(
        np.empty(n, np.bool_), np.full(n, -1, np.int64), np.empty(capacity, np.int64),
        np.empty((capacity, capacity + 16), np.float32), np.empty((6, capacity)),
    )  # fmt: skip


@compiled()
def _solve_members(
    kernel: np.ndarray,
    diagonal: np.ndarray,
    state: State,
    members: Members,
    m: int,
    tol: float,
    limit: int,
) -> tuple[int, int, float]:
    """An inner solve on the m members, and its effect on every row's residual.

    Returns iterations, status and the members' estimate of the intercept.
    """
    residual, beta, lower, upper = state.residual, state.beta, state.lower, state.upper
    rows, work = members.rows, members.work
    r, b, lo, hi, rise, fall = (
        work[0, :m], work[1, :m], work[2, :m], work[3, :m], work[4, :m], work[5, :m],
    )  # fmt: skip
    diag = np.empty(m, np.float32)
    for p in range(m):
        k = rows[p]
        r[p], b[p], lo[p], hi[p], diag[p] = residual[k], beta[k], lower[k], upper[k], diagonal[k]
    iterations, status = solve_dense(members.compact, diag, r, b, lo, hi, rise, fall, tol, limit)
    changed, factors, n_changed = np.empty(m, np.int64), np.empty(m), 0
    for p in range(m):
        k = rows[p]
        if b[p] != beta[k]:
            changed[n_changed], factors[n_changed] = k, b[p] - beta[k]
            beta[k] = b[p]
            n_changed += 1
    subtract_rows(residual, kernel, changed[:n_changed], factors[:n_changed])
    return iterations, status, intercept_of(r, b, lo, hi)


@compiled()
def _solve_one_C(
    kernel: np.ndarray,
    diagonal: np.ndarray,
    state: State,
    level: float,
    tol: float,
    limit: int,
    members: Members,
    n_members: int,
) -> tuple[int, int, int]:
    """Inner solves on working sets until every row meets the stopping rule.

    Returns iterations, status and the number of members.
    """
    residual, beta, lower, upper = state.residual, state.beta, state.lower, state.upper
    done, n, capacity = 0, residual.size, members.rows.size
    rise, fall = np.empty(n), np.empty(n)
    while True:
        top, bottom, i, j = optimality(residual, beta, lower, upper)
        if not (top - bottom >= tol):
            return done, CONVERGED, n_members
        if done >= limit:
            return done, ITERATION_LIMIT, n_members
        count = select(residual, beta, lower, upper, level, i, j, members.chosen)
        if count > capacity:
            iterations, status = solve_dense(
                kernel, diagonal, residual, beta, lower, upper, rise, fall, tol, limit - done
            )
            return done + iterations, status, n_members
        n_members = gather(
            kernel, members.chosen, count, members.rows, n_members, members.place, members.compact
        )
        iterations, status, level = _solve_members(
            kernel, diagonal, state, members, n_members,
            max(tol, INNER_GAP * (top - bottom)), limit - done,
        )  # fmt: skip
        done += iterations
        if status == STALLED:
            return done, STALLED, n_members


@compiled()
def walk(
    kernel: np.ndarray,
    diagonal: np.ndarray,
    problem: BinaryProblem,
    Cs: np.ndarray,
    tol: float,
    limit: int,
    out: Path,
) -> int:
    """Solve one binary problem for every C, each from the last solution.

    Parameters
    ----------
    kernel : float32 array of shape (n, n), exactly symmetric
    diagonal : float32 array of shape (n,)
    problem : BinaryProblem
    Cs : float64 array of shape (n_C,), ascending
    tol, limit : stopping tolerance, and the largest number of iterations for one C
    out : Path, output

    Returns
    -------
    int : how many C were solved; the rest has the last one's solution
    """
    state, members, n_members = new_state(problem.y.size), _no_members(problem.y.size), 0
    span, size = reach(problem)
    level, n_support, n_bounded = 0.0, 0, 0
    for c in range(Cs.size):
        m, changed = begin(c, Cs, problem, state, n_support, n_bounded)
        if m > 0:
            subtract_rows(state.trial_residual, kernel, state.rows[:m], state.factors[:m])
        level = settle(c, m, changed, level, problem.y, state)
        out.iterations[c], out.status[c], n_members = _solve_one_C(
            kernel, diagonal, state, level, tolerance_at(Cs[c], tol, span, size), limit,
            members, n_members,
        )  # fmt: skip
        level, n_support, n_bounded, ends = finish(c, problem.y, state, out)
        if ends:
            return c + 1
    return Cs.size
