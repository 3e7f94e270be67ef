"""Newton's method on the free multipliers of one small dense problem.

SMO changes two multipliers at a time. It crawls where hundreds are free, that is between their
bounds, and the kernel on them is nearly singular.  Here all free multipliers move at once, until
their residuals are equal or some of them reach a bound.  Those are pinned; once none reaches a
bound the rows that violate optimality most are set free (a primal active-set method).  The
Cholesky factor of the free block is updated: one more row for each row set free, plane rotations
for each row pinned.

Every step is a proximal one: ``(K + ridge) d + b = residual``.  The ridge keeps the factor
definite where rows are dependent.  It leaves residuals that differ by ``ridge * d``, less than the
tolerance, and each further step makes that smaller.  Each step lowers the objective and keeps the
constraints.

In all compiled functions:

kernel : float64 (>= n, >= n), symmetric
shift, ridge : added to its values, and to its diagonal
state : float64 (6, >= n), see ``binary_problem``
factor : float64 (capacity, capacity), its lower triangle that of the first f free rows
vectors : float64 (15, >= capacity), see below
numbers : int64 (3, capacity), see below
f : how many rows are free

References
----------
K. Scheinberg, "An efficient implementation of an active set method for SVMs", JMLR 7, 2006.

M. Vogt, V. Kecman, "Active-set methods for support vector machines", 2005.
"""

import numpy as np
from numba import types

from pipelines.svm.compiled import compiled, integers
from pipelines.svm.cpu.binary_problem import BETA, LOWER, ONE, RESIDUAL, UPPER, ZERO
from pipelines.svm.cpu.working_set import optimality, subtract_rows
from pipelines.svm.rules import (
    ADDED_FRACTION,
    LEAST_BATCH,
    LEAST_MOVE,
    MOST_IDLE_STEPS,
    MOST_TRIES,
    RIDGE_FRACTION,
    VIOLATION_FRACTION,
)
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

# Rows of ``vectors``.
#
# ONES, FORWARD : the solutions of ``factor @ side = right`` for ones and for the residuals
# STEP, EVEN : the solutions of ``(K + ridge) step + level = residual``, ``(K + ridge) even = 1``
# LEAST, MOST : how far each free multiplier may fall and rise
# MOVE : how far it moves; infinite to its bound
# PINNED : 1 for a row that goes to its upper bound, -1 to its lower bound, 0 for others
# KEYS : sort keys
# PENDING, FACTORS : changes of all n multipliers that the residuals do not reflect yet
# COSINES, SINES, LEFT, OTHER : work space
ONES, FORWARD, STEP, EVEN, LEAST, MOST, MOVE, PINNED, KEYS = integers(0, 9)
PENDING, FACTORS, COSINES, SINES, LEFT, OTHER = integers(9, 15)

# Rows of ``numbers``: the free rows, rows in order of ``KEYS``, and those that changed; all as
# numbers in the working set.
FREE, SORTED, CHANGED = integers(0, 3)

# Nanoseconds per value of the factor and row appended.
_APPENDED_NS = 0.08

# A factor is used again if the new ridge is at most so many times smaller or larger than its own.
_RIDGE_TIMES = 8.0

# Nanoseconds per value in a plane rotation; and, for a new factorisation, per value times the size,
# and for gathering a value of the kernel. They decide which of the two is faster.
_ROTATED_NS, _MADE_NS, _GATHERED_NS = 0.4, 0.01, 2.0

_FAST = ("reassoc", "nsz", "contract", "nnan")

# LAPACK's dpotrf as numba uses it for ``np.linalg.cholesky``, which would copy the factor three
# times: type, triangle, rows, matrix, length of a row; returns 0 if the matrix is definite.
_potrf = types.ExternalFunction(
    "numba_xxpotrf",
    types.intc(types.char, types.char, types.intp, types.CPointer(types.float64), types.intp),
)
# LAPACK stores columns first, so that its upper triangle is our lower one.
_DOUBLE, _UPPER_TRIANGLE = ord("d"), ord("U")


