"""The walk along C for a problem whose kernel is in memory.

It begins with SMO.  Once that has taken longer than Newton's method is expected to, the problem is
called hard, and the walk goes on with both: SMO to find the free rows, Newton's method to finish.
The kernel is in single precision until its rounding would show in the solution; then the rows that
are needed are computed in double precision.

Each C is solved by inner solves on working sets.  An easy C takes microseconds, so the easy part
of a walk is compiled as a whole; a hard one takes milliseconds, and Python calls compiled parts.
"""

from functools import partial

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.binary_problem import (
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
from pipelines.svm.cpu.exact import ExactKernel, ExactRows
from pipelines.svm.cpu.newton import Newton
from pipelines.svm.cpu.smo import solve_dense
from pipelines.svm.cpu.solver_threads import scratch
from pipelines.svm.cpu.steps import begin_steps, finish, reach, settle, tolerance_at, walk_on
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

# A working set is used up to this fraction of the problem's rows, and up to this size, at which its
# kernel takes 64 MiB. With more rows, SMO works on the whole problem in place.
WORKING_FRACTION = 0.2
_LARGEST_WORKING_SET = 4096

# A problem is hard at a C once SMO has taken as long, for this C and the last, as Newton's method
# is expected to take.  Both are estimated in nanoseconds from counts, not measured, so that results
# do not depend on the load of the machine.  An SMO iteration, and each of its rows:
_ITERATION_NS, _ROW_NS = 60.0, 0.5
# Newton's method at a C, as a polynomial in the number of free rows; and to gather a value of its
# working set's kernel:
_NEWTON_NS, _GATHERED_NS = (4e5, 16e3, 20.0, 0.02), 4.0

# The relative rounding of a kernel in single precision. The problem is also hard if that changes a
# residual by more than this fraction of the tolerance,
_SINGLE, _ROUNDED_FRACTION = 6e-8, 0.5
# and single precision is not even tried if it changes one by so many tolerances.
_HOPELESS_FACTOR = 10.0

# Newton's method works on the free rows, and on the rows that violate optimality most: at most as
# many as there are free ones, and this many more.
_MOST_VIOLATING = 200

# How much a solution's multipliers may sum to, relative to the largest bound.
_BALANCED = 1e-11

# A status beside those of ``solutions``: the problem is hard, and not solved yet.
_HARD = -1


@compiled()
def _rounded(kernel: np.ndarray, state: np.ndarray) -> float:
    """An estimate of the error of residuals that a kernel in single precision causes.

    The errors of the products in the row of the largest multiplier, added up as if independent.
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
    """How long Newton's method is expected to take for this C, in nanoseconds.

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

    n_members : the number of members of the compact kernel, from the last C
    level : an estimate of the intercept
    spent_ns : estimated time of the last C

    Returns iterations, status, the number of members, and the estimated time of this C.
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
        # If a round made no progress, the next would make none either.
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

    slot : int64 (n,), the row of ``kernel`` of each row
    compact, compact_diagonal, work : work space of the working set
    convex : whether the kernel is positive definite; otherwise every C starts from multipliers of
        0, and none is hard
    betas, residuals, ... : the fields of ``Path``, output

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
    """The walk from the first hard C on.

    Parameters
    ----------
    kernel : float32 array of shape (n, n)
    exact : ExactRows
        The kernel in double precision.
    problem_data, state, numbers : arrays, see ``binary_problem``
    tol : float
        Tolerance of the problem, with which the rounding of ``kernel`` is compared.

    Attributes
    ----------
    in_single : bool
        Whether it now uses the kernel in single precision.
    n_single : int
        How many C were solved with that kernel.
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
        self._exact: ExactRows | None = exact  # None once its memory is full
        self._capacity = min(_LARGEST_WORKING_SET, max(2, n))
        self._compact = scratch("compact", self._capacity, self._capacity + 16)
        self._work = np.empty((6, self._capacity))
        self._newton = Newton(scratch("factor", self._capacity, self._capacity))
        self._use(None)

    def _use(self, exact: ExactRows | None) -> None:
        """Switch to the kernel in double precision, or, with None, in single precision."""
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
        """Load the kernel of some rows; switch to single precision if there is no room for it."""
        if not self.in_single and self._exact is not None and not self._exact.hold(rows):
            self._exact = None
            self._use(None)
            self._make_residuals()

    def _goes_on_in_double(self, stalled: bool) -> bool:
        """Switch to double precision if single no longer suffices; returns whether it did."""
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
        """Compute the residuals of this C and the last again, from the multipliers."""
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
        """Correct the multipliers' sum to 0: Newton steps miss 0 by little, but C may be tiny."""
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
        """Solve for one C, in the precision that it needs; returns iterations and status."""
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
        """Solve working sets until every row meets the stopping rule, in the current precision."""
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
            if not np.isfinite(change).all():  # rounding has left the kernel not definite
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
    exact : ExactKernel or None
        The same kernel in double precision; None for a kernel that is not positive definite:
        every C then starts from multipliers of 0, as in LIBSVM.
    row_numbers : int64 array of shape (n,), or None for all
        The problem's rows as numbers of the rows of ``exact``.
    problem_data : float64 array of shape (5, n) or (3, n), see ``binary_problem``
    Cs : float64 array of shape (n_C,), ascending
    tol : float
        Tolerance of the stopping rule.
    limit : int
        The most iterations for one C.
    out : Path
        Output.

    Returns
    -------
    solved : int
        How many C were solved; larger ones have the solution of the last.
    single : int
        How many C have a solution from the kernel in single precision.
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
