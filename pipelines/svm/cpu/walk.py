"""The walk along C for a problem whose kernel is in memory.

It begins with SMO on the kernel in single precision.  Where that takes longer than Newton's
method is expected to, the walk goes on with both, SMO to find the free rows and Newton's
method to finish, on a kernel in double precision if there is one.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.active_set import solve_active
from pipelines.svm.cpu.binary import BinaryProblem, Path, State, new_state
from pipelines.svm.cpu.exact import ExactRows
from pipelines.svm.cpu.seed import SCALE_SHARE
from pipelines.svm.cpu.smo import solve_dense
from pipelines.svm.cpu.steps import begin, finish, settle
from pipelines.svm.cpu.tolerance import reach, tolerance_at
from pipelines.svm.cpu.working_set import (
    gather,
    intercept_of,
    keep_worst,
    optimality,
    select,
    subtract_rows,
)
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

# A working set pays when it is this much smaller than the problem, and up to this
# size (its kernel is then 64 MiB); else all rows are worked on in place.
_WORKING_SHARE = 0.2
_LARGEST_WORKING_SET = 4096

# An inner solve closes nine tenths of the gap before the other rows are looked
# at: to finish on a set that is not yet the right one wastes iterations.
INNER_GAP = 0.1

# A problem is hard at a C when SMO has taken this many nanoseconds, by a rough count, and
# as many for each value of its kernel: more than the exact kernel costs.
_HARD_NS, _HARD_NS_A_VALUE = 3e6, 4.0
# What an SMO iteration takes, and each of its rows.
_ITERATION_NS, _ROW_NS = 150.0, 1.2

# Then the working set may be the whole problem, and SMO has this share of its rows in
# iterations to find who is free.
_SMO_SHARE = 0.3

# There multipliers at their bound go on with it (``seed``): one Newton step then mends those
# between bounds, while to bring many to their bound takes as many steps.
_HARD_SCALE_SHARE = 0.0

# Rounds in a row without progress after which it has stalled.
_MOST_IDLE = 20

# A kernel in single precision is off by this share of its values; where that makes of a
# residual more than this share of the tolerance, the problem is hard, too.
_SINGLE, _ROUNDED_SHARE = 6e-8, 0.5

# Beside the words for how a solution ended: it is hard, or wants kernel rows that are not
# there, and has not ended.
_HARD, _WANTS_ROWS = -1, -2


class Members(NamedTuple):
    """The working set.

    chosen : bool (n,), the rows an inner solve needs
    place : int64 (n,), where each row is among the members, or -1
    rows : int64 (capacity,), the members
    compact : (capacity, capacity + 16), their kernel, of the kernel's type
    work : float64 (6, capacity), work space
    factor : float64 (capacity, capacity), work space of Newton's method, (0, 0) before
    """

    chosen: np.ndarray
    place: np.ndarray
    rows: np.ndarray
    compact: np.ndarray
    work: np.ndarray
    factor: np.ndarray


@compiled()
def _no_members(kernel: np.ndarray, hard: bool) -> Members:
    n, share = kernel.shape[1], 1.0 if hard else _WORKING_SHARE
    capacity = min(_LARGEST_WORKING_SET, max(2, int(share * n)))
    side = capacity if hard else 0
    return Members(
        np.empty(n, np.bool_), np.full(n, -1, np.int64), np.empty(capacity, np.int64),
        np.empty((capacity, capacity + 16), kernel.dtype), np.empty((6, capacity)),
        np.empty((side, side)),
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
    limit: int,
    hard: bool,
) -> tuple[int, int, float]:
    """An inner solve on the m members, and its effect on every row's residual.

    hard : Newton's method finishes it

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
    most = min(limit, int(_SMO_SHARE * m)) if hard else limit
    iterations, status = solve_dense(members.compact, diag, r, b, lo, hi, rise, fall, tol, most)
    if hard and iterations < limit:
        steps, status = solve_active(
            members.compact, r, b, lo, hi, members.factor, tol, limit - iterations
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
def _solve_one_C(
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
    hard: bool,
    may_be_hard: bool,
) -> tuple[int, int, int, int, float]:
    """Inner solves on working sets until every row meets the stopping rule.

    A round that changes nothing counts as an iteration, so that every solve ends.

    idle : rounds without progress so far

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
        if idle == _MOST_IDLE:
            return done, STALLED, n_members, idle, level
        if may_be_hard and (left <= 0.0 or idle > 0):
            return done, _HARD, n_members, idle, level
        count = select(residual, beta, lower, upper, level, i, j, members.chosen)
        if hard and count > capacity:
            count = keep_worst(residual, beta, lower, upper, level, i, j, members.chosen, capacity)
        for k in range(n):
            if members.chosen[k] and slot[k] < 0:
                return done, _WANTS_ROWS, n_members, idle, level
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
                max(tol, INNER_GAP * (top - bottom)), most, hard,
            )  # fmt: skip
        left -= iterations * lanes
        done += max(1, iterations)
        # What a round leaves undone without a step, the next would leave, too.
        idle = idle + 1 if iterations == 0 or status == STALLED else 0


@compiled()
def _rounded(kernel: np.ndarray, beta: np.ndarray) -> float:
    """About how much a kernel in single precision lets residuals be off.

    As many roundings as there are multipliers, of either sign, in the row of the largest.
    """
    row, total = kernel[np.argmax(np.abs(beta))], 0.0
    for k in range(beta.size):
        part = np.float64(row[k]) * beta[k]
        total += part * part
    return _SINGLE * np.sqrt(total)


@compiled()
def _residuals_anew(kernel: np.ndarray, slot: np.ndarray, y: np.ndarray, state: State) -> None:
    for beta, residual in ((state.beta, state.residual), (state.old_beta, state.old_residual)):
        moved = np.flatnonzero(beta)
        residual[:] = y
        subtract_rows(residual, kernel, slot[moved], beta[moved])


@compiled()
def _start(
    kernel: np.ndarray,
    slot: np.ndarray,
    c: int,
    Cs: np.ndarray,
    problem: BinaryProblem,
    state: State,
    last: tuple[float, int, int],
    scale_share: float,
    from_zero: bool,
) -> float:
    """Where the walk begins at C number c; gives an estimate of the intercept.

    last : of the C before, from ``finish``
    from_zero : every C starts from multipliers of 0
    """
    level, n_support, n_bounded = last
    m, changed = begin(c, Cs, problem, state, n_support, n_bounded, scale_share)
    if m > 0:
        subtract_rows(state.trial_residual, kernel, slot[state.rows[:m]], state.factors[:m])
    level = settle(c, m, changed, level, problem.y, state)
    if from_zero:
        state.beta[:] = 0.0
        state.residual[:] = problem.y
    return level


@compiled()
def _walk_easily(
    kernel: np.ndarray,
    diagonal: np.ndarray,
    problem: BinaryProblem,
    Cs: np.ndarray,
    tol: float,
    limit: int,
    out: Path,
    state: State,
    convex: bool,
) -> tuple[int, bool]:
    """Solve for every C by SMO, until one is hard.

    convex : else every C starts from multipliers of 0, and none is hard

    Returns how many C were solved, and whether the next is hard.
    """
    members, n_members, slot = _no_members(kernel, False), 0, np.arange(len(kernel))
    span, size = reach(problem)
    level, n_support, n_bounded = 0.0, 0, 0
    for c in range(Cs.size):
        level = _start(
            kernel,
            slot,
            c,
            Cs,
            problem,
            state,
            (level, n_support, n_bounded),
            SCALE_SHARE,
            not convex,
        )
        out.iterations[c], out.status[c], n_members, _, _ = _solve_one_C(
            kernel, slot, diagonal, state, level, tolerance_at(Cs[c], tol, span, size), limit,
            members, n_members, 0, False, convex,
        )  # fmt: skip
        if convex and _rounded(kernel, state.beta) > _ROUNDED_SHARE * tol:
            out.status[c] = _HARD
        if out.status[c] == _HARD:
            return c, True
        level, n_support, n_bounded, ends = finish(c, problem.y, state, out)
        if ends:
            return c + 1, False
    return Cs.size, False


def _walk_hard(
    kernel: np.ndarray,
    exact: ExactRows | None,
    problem: BinaryProblem,
    Cs: np.ndarray,
    tol: float,
    limit: int,
    out: Path,
    state: State,
    first: int,
) -> int:
    """Solve for every C from number ``first`` on, of which a part of the way is done.

    exact : rows in double precision; None where there is no room for more of them, and those
        of ``kernel`` must do

    Returns how many C were solved.
    """
    n = problem.y.size
    on_kernel = partial(_walk_hard, kernel, None, problem, Cs, tol, limit, out, state)
    if exact is None:
        store, slot, diagonal = kernel, np.arange(n), np.diagonal(kernel).copy()
    elif exact.hold(np.flatnonzero((state.beta != 0) | (state.old_beta != 0))):
        store, slot, diagonal = exact.store, exact.slot, exact.diagonal
    else:
        return on_kernel(first)
    _residuals_anew(store, slot, problem.y, state)
    members, n_members = _no_members(store, True), 0
    span, size = reach(problem)
    level = intercept_of(state.residual, state.beta, state.lower, state.upper)
    last = level, 0, 0
    for c in range(first, Cs.size):
        done, idle, status = 0, 0, _WANTS_ROWS
        if c == first:
            done = int(out.iterations[first])
        else:
            level = _start(store, slot, c, Cs, problem, state, last, _HARD_SCALE_SHARE, False)
        while True:
            more, status, n_members, idle, level = _solve_one_C(
                store, slot, diagonal, state, level, tolerance_at(Cs[c], tol, span, size),
                limit - done, members, n_members, idle, True, False,
            )  # fmt: skip
            done += more
            out.iterations[c], out.status[c] = done, status
            if status != _WANTS_ROWS:
                break
            if exact is None or not exact.hold(np.flatnonzero(members.chosen)):
                return on_kernel(c)
        level, n_support, n_bounded, ends = finish(c, problem.y, state, out)
        last = level, n_support, n_bounded
        if ends:
            return c + 1
    return Cs.size


def walk(
    kernel: np.ndarray,
    diagonal: np.ndarray,
    exact: Callable[[], ExactRows] | None,
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
    exact : gives rows of the same kernel in float64; None for a kernel that is not positive
        definite: every C then starts from 0, as in LIBSVM
    problem : BinaryProblem
    Cs : float64 array of shape (n_C,), ascending
    tol, limit : stopping tolerance, and the largest number of iterations for one C
    out : Path, output

    Returns
    -------
    int : how many C were solved; the rest has the last one's solution
    """
    state = new_state(problem.y.size)
    solved, hard = _walk_easily(
        kernel, diagonal, problem, Cs, tol, limit, out, state, exact is not None
    )
    if hard and exact is not None:
        solved = _walk_hard(kernel, exact(), problem, Cs, tol, limit, out, state, solved)
    return solved