@compiled(*_FAST, inner=True)
def _dot(a: np.ndarray, i: int, b: np.ndarray, j: int, n: int) -> float:
    total = 0.0
    for k in range(n):
        total += a[i, k] * b[j, k]
    return total


@compiled(*_FAST, inner=True)
def _dot_four(factor: np.ndarray, p: int, f: int) -> tuple[float, float, float, float]:
    """Products of row p with the four rows from f on, over the first p values."""
    w, x, y, z = 0.0, 0.0, 0.0, 0.0
    for k in range(p):
        value = factor[p, k]
        w += value * factor[f, k]
        x += value * factor[f + 1, k]
        y += value * factor[f + 2, k]
        z += value * factor[f + 3, k]
    return w, x, y, z


@compiled(*_FAST, inner=True)
def _subtract(
    vectors: np.ndarray, target: int, factor: np.ndarray, p: int, by: float, n: int
) -> None:
    for k in range(n):
        vectors[target, k] -= by * factor[p, k]


@compiled(inner=True)
def _append_one(
    kernel: np.ndarray,
    shift: float,
    ridge: float,
    factor: np.ndarray,
    vectors: np.ndarray,
    numbers: np.ndarray,
    f: int,
    k: int,
    n_known: int,
) -> None:
    """Append row k as number f; the first ``n_known`` values of its factor are there already."""
    for p in range(n_known, f):
        value = kernel[k, numbers[FREE, p]] + shift
        factor[f, p] = (value - _dot(factor, p, factor, f, p)) / factor[p, p]
    pivot = kernel[k, k] + shift + ridge - _dot(factor, f, factor, f, f)
    factor[f, f] = np.sqrt(max(pivot, ridge))
    vectors[ONES, f] = (1.0 - _dot(factor, f, vectors, ONES, f)) / factor[f, f]
    numbers[FREE, f] = k


@compiled()
def _append(
    kernel: np.ndarray,
    shift: float,
    ridge: float,
    factor: np.ndarray,
    vectors: np.ndarray,
    numbers: np.ndarray,
    f: int,
    new: np.ndarray,
    n_new: int,
) -> int:
    """Append the rows ``new`` to the free ones; returns how many are free then.

    Four at a time, so that the factor is read a quarter as often.
    """
    for first in range(0, n_new, 4):
        n_known = ZERO
        if first + 4 <= n_new:
            n_known = f
            i, j, k, m = new[first], new[first + 1], new[first + 2], new[first + 3]
            for p in range(f):
                w, x, y, z = _dot_four(factor, p, f)
                q, pivot = numbers[FREE, p], 1.0 / factor[p, p]
                factor[f, p] = (kernel[i, q] + shift - w) * pivot
                factor[f + 1, p] = (kernel[j, q] + shift - x) * pivot
                factor[f + 2, p] = (kernel[k, q] + shift - y) * pivot
                factor[f + 3, p] = (kernel[m, q] + shift - z) * pivot
        for at in range(first, min(first + 4, n_new)):
            _append_one(kernel, shift, ridge, factor, vectors, numbers, f, new[at], n_known)
            f += 1
    return f


@compiled("contract", inner=True)
def _turn_four(factor: np.ndarray, vectors: np.ndarray, at: int, first: int) -> None:
    """Rotate columns ``at`` to ``first`` of four rows at once, and move each row up by one.

    In a single row each product waits for the last; four are independent.  The value that each
    row carries into column ``first`` is left in ``LEFT``.
    """
    u, v = factor[first + 1, at], factor[first + 2, at]
    w, x = factor[first + 3, at], factor[first + 4, at]
    for j in range(at, first):
        cosine, sine = vectors[COSINES, j], vectors[SINES, j]
        p, q = factor[first + 1, j + 1], factor[first + 2, j + 1]
        r, s = factor[first + 3, j + 1], factor[first + 4, j + 1]
        factor[first, j], u = cosine * u + sine * p, cosine * p - sine * u
        factor[first + 1, j], v = cosine * v + sine * q, cosine * q - sine * v
        factor[first + 2, j], w = cosine * w + sine * r, cosine * r - sine * w
        factor[first + 3, j], x = cosine * x + sine * s, cosine * s - sine * x
    vectors[LEFT, 0], vectors[LEFT, 1], vectors[LEFT, 2], vectors[LEFT, 3] = u, v, w, x


