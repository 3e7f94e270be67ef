"""The walk along C for a problem whose kernel is in memory.

It begins with SMO on the kernel in single precision.  Where that takes longer than Newton's
method is expected to, the walk goes on with both, SMO to find the free rows and Newton's
method to finish, on a kernel in double precision if there is one.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.binary import BinaryProblem, Path, State, new_state
from pipelines.svm.cpu.exact import ExactRows
from pipelines.svm.cpu.factor import no_factor
from pipelines.svm.cpu.rounds import HARD, WANTS_ROWS, no_members, solve_one_C
from pipelines.svm.cpu.start import reach, tolerance_at
from pipelines.svm.cpu.steps import begin, finish, settle
from pipelines.svm.cpu.working_set import intercept_of, subtract_rows
from pipelines.svm.rules import HARD_SCALE_SHARE, SCALE_SHARE

# A kernel in single precision is off by this share of its values; where that makes of a
# residual more than this share of the tolerance, the problem is hard, too.
_SINGLE, _ROUNDED_SHARE = 6e-8, 0.5


@compiled()
def _rounded(kernel: np.ndarray, beta: np.ndarray) -> float:
    """Return about how much a kernel in single precision lets residuals be off.

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
    """Start the walk at C number c; return an estimate of the intercept.

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
    members, slot = no_members(kernel, False), np.arange(len(kernel))
    span, size = reach(problem)
    # Of the type that they have later: of a literal, all that takes them is compiled once more.
    n_members = n_support = n_bounded = int(np.int64(0))
    level = 0.0
    for c in range(Cs.size):
        last = level, n_support, n_bounded
        level = _start(kernel, slot, c, Cs, problem, state, last, SCALE_SHARE, not convex)
        out.iterations[c], out.status[c], n_members, _, _ = solve_one_C(
            kernel, slot, diagonal, state, level, tolerance_at(Cs[c], tol, span, size), limit,
            members, n_members, 0, None, convex,
        )  # fmt: skip
        if convex and _rounded(kernel, state.beta) > _ROUNDED_SHARE * tol:
            out.status[c] = HARD
        if out.status[c] == HARD:
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
    members, n_members = no_members(store, True), 0
    factor = no_factor(members.rows.size)
    span, size = reach(problem)
    level = intercept_of(state.residual, state.beta, state.lower, state.upper)
    last = level, 0, 0
    for c in range(first, Cs.size):
        done, idle, status = 0, 0, WANTS_ROWS
        if c == first:
            done = int(out.iterations[first])
        else:
            level = _start(store, slot, c, Cs, problem, state, last, HARD_SCALE_SHARE, False)
        while True:
            more, status, n_members, idle, level = solve_one_C(
                store, slot, diagonal, state, level, tolerance_at(Cs[c], tol, span, size),
                limit - done, members, n_members, idle, factor, False,
            )  # fmt: skip
            done += more
            out.iterations[c], out.status[c] = done, status
            if status != WANTS_ROWS:
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
