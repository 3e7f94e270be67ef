"""Newton's method on the free multipliers of one small dense problem.

SMO changes two multipliers at a time and crawls where hundreds are free, that is between
their bounds, and the kernel is nearly singular on them.  Here all free multipliers move
at once, to where their residuals are equal or the first of them meets a bound; that one
is pinned, and where none is met the rows that violate most are set free.  The factor of
the free block follows each change (primal active set: K. Scheinberg, "An efficient
implementation of an active set method for SVMs", JMLR 7, 2006; M. Vogt, V. Kecman,
"Active-set methods for support vector machines", 2005).

Every step is a proximal one: ``(K + ridge) d + b = residual``.  The ridge keeps the
factor safe where rows are dependent and leaves residuals that differ by ``ridge * d``,
less than the tolerance, and less again with each further step.  Each step lowers the
objective and keeps the constraints.
"""

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.working_set import optimality, subtract_rows
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

_FAST = ("reassoc", "nsz", "contract", "nnan")

# The ridge lets residuals differ by this share of the tolerance when a multiplier
# moves over its whole range.
_RIDGE_SHARE = 0.05
# ... and is no less than what its own kernel resolves, of its largest value.
_RESOLVED64, _RESOLVED32 = 1e-14, 3e-7

# Rows set free at once: this share of those that are free.
_ADDED_SHARE = 0.05

# Steps in a row that neither move nor end: the method has no more to give.
_MOST_IDLE = 200


@compiled(*_FAST)
def _dot(a: np.ndarray, b: np.ndarray) -> float:
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@compiled(*_FAST)
def _subtract(target: np.ndarray, a: np.ndarray, factor: float) -> None:
    for k in range(a.size):
        target[k] -= factor * a[k]


@compiled()
def _append(
    kernel: np.ndarray,
    shift: float,
    ridge: float,
    factor: np.ndarray,
    ones: np.ndarray,
    free: np.ndarray,
    f: int,
    k: int,
) -> int:
    """Row k becomes the last of f + 1 free ones; returns their number.

    factor : float64, lower triangle of the Cholesky factor of the free block
    ones : the solution of ``factor @ ones = 1``
    """
    row = factor[f]
    for p in range(f):
        row[p] = np.float64(kernel[k, free[p]]) + shift
    for p in range(f):
        row[p] = (row[p] - _dot(factor[p, :p], row[:p])) / factor[p, p]
    pivot = np.float64(kernel[k, k]) + shift + ridge - _dot(row[:f], row[:f])
    row[f] = np.sqrt(max(pivot, ridge))
    ones[f] = (1.0 - _dot(row[:f], ones[:f])) / row[f]
    free[f] = k
    return f + 1


@compiled("contract")
def _turn_four(
    factor: np.ndarray,
    at: int,
    first: int,
    cosines: np.ndarray,
    sines: np.ndarray,
    left: np.ndarray,
) -> None:
    """Rotate the columns from ``at`` to ``first`` of four rows at once, each one place up.

    A row alone is a chain in which each product waits for the last.  ``left`` : float64
    (4,), what each row carries into column ``first``.
    """
    a, b, c, d = factor[first], factor[first + 1], factor[first + 2], factor[first + 3]
    e = factor[first + 4]
    u, v, w, x = b[at], c[at], d[at], e[at]
    for j in range(at, first):
        cosine, sine = cosines[j], sines[j]
        p, q, r, s = b[j + 1], c[j + 1], d[j + 1], e[j + 1]
        a[j], u = cosine * u + sine * p, cosine * p - sine * u
        b[j], v = cosine * v + sine * q, cosine * q - sine * v
        c[j], w = cosine * w + sine * r, cosine * r - sine * w
        d[j], x = cosine * x + sine * s, cosine * s - sine * x
    left[0], left[1], left[2], left[3] = u, v, w, x


@compiled()
def _remove(
    factor: np.ndarray, sides: np.ndarray, free: np.ndarray, f: int, at: int, turns: np.ndarray
) -> int:
    """The free row at place ``at`` is pinned; plane rotations mend the factor.

    sides : float64 (2, capacity), solutions of ``factor @ side = something``
    turns : float64 (3, capacity), work space
    """
    cosines, sines = turns[0], turns[1]
    free[at : f - 1] = free[at + 1 : f]
    for first in range(at, f - 1, 4):
        last = min(first + 4, f - 1)
        for p in range(first, last):
            factor[p, :at] = factor[p + 1, :at]
        if last - first == 4:
            _turn_four(factor, at, first, cosines, sines, turns[2])
        for p in range(first, last):
            source, row = factor[p + 1], factor[p]
            begin = at
            carried = source[at]
            if last - first == 4:  # up to the block's first column that is done
                begin, carried = first, turns[2, p - first]
            for j in range(begin, p):
                following = source[j + 1]
                row[j] = cosines[j] * carried + sines[j] * following
                carried = cosines[j] * following - sines[j] * carried
            following = source[p + 1]
            size = np.sqrt(carried * carried + following * following)
            cosines[p], sines[p] = carried / size, following / size
            row[p] = size
            for side in sides:
                one, other = side[p], side[p + 1]
                side[p] = cosines[p] * one + sines[p] * other
                side[p + 1] = cosines[p] * other - sines[p] * one
    return f - 1