@compiled(inner=True)
def _remove(factor: np.ndarray, vectors: np.ndarray, numbers: np.ndarray, f: int, at: int) -> int:
    """Remove free row number ``at``; plane rotations update the factor. Returns ``f - 1``."""
    for p in range(at, f - 1):
        numbers[FREE, p] = numbers[FREE, p + 1]
    for first in range(at, f - 1, 4):
        last = min(first + 4, f - 1)
        for p in range(first, last):
            for j in range(at):
                factor[p, j] = factor[p + 1, j]
        if last - first == 4:
            _turn_four(factor, vectors, at, first)
        for p in range(first, last):
            begin, carry = at, factor[p + 1, at]
            if last - first == 4:  # columns before the block are rotated already
                begin, carry = first, vectors[LEFT, p - first]
            for j in range(begin, p):
                next_entry = factor[p + 1, j + 1]
                cosine, sine = vectors[COSINES, j], vectors[SINES, j]
                factor[p, j] = cosine * carry + sine * next_entry
                carry = cosine * next_entry - sine * carry
            next_entry = factor[p + 1, p + 1]
            size = np.sqrt(carry * carry + next_entry * next_entry)
            cosine, sine = carry / size, next_entry / size
            vectors[COSINES, p], vectors[SINES, p], factor[p, p] = cosine, sine, size
            for side in range(ONES, FORWARD + 1):
                value, next_value = vectors[side, p], vectors[side, p + 1]
                vectors[side, p] = cosine * value + sine * next_value
                vectors[side, p + 1] = cosine * next_value - sine * value
    return f - 1


@compiled()
def _factorise(
    kernel: np.ndarray,
    shift: float,
    ridge: float,
    factor: np.ndarray,
    vectors: np.ndarray,
    numbers: np.ndarray,
    f: int,
) -> None:
    """Factorise the free block by LAPACK; row by row, with raised pivots, if it is not definite."""
    for p in range(f):
        k = numbers[FREE, p]
        for q in range(p + 1):
            factor[p, q] = kernel[k, numbers[FREE, q]] + shift
        factor[p, p] += ridge
    definite = _potrf(_DOUBLE, _UPPER_TRIANGLE, f, factor.ctypes, factor.shape[1]) == 0
    for p in range(f):
        if definite:
            vectors[ONES, p] = (1.0 - _dot(factor, p, vectors, ONES, p)) / factor[p, p]
        else:
            _append_one(kernel, shift, ridge, factor, vectors, numbers, p, numbers[FREE, p], ZERO)


@compiled(inner=True)
def _solve_forward(
    state: np.ndarray, factor: np.ndarray, vectors: np.ndarray, numbers: np.ndarray, f: int
) -> None:
    """Solve ``factor @ FORWARD = residuals`` of the free rows."""
    for p in range(f):
        difference = state[RESIDUAL, numbers[FREE, p]] - _dot(factor, p, vectors, FORWARD, p)
        vectors[FORWARD, p] = difference / factor[p, p]


@compiled(*_FAST, inner=True)
def _directions(factor: np.ndarray, vectors: np.ndarray, f: int) -> float:
    """Solve for ``STEP`` and ``EVEN``; returns the level at which residuals meet."""
    level = _dot(vectors, FORWARD, vectors, ONES, f) / _dot(vectors, ONES, vectors, ONES, f)
    for p in range(f):
        vectors[STEP, p] = vectors[FORWARD, p] - level * vectors[ONES, p]
        vectors[EVEN, p] = vectors[ONES, p]
    for p in range(f - 1, -1, -1):
        step, even = vectors[STEP, p] / factor[p, p], vectors[EVEN, p] / factor[p, p]
        vectors[STEP, p], vectors[EVEN, p] = step, even
        for k in range(p):
            vectors[STEP, k] -= step * factor[p, k]
            vectors[EVEN, k] -= even * factor[p, k]
    return level


