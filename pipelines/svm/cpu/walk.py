"""The walk along C for a problem whose kernel is in memory.

It begins with SMO.  Where that takes longer than Newton's method is expected to, the walk goes
on with both, SMO to find the free rows and Newton's method to finish.  The kernel is in single
precision until its rounding shows; then rows of it are made in double precision.

Each C is solved by inner solves on working sets.  What is easy takes microseconds, so its walk
is compiled as a whole; what is hard takes milliseconds, and Python calls the compiled parts.
"""

from functools import partial

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.exact import ExactKernel, ExactRows
from pipelines.svm.cpu.newton import Newton
from pipelines.svm.cpu.problem import (
    BETA,
    CHANGED,
    CHOSEN,
    FACTORS,
    LOWER,
    MEMBERS,
    OLD_BETA,
    OLD_RESIDUAL,
    PLACE,
    RESIDUAL,
    TRIAL_RESIDUAL,
    UPPER,
    ZERO,
    Path,
    Y,
    new_state,
)
from pipelines.svm.cpu.smo import solve_dense
from pipelines.svm.cpu.steps import begin_steps, finish, reach, settle, tolerance_at, walk_on
from pipelines.svm.cpu.threads import scratch
from pipelines.svm.cpu.working_set import (
    gather,
    intercept_of,
    keep_worst,
    optimality,
    select_rows,
    subtract_rows,
)
from pipelines.svm.rules import (
    HARD_SCALE_FRACTION,
    INNER_GAP,
    MOST_IDLE_ROUNDS,
    RESOLVED32,
    RESOLVED64,
    SCALE_FRACTION,
    SMO_FRACTION,
)
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

# A working set pays when it is this much smaller than the problem, and up to this
# size (its kernel is then 64 MiB); else all rows are worked on in place.
WORKING_FRACTION = 0.2
_LARGEST_WORKING_SET = 4096

# A problem is hard at a C when SMO has taken as long, this C and the last, as Newton's method
# is expected to, both counted roughly in nanoseconds.  What an SMO iteration takes, and each of
# its rows:
_ITERATION_NS, _ROW_NS = 60.0, 0.5
# What Newton's method takes at a C: for itself, and by powers of the number of free rows; and
# what a value of its working set's kernel takes.
_NEWTON_NS, _GATHERED_NS = (4e5, 16e3, 20.0, 0.02), 4.0

# A kernel in single precision is off by this share of its values; where that makes of a
# residual more than this share of the tolerance, the problem is hard, too.
_SINGLE, _ROUNDED_FRACTION = 6e-8, 0.5
# Where it is off by so much, a solution in single precision is not even begun with.
_HOPELESS_FACTOR = 10.0

# Newton's method works on the free rows, and up to as many and this of those that violate most.
_MOST_VIOLATING = 200

# The sum of a solution's multipliers, of the largest bound.
_BALANCED = 1e-11

# Beside the words for how a solution ended: it is hard, and has not ended.
_HARD = -1


@compiled()
def _rounded(kernel: np.ndarray, state: np.ndarray) -> float:
    """Return about how much a kernel in single precision lets residuals be off.

    As many roundings as there are multipliers, of either sign, in the row of the largest.
    """
    row, total = 0, 0.0
    for k in range(state.shape[1]):
        if abs(state[BETA, k]) > abs(state[BETA, row]):
            row = k
    for k in range(state.shape[1]):
        part = np.float64(kernel[row, k]) * state[BETA, k]
        total += part * part
    return _SINGLE * np.sqrt(total)


@compiled(inner=True)
def _newton_ns(state: np.ndarray, count: int) -> float:
    """What Newton's method is expected to take.

    count : rows of its first working set
    """
    n_free = 0.0
    for k in range(state.shape[1]):
        n_free += state[LOWER, k] < state[BETA, k] < state[UPPER, k]
    constant, linear, square, cube = _NEWTON_NS
    return (
        constant
        + n_free * (linear + n_free * (square + n_free * cube))
        + _GATHERED_NS * count * count
    )