@compiled()
def _free_rows(beta: np.ndarray, lower: np.ndarray, upper: np.ndarray, free: np.ndarray) -> int:
    """Fill ``free`` and return the number, -1 where there is no room for them.

    Those next to a bound, the likely ones to be pinned, come last: then few rows of the
    factor change.
    """
    f, room = 0, np.empty(beta.size)
    rows = np.empty(beta.size, np.int64)
    for k in range(beta.size):
        if lower[k] < beta[k] < upper[k]:
            rows[f], room[f] = k, -min(beta[k] - lower[k], upper[k] - beta[k])
            f += 1
    if f > free.size:
        return -1
    order = np.argsort(room[:f])
    for p in range(f):
        free[p] = rows[order[p]]
    return f


@compiled()
def _factorise(
    kernel: np.ndarray,
    shift: float,
    ridge: float,
    factor: np.ndarray,
    ones: np.ndarray,
    free: np.ndarray,
    f: int,
) -> None:
    """The factor of the free block, by LAPACK, or row by row where it is not definite."""
    definite = True
    block = np.empty((f, f))
    for p in range(f):
        row = kernel[free[p]]
        for q in range(f):
            block[p, q] = np.float64(row[free[q]]) + shift
        block[p, p] += ridge
    try:
        factor[:f, :f] = np.linalg.cholesky(block)
    except Exception:
        definite = False
    for p in range(f):
        if definite:
            ones[p] = (1.0 - _dot(factor[p, :p], ones[:p])) / factor[p, p]
        else:
            _append(kernel, shift, ridge, factor, ones, free, p, free[p])


@compiled()
def _solve_forward(
    residual: np.ndarray, factor: np.ndarray, free: np.ndarray, f: int, found: np.ndarray
) -> None:
    """``factor @ found = residual`` of the free rows."""
    for p in range(f):
        found[p] = (residual[free[p]] - _dot(factor[p, :p], found[:p])) / factor[p, p]


@compiled()
def _direction(
    factor: np.ndarray, ones: np.ndarray, forward: np.ndarray, f: int, d: np.ndarray
) -> float:
    """``d`` of ``(K + ridge) d + level = residual`` over the free rows, of sum 0; the level.

    forward : from ``_solve_forward``
    """
    level = _dot(forward[:f], ones[:f]) / _dot(ones[:f], ones[:f])
    for p in range(f):
        d[p] = forward[p] - level * ones[p]
    for p in range(f - 1, -1, -1):
        d[p] /= factor[p, p]
        _subtract(d[:p], factor[p, :p], d[p])
    return level


@compiled()
def _longest_step(
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    free: np.ndarray,
    f: int,
    d: np.ndarray,
) -> tuple[float, int]:
    """How far along ``d`` the bounds allow, at most 1, and the place of who meets one, or -1."""
    step, at = 1.0, -1
    for p in range(f):
        k = free[p]
        if d[p] > 0.0:
            room = upper[k] - beta[k]
        elif d[p] < 0.0:
            room = lower[k] - beta[k]
        else:
            continue
        if room / d[p] < step:
            step, at = max(room / d[p], 0.0), p
    return step, at


@compiled()
def _most_violating(
    residual: np.ndarray,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    level: float,
    least: float,
    wanted: np.ndarray,
) -> int:
    """Fill ``wanted`` with rows at a bound that violate by more than ``least``, the worst first."""
    found, count = np.empty(residual.size), 0
    rows = np.empty(residual.size, np.int64)
    for k in range(residual.size):
        may_rise, may_fall = beta[k] < upper[k], beta[k] > lower[k]
        if may_rise == may_fall:
            continue
        gap = residual[k] - level if may_rise else level - residual[k]
        if gap > least:
            found[count], rows[count] = -gap, k
            count += 1
    order = np.argsort(found[:count])
    count = min(count, wanted.size)
    for p in range(count):
        wanted[p] = rows[order[p]]
    return count