@compiled()
def _remove_bounded(
    kernel: np.ndarray,
    shift: float,
    ridge: float,
    state: np.ndarray,
    factor: np.ndarray,
    vectors: np.ndarray,
    numbers: np.ndarray,
    f: int,
) -> int:
    """Remove the free rows that have reached a bound; returns how many are left.

    By rotations, or by a new factor if that is faster.
    """
    rotated = 0.0
    for p in range(f):
        k = numbers[FREE, p]
        vectors[PINNED, p] = 0.0
        if not (state[LOWER, k] < state[BETA, k] < state[UPPER, k]):
            vectors[PINNED, p] = 1.0
            rotated += float(f - p) * (f - p)
    if rotated * _ROTATED_NS < f * f * (_GATHERED_NS + _MADE_NS * f):
        for p in range(f - 1, -1, -1):
            if vectors[PINNED, p] != 0.0:
                f = _remove(factor, vectors, numbers, f, p)
        return f
    n_left = ZERO
    for p in range(f):
        value = _dot(factor, p, vectors, FORWARD, p + 1)
        if vectors[PINNED, p] == 0.0:
            vectors[OTHER, n_left], numbers[FREE, n_left] = value, numbers[FREE, p]
            n_left += 1
    _factorise(kernel, shift, ridge, factor, vectors, numbers, n_left)
    for p in range(n_left):
        difference = vectors[OTHER, p] - _dot(factor, p, vectors, FORWARD, p)
        vectors[FORWARD, p] = difference / factor[p, p]
    return n_left


@compiled(inner=True)
def _sort(vectors: np.ndarray, numbers: np.ndarray, count: int) -> None:
    """Shell sort of ``KEYS``, ascending, and of ``SORTED`` with them.

    D. L. Shell, "A high-speed sorting procedure", CACM 2, 1959.
    """
    gap = count // 2
    while gap > 0:
        for p in range(gap, count):
            key, number, q = vectors[KEYS, p], numbers[SORTED, p], p
            while q >= gap and vectors[KEYS, q - gap] > key:
                vectors[KEYS, q], numbers[SORTED, q] = (
                    vectors[KEYS, q - gap],
                    numbers[SORTED, q - gap],
                )
                q -= gap
            vectors[KEYS, q], numbers[SORTED, q] = key, number
        gap = 1 if gap == 2 else int(gap / 2.2)


@compiled(inner=True)
def _spread(reach: float, vectors: np.ndarray, f: int) -> tuple[float, bool]:
    """Fill ``MOVE``: pinned rows go to their bounds, the others by ``reach * STEP``.

    A multiple of ``EVEN`` keeps the sum of all moves 0.  Rows that this carries beyond their
    bounds are pinned, too, and the multiple is computed again.

    Returns the factor of ``EVEN``, and whether all rows are within their bounds.
    """
    even_factor = 0.0
    for _ in range(MOST_TRIES):
        excess, even_sum, is_within = 0.0, 0.0, True
        for p in range(f):
            if vectors[PINNED, p] != 0.0:
                bound = vectors[MOST, p] if vectors[PINNED, p] > 0.0 else vectors[LEAST, p]
                vectors[MOVE, p] = bound
                excess += bound
            else:
                excess += reach * vectors[STEP, p]
                even_sum += vectors[EVEN, p]
        if even_sum == 0.0:
            return 0.0, False
        even_factor = -excess / even_sum
        for p in range(f):
            if vectors[PINNED, p] == 0.0:
                move = reach * vectors[STEP, p] + even_factor * vectors[EVEN, p]
                vectors[MOVE, p] = move
                if move > vectors[MOST, p]:
                    vectors[PINNED, p], is_within = 1.0, False
                elif move < vectors[LEAST, p]:
                    vectors[PINNED, p], is_within = -1.0, False
        if is_within:
            return even_factor, True
    return even_factor, False