@compiled(inner=True)
def _solve_one_C(
    kernel: np.ndarray,
    diagonal: np.ndarray,
    slot: np.ndarray,
    state: np.ndarray,
    numbers: np.ndarray,
    compact: np.ndarray,
    compact_diagonal: np.ndarray,
    work: np.ndarray,
    n_members: int,
    level: float,
    tol: float,
    limit: int,
    may_be_hard: bool,
    spent_ns: float,
) -> tuple[int, int, int, float]:
    """Solve working sets until every row meets the stopping rule, or the problem is hard.

    A round that changes nothing counts as an iteration, so that every solve ends.

    Returns iterations and status, the number of members, and what it took beside ``spent``.
    """
    done, idle, n, start_ns, newton_ns = 0, 0, state.shape[1], spent_ns, 0.0
    while True:
        top, bottom, i, j = optimality(state, n)
        if not (top - bottom >= tol):
            return done, CONVERGED, n_members, spent_ns - start_ns
        if done >= limit:
            return done, ITERATION_LIMIT, n_members, spent_ns - start_ns
        if idle == MOST_IDLE_ROUNDS:
            return done, STALLED, n_members, spent_ns - start_ns
        count = select_rows(state, numbers, n, level, i, j)
        if may_be_hard:
            if spent_ns >= newton_ns:
                newton_ns = _newton_ns(state, count)
            if spent_ns >= newton_ns or idle > 0:
                return done, _HARD, n_members, spent_ns - start_ns
        iteration_ns = _ITERATION_NS + _ROW_NS * min(n, count + count // 2 + 32)
        iteration_limit = limit - done
        if may_be_hard:
            iteration_limit = min(iteration_limit, int((newton_ns - spent_ns) / iteration_ns) + 1)
        if count > compact.shape[0]:
            iterations, status = solve_dense(kernel, diagonal, state, n, tol, iteration_limit)
            iteration_ns = _ITERATION_NS + _ROW_NS * n
        else:
            n_members = gather(kernel, slot, numbers, n, count, n_members, compact)
            for p in range(n_members):
                k = numbers[MEMBERS, p]
                work[RESIDUAL, p], work[BETA, p] = state[RESIDUAL, k], state[BETA, k]
                work[LOWER, p], work[UPPER, p] = state[LOWER, k], state[UPPER, k]
                compact_diagonal[p] = diagonal[k]
            iterations, status = solve_dense(
                compact,
                compact_diagonal,
                work,
                n_members,
                max(tol, INNER_GAP * (top - bottom)),
                iteration_limit,
            )
            m = ZERO
            for p in range(n_members):
                k = numbers[MEMBERS, p]
                if work[BETA, p] != state[BETA, k]:
                    numbers[CHANGED, m], state[FACTORS, m] = k, work[BETA, p] - state[BETA, k]
                    state[BETA, k] = work[BETA, p]
                    m += 1
            subtract_rows(state, RESIDUAL, n, kernel, numbers[CHANGED], state[FACTORS], m)
            level = intercept_of(work, n_members)
        spent_ns += iterations * iteration_ns
        done += max(1, iterations)
        # What a round leaves undone without a step, the next would leave, too.
        idle = idle + 1 if iterations == 0 or status == STALLED else 0


@compiled()
def walk_easily(
    kernel: np.ndarray,
    diagonal: np.ndarray,
    slot: np.ndarray,
    problem_data: np.ndarray,
    state: np.ndarray,
    numbers: np.ndarray,
    compact: np.ndarray,
    compact_diagonal: np.ndarray,
    work: np.ndarray,
    Cs: np.ndarray,
    tol: float,
    limit: int,
    convex: bool,
    betas: np.ndarray,
    residuals: np.ndarray,
    intercepts: np.ndarray,
    objectives: np.ndarray,
    iterations: np.ndarray,
    status: np.ndarray,
) -> tuple[int, bool]:
    """Solve for every C by SMO, until one is hard.

    convex : whether the kernel is positive definite; else every C starts from multipliers of 0,
        and none is hard

    Returns how many C were solved, and whether the next is hard.
    """
    n, reached = state.shape[1], reach(problem_data)
    n_members = n_support = n_bounded = ZERO
    level, spent_ns = 0.0, 0.0
    for c in range(Cs.size):
        m, changed = begin_steps(
            c, Cs, problem_data, state, numbers, n_support, n_bounded, SCALE_FRACTION
        )
        if m > 0:
            subtract_rows(state, TRIAL_RESIDUAL, n, kernel, numbers[CHANGED], state[FACTORS], m)
        level = settle(c, m, changed, level, problem_data, state)
        if not convex:
            for k in range(n):
                state[BETA, k], state[RESIDUAL, k] = 0.0, problem_data[Y, k]
        iterations[c], status[c], n_members, spent_ns = _solve_one_C(
            kernel,
            diagonal,
            slot,
            state,
            numbers,
            compact,
            compact_diagonal,
            work,
            n_members,
            level,
            tolerance_at(Cs[c], tol, reached),
            limit,
            convex,
            spent_ns,
        )
        if convex and _rounded(kernel, state) > _ROUNDED_FRACTION * tol:
            status[c] = _HARD
        if status[c] == _HARD:
            return c, True
        level, objectives[c], n_support, n_bounded = finish(
            c, problem_data, state, betas, residuals
        )
        intercepts[c] = level
        if n_bounded == 0 and status[c] == CONVERGED:
            return c + 1, False
    return Cs.size, False


class _HardWalk:
    """The walk from the C on that is hard.

    Parameters
    ----------
    kernel : float32 array of shape (n, n)
    exact : rows in double precision
    given, state, numbers : see ``problem``
    tol : which the rounding of ``kernel`` is held against

    Attributes
    ----------
    in_single : bool, whether it goes on with the kernel in single precision
    n_single : int, how many C were solved with it
    """

    def __init__(
        self,
        kernel: np.ndarray,
        exact: ExactRows,
        problem_data: np.ndarray,
        state: np.ndarray,
        numbers: np.ndarray,
        tol: float,
    ) -> None:
        n = state.shape[1]
        self.problem_data, self.state, self.numbers, self.n_single = problem_data, state, numbers, 0
        self._kernel, self._most_rounded = kernel, _ROUNDED_FRACTION * tol
        self._hopeless = _HOPELESS_FACTOR * tol
        self._exact: ExactRows | None = exact  # while there is room
        self._capacity = min(_LARGEST_WORKING_SET, max(2, n))
        self._compact = scratch("compact", self._capacity, self._capacity + 16)
        self._work = np.empty((6, self._capacity))
        self._newton = Newton(scratch("factor", self._capacity, self._capacity))
        self._use(None)

    def _use(self, exact: ExactRows | None) -> None:
        """Go on with the kernel in double precision, or, None, in single."""
        self.in_single = exact is None
        if exact is None:
            self._store, self._slot = self._kernel, np.arange(len(self._kernel))
            self._diagonal = np.diagonal(self._kernel).astype(np.float64)
            self._resolved = RESOLVED32
        else:
            self._store, self._slot = exact.store, exact.slot
            self._diagonal, self._resolved = exact.diagonal, RESOLVED64
        self._n_members = 0
        self._newton.forget()
        self.numbers[PLACE] = -1

    def _hold(self, rows: np.ndarray) -> None:
        """See that the kernel of some rows is there; go on in single precision without room."""
        if not self.in_single and self._exact is not None and not self._exact.hold(rows):
            self._exact = None
            self._use(None)
            self._make_residuals()

    def _goes_on_in_double(self, stalled: bool) -> bool:
        """Whether single precision no longer did, and there is room for double."""
        if not self.in_single or self._exact is None:
            return False
        if not stalled and _rounded(self._kernel, self.state) <= self._most_rounded:
            return False
        self._use(self._exact)
        self._hold(np.flatnonzero((self.state[BETA] != 0) | (self.state[OLD_BETA] != 0)))
        if not self.in_single:
            self._make_residuals()
        return not self.in_single

    def _make_residuals(self) -> None:
        """Make the residuals of this C and the last from the multipliers."""
        state = self.state
        for beta, residual in ((BETA, RESIDUAL), (OLD_BETA, OLD_RESIDUAL)):
            moved = np.flatnonzero(state[beta])
            state[residual] = self.problem_data[Y]
            self.subtract(residual, moved, state[beta, moved])

    def subtract(self, target: int, rows: np.ndarray, factors: np.ndarray) -> None:
        """Compute ``state[target] -= factors @ kernel[rows]``."""
        n = self.state.shape[1]
        slots = self._slot[rows]
        subtract_rows(self.state, target, n, self._store, slots, factors, len(rows))

    def _balance(self) -> None:
        """See that multipliers sum to 0: what Newton steps miss is small, but so may C be."""
        beta, lower, upper = self.state[BETA], self.state[LOWER], self.state[UPPER]
        rows = np.flatnonzero((lower < beta) & (beta < upper))
        excess = float(beta.sum())
        if not rows.size or abs(excess) <= _BALANCED * float((upper - lower).max()):
            return
        balanced = np.clip(beta[rows] - excess / rows.size, lower[rows], upper[rows])
        change = balanced - beta[rows]
        beta[rows] = balanced
        self.subtract(RESIDUAL, rows, change)

    def solve(self, level: float, tol: float, limit: int) -> tuple[int, int]:
        """Solve for one C, in the precision that it takes; iterations and status."""
        if self.in_single and _rounded(self._kernel, self.state) > self._hopeless:
            self._goes_on_in_double(stalled=True)
            level = intercept_of(self.state, self.state.shape[1])
        done, status = self._solve(level, tol, limit)
        if self._goes_on_in_double(status == STALLED):
            level = intercept_of(self.state, self.state.shape[1])
            n_iterations, status = self._solve(level, tol, limit - done)
            done += n_iterations
        self.n_single += self.in_single
        return done, status

    def _solve(self, level: float, tol: float, limit: int) -> tuple[int, int]:
        """Solve working sets until every row meets the stopping rule; iterations and status."""
        state, numbers, n, work = self.state, self.numbers, self.state.shape[1], self._work
        done, idle = 0, 0
        while True:
            top, bottom, i, j = optimality(state, n)
            if not (top - bottom >= tol):
                self._balance()
                return done, CONVERGED
            if done >= limit:
                return done, ITERATION_LIMIT
            if idle == MOST_IDLE_ROUNDS:
                return done, STALLED
            count = select_rows(state, numbers, n, level, i, j)
            free = (state[LOWER] < state[BETA]) & (state[BETA] < state[UPPER])
            room = min(self._capacity, 2 * np.count_nonzero(free) + _MOST_VIOLATING)
            if count > room:
                count = keep_worst(state, numbers, level, i, j, room)
            self._hold(np.flatnonzero(numbers[CHOSEN]))
            m = self._n_members = gather(
                self._store, self._slot, numbers, n, count, self._n_members, self._compact
            )
            rows = numbers[MEMBERS, :m].copy()
            work[:4, :m] = state[:4, rows]
            diagonal, inner_tol = self._diagonal[rows], max(tol, INNER_GAP * (top - bottom))
            most = min(limit - done, int(SMO_FRACTION * m))
            iterations, status = solve_dense(self._compact, diagonal, work, m, inner_tol, most)
            if iterations < limit - done:
                steps, status = self._newton.solve(
                    self._compact,
                    diagonal,
                    work,
                    rows,
                    inner_tol,
                    tol,
                    limit - done - iterations,
                    self._resolved,
                )
                iterations += steps
            change = work[BETA, :m] - state[BETA, rows]
            if not np.isfinite(change).all():  # of a kernel that its rounding leaves not definite
                return done, STALLED
            moved = np.flatnonzero(change)
            state[BETA, rows] = work[BETA, :m]
            self.subtract(RESIDUAL, rows[moved], change[moved])
            level = intercept_of(work, m)
            done += max(1, iterations)
            idle = idle + 1 if iterations == 0 or status == STALLED else 0


def walk(
    kernel: np.ndarray,
    diagonal: np.ndarray,
    exact: ExactKernel | None,
    row_numbers: np.ndarray | None,
    problem_data: np.ndarray,
    Cs: np.ndarray,
    tol: float,
    limit: int,
    out: Path,
) -> tuple[int, int]:
    """Solve one binary problem for every C, each from the last solution.

    Parameters
    ----------
    kernel : float32 array of shape (n, n), exactly symmetric
    diagonal : float32 array of shape (n,)
    exact : the same kernel in double precision; None for a kernel that is not positive
        definite: every C then starts from 0, as in LIBSVM
    places : int64 (n,), where among the rows of ``exact`` the problem's are; None for all
    given : the problem, float64 (5 or 3, n), see ``problem``
    Cs : float64 array of shape (n_C,), ascending
    tol, limit : stopping tolerance, and the largest number of iterations for one C
    out : Path, output

    Returns
    -------
    solved : int, how many C; the rest has the last one's solution
    single : int, how many C have one from a kernel in single precision
    """
    n = problem_data.shape[1]
    state, numbers = new_state(problem_data, Cs[0])
    capacity = min(_LARGEST_WORKING_SET, max(2, int(WORKING_FRACTION * n)))
    solved, hard = walk_easily(
        kernel,
        diagonal,
        np.arange(n),
        problem_data,
        state,
        numbers,
        np.empty((capacity, capacity + 16), np.float32),
        np.empty(capacity, np.float32),
        np.empty((6, capacity)),
        Cs,
        tol,
        limit,
        exact is not None,
        *out,
    )
    single = Cs.size
    if hard and exact is not None:
        hard_walk, first = (
            _HardWalk(kernel, exact.of(row_numbers), problem_data, state, numbers, tol),
            solved,
        )
        solved = walk_on(
            first,
            hard_walk.solve,
            partial(hard_walk.subtract, TRIAL_RESIDUAL),
            problem_data,
            state,
            numbers,
            Cs,
            tol,
            limit,
            HARD_SCALE_FRACTION,
            out,
        )
        single = Cs.size if hard_walk.in_single else first + hard_walk.n_single
    out.repeat_from(solved)
    return solved, single