@compiled()
def solve_active(
    kernel: np.ndarray,
    residual: np.ndarray,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    factor: np.ndarray,
    tol: float,
    limit: int,
) -> tuple[int, int]:
    """Newton steps until LIBSVM's stopping rule holds; changes ``beta`` and ``residual``.

    Parameters
    ----------
    kernel : float32 or float64 array of shape (>= n, >= n), symmetric; a diagonal of
        0 tells ``exp(-x) - 1``
    residual, beta, lower, upper : float64 arrays of shape (n,)
    factor : float64 array of shape (capacity, capacity), work space
    tol : float
    limit : int
        The largest number of steps.

    Returns
    -------
    steps : int
    status : int
        ``CONVERGED``, ``ITERATION_LIMIT`` or ``STALLED``: more rows want to be free
        than the work space holds, or steps no longer move anything.
    """
    n, capacity = residual.size, factor.shape[0]
    free, d, wanted = np.empty(capacity, np.int64), np.empty(capacity), np.empty(capacity, np.int64)
    sides, turns = np.empty((2, capacity)), np.empty((3, max(4, capacity)))
    ones, forward = sides[0], sides[1]
    # What the residuals do not know yet: it is made up when rows are to be set free.
    pending, moved_rows, moves = np.zeros(n), np.empty(n, np.int64), np.empty(n)
    largest, span = 0.0, 0.0
    for k in range(n):
        largest = max(largest, abs(np.float64(kernel[k, k])))
        span = max(span, upper[k] - lower[k])
    shift = 1.0 if largest == 0.0 else 0.0
    resolved = _RESOLVED64 if kernel.itemsize == 8 else _RESOLVED32
    ridge = max(_RIDGE_SHARE * tol / span, resolved * max(largest, 1.0))
    f = _free_rows(beta, lower, upper, free)
    if f < 0:
        return 0, STALLED
    _factorise(kernel, shift, ridge, factor, ones, free, f)
    _solve_forward(residual, factor, free, f, forward)
    idle, batch, alone = 0, 1, False
    for done in range(limit):
        level = 0.0
        if f >= 2:
            level = _direction(factor, ones, forward, f, d)
            step, at = _longest_step(beta, lower, upper, free, f, d)
            moved = 0.0
            for p in range(f):
                k = free[p]
                new = beta[k] + step * d[p]
                if p == at:
                    new = upper[k] if d[p] > 0.0 else lower[k]
                new = min(max(new, lower[k]), upper[k])
                pending[k] += new - beta[k]
                moved = max(moved, abs(new - beta[k]))
                beta[k] = new
            idle = idle + 1 if moved <= 1e-13 * span else 0
            if at >= 0 and idle <= _MOST_IDLE:
                # A row that was set free and may not move: fewer at once are safer.
                if moved <= 1e-13 * span:
                    batch = 0
                for p in range(f):
                    forward[p] += step * (level * ones[p] - forward[p])
                for p in range(f - 1, -1, -1):
                    k = free[p]
                    if not (lower[k] < beta[k] < upper[k]):
                        f = _remove(factor, sides, free, f, p, turns)
                continue
        m = 0
        for k in range(n):
            if pending[k] != 0.0:
                moved_rows[m], moves[m], pending[k] = k, pending[k], 0.0
                m += 1
        subtract_rows(residual, kernel[:, :n], moved_rows[:m], moves[:m])
        top, bottom, i, j = optimality(residual, beta, lower, upper)
        if not (top - bottom >= tol):
            return done, CONVERGED
        if idle > _MOST_IDLE:
            return done, STALLED
        if f < 2:
            for k in (i, j):
                if f == 0 or free[0] != k:
                    f = _append(kernel, shift, ridge, factor, ones, free, f, k)
        else:
            if batch == 0 and alone:  # a row alone can always move, but for rounding
                _factorise(kernel, shift, ridge, factor, ones, free, f)
            batch = min(2 * batch, 1 + int(_ADDED_SHARE * f)) if batch else 1
            alone = batch == 1
            room = min(batch, capacity - f)
            if room <= 0:
                return done, STALLED
            n_new = _most_violating(residual, beta, lower, upper, level, 0.25 * tol, wanted[:room])
            for p in range(n_new):
                f = _append(kernel, shift, ridge, factor, ones, free, f, wanted[p])
            if n_new == 0:
                idle += 1
        _solve_forward(residual, factor, free, f, forward)
    for k in range(n):
        if pending[k] != 0.0:
            subtract_rows(residual, kernel[:, :n], np.array([k]), pending[k : k + 1])
    return limit, ITERATION_LIMIT