@compiled()
def _pin_many(
    factor: np.ndarray, vectors: np.ndarray, numbers: np.ndarray, f: int, step: float, level: float
) -> bool:
    """Fill ``MOVE`` so that many rows reach their bounds; return whether such a move exists.

    A move is accepted if the objective falls at least as much as it does along ``STEP`` to the
    first bound.
    The factor shows what a move does: with ``u = factor' move`` the objective changes by
    ``1/2 u'u - forward'u``, and ``forward`` by ``-u``, an update made here.

    step : the length along ``STEP`` to the first bound
    """
    full_gain, batch = 0.0, ZERO
    for p in range(f):
        d, missing = vectors[STEP, p], vectors[FORWARD, p] - level * vectors[ONES, p]
        full_gain += missing * missing
        if d != 0.0:
            time = (vectors[MOST, p] if d > 0.0 else vectors[LEAST, p]) / d
            if time < 1.0:
                vectors[KEYS, batch], numbers[SORTED, batch] = time, p
                batch += 1
    least_gain, count = (step - 0.5 * step * step) * full_gain, batch
    _sort(vectors, numbers, count)
    while batch >= LEAST_BATCH:
        reach = vectors[KEYS, batch] if batch < count else 1.0
        for p in range(f):
            vectors[PINNED, p] = 0.0
        for q in range(batch):
            p = numbers[SORTED, q]
            vectors[PINNED, p] = 1.0 if vectors[STEP, p] > 0.0 else -1.0
        even_factor, is_within = _spread(reach, vectors, f)
        if is_within:
            for p in range(f):
                vectors[OTHER, p] = (
                    reach * (vectors[FORWARD, p] - level * vectors[ONES, p])
                    + even_factor * vectors[ONES, p]
                )
            for p in range(f):
                if vectors[PINNED, p] != 0.0:
                    by = (
                        reach * vectors[STEP, p] + even_factor * vectors[EVEN, p] - vectors[MOVE, p]
                    )
                    _subtract(vectors, OTHER, factor, p, by, p + 1)
            gain = _dot(vectors, FORWARD, vectors, OTHER, f)
            if gain - 0.5 * _dot(vectors, OTHER, vectors, OTHER, f) >= least_gain:
                for p in range(f):
                    vectors[FORWARD, p] -= vectors[OTHER, p]
                    if vectors[PINNED, p] != 0.0:
                        vectors[MOVE, p] = np.inf if vectors[PINNED, p] > 0.0 else -np.inf
                return True
        batch //= 2
    return False


@compiled(inner=True)
def _most_violating(
    state: np.ndarray, vectors: np.ndarray, numbers: np.ndarray, n: int, level: float, least: float
) -> int:
    """Sort rows at a bound that violate by more than ``least``, worst first; return how many."""
    count = ZERO
    for k in range(n):
        may_rise = state[BETA, k] < state[UPPER, k]
        if may_rise == (state[BETA, k] > state[LOWER, k]):
            continue
        gap = state[RESIDUAL, k] - level if may_rise else level - state[RESIDUAL, k]
        if gap > least:
            vectors[KEYS, count], numbers[SORTED, count] = -gap, k
            count += 1
    _sort(vectors, numbers, count)
    return count


@compiled(inner=True)
def _make_up(
    kernel: np.ndarray, state: np.ndarray, vectors: np.ndarray, numbers: np.ndarray, n: int
) -> None:
    """Apply the ``PENDING`` changes of multipliers to the residuals."""
    m = ZERO
    for k in range(n):
        if vectors[PENDING, k] != 0.0:
            numbers[CHANGED, m], vectors[FACTORS, m] = k, vectors[PENDING, k]
            vectors[PENDING, k] = 0.0
            m += 1
    subtract_rows(state, RESIDUAL, n, kernel, numbers[CHANGED], vectors[FACTORS], m)


