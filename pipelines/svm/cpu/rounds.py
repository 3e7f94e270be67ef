"""Solve one C of a binary problem by inner solves on working sets: SMO and Newton's method.

The kernel is in memory, or those of its rows are that may change.
"""

from typing import NamedTuple

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.active_set import solve_active
from pipelines.svm.cpu.binary import State
from pipelines.svm.cpu.factor import Carried
from pipelines.svm.cpu.smo import solve_dense
from pipelines.svm.cpu.working_set import (
    gather,
    intercept_of,
    keep_worst,
    optimality,
    select,
    subtract_rows,
)
from pipelines.svm.rules import INNER_GAP, MOST_IDLE_ROUNDS, SMO_SHARE
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

# A working set pays when it is this much smaller than the problem, and up to this
# size (its kernel is then 64 MiB); else all rows are worked on in place.
_WORKING_SHARE = 0.2
_LARGEST_WORKING_SET = 4096

# A problem is hard at a C when SMO has taken this many nanoseconds, by a rough count, and
# as many for each value of its kernel: more than the exact kernel costs.
_HARD_NS, _HARD_NS_A_VALUE = 3e6, 4.0
# What an SMO iteration takes, and each of its rows.
_ITERATION_NS, _ROW_NS = 150.0, 1.2

# Beside the words for how a solution ended: it is hard, or wants kernel rows that are not
# there, and has not ended.
HARD, WANTS_ROWS = -1, -2


class Members(NamedTuple):
    """The working set.

    chosen : bool (n,), the rows an inner solve needs
    place : int64 (n,), where each row is among the members, or -1
    rows : int64 (capacity,), the members
    compact : (capacity, capacity + 16), their kernel, of the kernel's type
    work : float64 (6, capacity), work space
    """

    chosen: np.ndarray
    place: np.ndarray
    rows: np.ndarray
    compact: np.ndarray
    work: np.ndarray


@compiled()
def no_members(kernel: np.ndarray, hard: bool) -> Members:
    n, share = kernel.shape[1], 1.0 if hard else _WORKING_SHARE
    capacity = min(_LARGEST_WORKING_SET, max(2, int(share * n)))
    return Members(
        np.empty(n, np.bool_), np.full(n, -1, np.int64), np.empty(capacity, np.int64),
        np.empty((capacity, capacity + 16), kernel.dtype), np.empty((6, capacity)),
    )  # fmt: skip


@compiled()
def _solve_members(
    kernel: np.ndarray,
    slot: np.ndarray,
    diagonal: np.ndarray,
    state: State,
    members: Members,
    m: int,
    tol: float,
    finest: float,
    limit: int,
    factor: Carried | None,
) -> tuple[int, int, float]:
    """Return an inner solve on the m members, and its effect on every row's residual.

    finest : the tolerance of the whole problem
    factor : of Newton's method, which finishes it; None for SMO alone, and then Newton's method
        is not compiled, which takes a third of the time

    Returns iterations, status and the members' estimate of the intercept.
    """
    residual, beta, lower, upper = state.residual, state.beta, state.lower, state.upper
    rows, work = members.rows, members.work
    r, b, lo, hi, rise, fall = (
        work[0, :m], work[1, :m], work[2, :m], work[3, :m], work[4, :m], work[5, :m],
    )  # fmt: skip
    diag = np.empty(m, kernel.dtype)
    for p in range(m):
        k = rows[p]
        r[p], b[p], lo[p], hi[p], diag[p] = residual[k], beta[k], lower[k], upper[k], diagonal[k]
    most = limit
    if factor is not None:
        most = min(limit, int(SMO_SHARE * m))
    iterations, status = solve_dense(members.compact, diag, r, b, lo, hi, rise, fall, tol, most)
    if factor is not None and iterations < limit:
        steps, status = solve_active(
            members.compact, r, b, lo, hi, rows[:m], factor, tol, finest, limit - iterations
        )
        iterations += steps
    changed, factors, n_changed = np.empty(m, np.int64), np.empty(m), 0
    for p in range(m):
        k = rows[p]
        if b[p] != beta[k]:
            changed[n_changed], factors[n_changed] = slot[k], b[p] - beta[k]
            beta[k] = b[p]
            n_changed += 1
    subtract_rows(residual, kernel, changed[:n_changed], factors[:n_changed])
    return iterations, status, intercept_of(r, b, lo, hi)


@compiled()
def solve_one_C(
    kernel: np.ndarray,
    slot: np.ndarray,
    diagonal: np.ndarray,
    state: State,
    level: float,
    tol: float,
    limit: int,
    members: Members,
    n_members: int,
    idle: int,
    factor: Carried | None,
    may_be_hard: bool,
) -> tuple[int, int, int, int, float]:
    """Solve working sets until every row meets the stopping rule.

    A round that changes nothing counts as an iteration, so that every solve ends.

    idle : rounds without progress so far
    factor : see ``_solve_members``; None where the problem is not hard

    Returns iterations and status, and where it stands: the number of members, rounds
    without progress, and an estimate of the intercept.
    """
    residual, beta, lower, upper = state.residual, state.beta, state.lower, state.upper
    done, n, capacity = 0, residual.size, members.rows.size
    rise, fall = np.empty(n), np.empty(n)
    left = _HARD_NS + _HARD_NS_A_VALUE * n * n
    while True:
        top, bottom, i, j = optimality(residual, beta, lower, upper)
        if not (top - bottom >= tol):
            return done, CONVERGED, n_members, idle, level
        if done >= limit:
            return done, ITERATION_LIMIT, n_members, idle, level
        if idle == MOST_IDLE_ROUNDS:
            return done, STALLED, n_members, idle, level
        if may_be_hard and (left <= 0.0 or idle > 0):
            return done, HARD, n_members, idle, level
        count = select(residual, beta, lower, upper, level, i, j, members.chosen)
        if factor is not None and count > capacity:
            count = keep_worst(residual, beta, lower, upper, level, i, j, members.chosen, capacity)
        for k in range(n):
            if members.chosen[k] and slot[k] < 0:
                return done, WANTS_ROWS, n_members, idle, level
        lanes = _ITERATION_NS + _ROW_NS * min(n, count + count // 2 + 32)
        most = min(limit - done, int(left / lanes) + 1 if may_be_hard else limit)
        if count > capacity:
            iterations, status = solve_dense(
                kernel, diagonal, residual, beta, lower, upper, rise, fall, tol, most
            )
            lanes = _ITERATION_NS + _ROW_NS * n
        else:
            n_members = gather(
                kernel, slot, members.chosen, count, members.rows, n_members, members.place,
                members.compact,
            )  # fmt: skip
            iterations, status, level = _solve_members(
                kernel, slot, diagonal, state, members, n_members,
                max(tol, INNER_GAP * (top - bottom)), tol, most, factor,
            )  # fmt: skip
        left -= iterations * lanes
        done += max(1, iterations)
        # What a round leaves undone without a step, the next would leave, too.
        idle = idle + 1 if iterations == 0 or status == STALLED else 0