@compiled()
def _steps(
    kernel: np.ndarray,
    shift: float,
    ridge: float,
    state: np.ndarray,
    factor: np.ndarray,
    vectors: np.ndarray,
    numbers: np.ndarray,
    n: int,
    f: int,
    tol: float,
    limit: int,
) -> tuple[int, int, int]:
    """The loop of ``Newton.solve``; returns steps, status and the number of free rows."""
    capacity, span, done = factor.shape[0], 0.0, 0
    for k in range(n):
        vectors[PENDING, k] = 0.0
        span = max(span, state[UPPER, k] - state[LOWER, k])
    _solve_forward(state, factor, vectors, numbers, f)
    idle, batch, alone, level = 0, ONE, False, 0.0
    while done < limit:
        if f >= 2:
            level = _directions(factor, vectors, f)
            # The longest feasible step along ``STEP``, at most 1, and the row that blocks it.
            step, at = 1.0, -1
            for p in range(f):
                k = numbers[FREE, p]
                d = vectors[STEP, p]
                vectors[LEAST, p] = state[LOWER, k] - state[BETA, k]
                vectors[MOST, p] = state[UPPER, k] - state[BETA, k]
                if d != 0.0:
                    room = (vectors[MOST, p] if d > 0.0 else vectors[LEAST, p]) / d
                    if room < step:
                        step, at = max(room, 0.0), p
            pins_many = at >= 0 and _pin_many(factor, vectors, numbers, f, step, level)
            moved = 0.0
            for p in range(f):
                k = numbers[FREE, p]
                new = state[BETA, k] + (vectors[MOVE, p] if pins_many else step * vectors[STEP, p])
                if p == at and not pins_many:
                    new = state[UPPER, k] if vectors[STEP, p] > 0.0 else state[LOWER, k]
                new = min(max(new, state[LOWER, k]), state[UPPER, k])
                change = new - state[BETA, k]
                vectors[PENDING, k] += change
                moved = max(moved, abs(change))
                state[BETA, k] = new
            stuck = moved <= LEAST_MOVE * span
            idle = idle + 1 if stuck else 0
            if at >= 0 and idle <= MOST_IDLE_STEPS:
                # A row that was just set free blocks the step: next time fewer are set free.
                if stuck:
                    batch = 0
                if not pins_many:
                    for p in range(f):
                        vectors[FORWARD, p] += step * (
                            level * vectors[ONES, p] - vectors[FORWARD, p]
                        )
                f = _remove_bounded(kernel, shift, ridge, state, factor, vectors, numbers, f)
                done += 1
                continue
        _make_up(kernel, state, vectors, numbers, n)
        top, bottom, i, j = optimality(state, n)
        if not (top - bottom >= tol):
            return done, CONVERGED, f
        if idle > MOST_IDLE_STEPS:
            return done, STALLED, f
        n_new = ZERO
        if f < 2:
            for turn in range(2):
                k = i if turn == 0 else j
                if f == 0 or numbers[FREE, 0] != k:
                    numbers[SORTED, n_new] = k
                    n_new += 1
        else:
            # A single row set free can always move. If it did not, rounding has spoilt the factor.
            if batch == 0 and alone:
                _factorise(kernel, shift, ridge, factor, vectors, numbers, f)
            batch = min(2 * batch, 1 + int(ADDED_FRACTION * f)) if batch else 1
            alone = batch == 1
            room_left = min(batch, capacity - f)
            if room_left <= 0:
                return done, STALLED, f
            n_new = _most_violating(state, vectors, numbers, n, level, VIOLATION_FRACTION * tol)
            n_new = min(n_new, room_left)
            if n_new == 0:
                idle += 1
        f = _append(kernel, shift, ridge, factor, vectors, numbers, f, numbers[SORTED], n_new)
        _solve_forward(state, factor, vectors, numbers, f)
        done += 1
    _make_up(kernel, state, vectors, numbers, n)
    return limit, ITERATION_LIMIT, f


class Newton:
    """Newton's method, with a factor that one solve leaves to the next.

    Parameters
    ----------
    factor : float64 array of shape (capacity, capacity)
        Memory of the factor; a working set may have ``capacity`` rows, all of them free.
    """

    def __init__(self, factor: np.ndarray) -> None:
        capacity, self._factor = len(factor), factor
        self._vectors = np.zeros((15, max(4, capacity)))
        self._numbers = np.empty((3, capacity), np.int64)
        self._ridge = 0.0
        # Rows that were free at the end of the last solve, as numbers in the problem: the working
        # set of the next solve may differ.
        self._rows = np.empty(0, np.int64)

    def forget(self) -> None:
        """Forget the factor, as the kernel has changed."""
        self._rows = self._rows[:0]

    def solve(
        self,
        kernel: np.ndarray,
        diagonal: np.ndarray,
        state: np.ndarray,
        rows: np.ndarray,
        tol: float,
        finest: float,
        limit: int,
        resolved: float,
    ) -> tuple[int, int]:
        """Take Newton steps until LIBSVM's stopping rule holds; changes multipliers and residuals.

        Parameters
        ----------
        kernel : float64 array of shape (>= n, >= n)
            Symmetric; a diagonal of 0 means that its values are ``exp(-x) - 1``.
        diagonal : float64 array of shape (n,)
        state : float64 array of shape (6, >= n), see ``binary_problem``
        rows : int64 array of shape (n,)
            The rows' numbers in the problem.
        tol : float
            Tolerance of this solve.
        finest : float
            Tolerance of the problem, which later solves have to meet.
        limit : int
            The most steps.
        resolved : float
            The rounding of the kernel, relative to its largest value.

        Returns
        -------
        steps : int
        status : int
            ``CONVERGED``, ``ITERATION_LIMIT``, or ``STALLED``: more rows have to be free than the
            work space holds, or steps no longer move anything.
        """
        n = len(rows)
        lower, beta, upper = (state[row, :n] for row in (LOWER, BETA, UPPER))
        largest = float(np.abs(diagonal).max())
        shift = 1.0 if largest == 0.0 else 0.0
        span = float((upper - lower).max())
        ridge = max(RIDGE_FRACTION * finest / span, resolved * max(largest, 1.0))
        free = np.flatnonzero((lower < beta) & (beta < upper))
        f = self._take_up(kernel, shift, ridge, state, rows, free)
        if f is None:
            f = len(free)
            if f > len(self._factor):
                return 0, STALLED
            # Rows near a bound, which are likely to be pinned, come last: removing one changes only
            # the rows of the factor after it.
            room = np.minimum(beta[free] - lower[free], upper[free] - beta[free])
            self._numbers[FREE, :f], self._ridge = free[np.argsort(-room)], ridge
            _factorise(kernel, shift, ridge, self._factor, self._vectors, self._numbers, f)
        steps, status, f = _steps(
            kernel,
            shift,
            self._ridge,
            state,
            self._factor,
            self._vectors,
            self._numbers,
            n,
            f,
            tol,
            limit,
        )
        self._rows = rows[self._numbers[FREE, : 0 if status == STALLED else f]]
        return steps, status

    def _take_up(
        self,
        kernel: np.ndarray,
        shift: float,
        ridge: float,
        state: np.ndarray,
        rows: np.ndarray,
        free: np.ndarray,
    ) -> int | None:
        """Update the factor of the last solve to the rows that are free now.

        Returns how many are free; None if there is no factor that fits, or a new one is faster.
        """
        f, old_ridge = len(self._rows), self._ridge
        if f == 0 or old_ridge > _RIDGE_TIMES * ridge or ridge > _RIDGE_TIMES * old_ridge:
            return None
        order = np.argsort(rows)
        ranks = np.searchsorted(rows, self._rows, sorter=order)
        if ranks.max() == len(rows):
            return None
        held_positions = order[ranks]
        if (rows[held_positions] != self._rows).any():
            return None
        is_held = np.zeros(len(rows), np.bool_)
        is_held[held_positions] = True
        new = free[~is_held[free]]
        if len(new) * _APPENDED_NS > _MADE_NS * f or f + len(new) > len(self._factor):
            return None
        self._numbers[FREE, :f], self._vectors[FORWARD] = held_positions, 0.0
        arrays = self._factor, self._vectors, self._numbers
        f = _remove_bounded(kernel, shift, old_ridge, state, *arrays, f)
        return _append(kernel, shift, old_ridge, *arrays, f, new, len(new))
