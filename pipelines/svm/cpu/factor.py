"""The Cholesky factor of the free multipliers' kernel, and what is solved with it.

A row is set free by one row more of the factor, and pinned by plane rotations.  Everywhere:

kernel : float (>= n, >= n), symmetric; ``shift`` is added to its values, the ridge to its diagonal
f : how many rows are free
"""

from typing import NamedTuple

import numpy as np

from pipelines.svm.compiled import compiled

# What a value of the factor takes where a row is appended.
_APPENDED_NS = 0.08

# A factor is kept for a ridge up to so many times smaller or larger.
_RIDGE_TIMES = 8.0

_FAST = ("reassoc", "nsz", "contract", "nnan")

# What a plane rotation takes of a value's time, and of a row's factor made anew: from so many
# rotations on the factor is made anew.
_ROTATED_NS, _MADE_NS, _GATHERED_NS = 0.4, 0.01, 2.0


class Carried(NamedTuple):
    """The factor, and as one solve leaves it to the next, of whichever working set.

    factor : float64 (capacity, capacity), its lower triangle that of the first f ``free`` rows
    sides : float64 (2, capacity), what solves ``factor @ side = right``: of ones, and of the
        residuals
    free : int64 (capacity,), the free rows' numbers in the working set
    ridge : float64 (1,)
    rows : int64 (capacity,), the problem's numbers of the rows that were free at the end of a solve
    size : int64 (1,), how many those are
    turns : float64 (3, >= capacity), work space
    """

    factor: np.ndarray
    sides: np.ndarray
    free: np.ndarray
    ridge: np.ndarray
    rows: np.ndarray
    size: np.ndarray
    turns: np.ndarray


@compiled()
def no_factor(capacity: int) -> Carried:
    return Carried(
        np.empty((capacity, capacity)), np.empty((2, capacity)), np.empty(capacity, np.int64),
        np.zeros(1), np.empty(capacity, np.int64), np.zeros(1, np.int64),
        np.empty((3, max(4, capacity))),
    )  # fmt: skip


@compiled(*_FAST)
def dot(a: np.ndarray, b: np.ndarray) -> float:
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@compiled(*_FAST)
def subtract(target: np.ndarray, a: np.ndarray, factor: float) -> None:
    for k in range(a.size):
        target[k] -= factor * a[k]


@compiled(*_FAST)
def _dot_four(
    row: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray
) -> tuple[float, float, float, float]:
    w, x, y, z = 0.0, 0.0, 0.0, 0.0
    for k in range(row.size):
        w += row[k] * a[k]
        x += row[k] * b[k]
        y += row[k] * c[k]
        z += row[k] * d[k]
    return w, x, y, z


@compiled()
def _append_from(
    kernel: np.ndarray, shift: float, carried: Carried, f: int, k: int, known: int
) -> int:
    """Append a row to the factor like ``append``, with its first ``known`` values given."""
    factor, ones, free, ridge = carried.factor, carried.sides[0], carried.free, carried.ridge[0]
    row = factor[f]
    for p in range(known, f):
        value = np.float64(kernel[k, free[p]]) + shift
        row[p] = (value - dot(factor[p, :p], row[:p])) / factor[p, p]
    pivot = np.float64(kernel[k, k]) + shift + ridge - dot(row[:f], row[:f])
    row[f] = np.sqrt(max(pivot, ridge))
    ones[f] = (1.0 - dot(row[:f], ones[:f])) / row[f]
    free[f] = k
    return f + 1


@compiled()
def append(kernel: np.ndarray, shift: float, carried: Carried, f: int, new: np.ndarray) -> int:
    """Return the rows ``new`` become the last free ones; returns how many are free then.

    Four at a time, so that the factor is read a quarter as often.
    """
    factor, free = carried.factor, carried.free
    for first in range(0, new.size, 4):
        some, known = new[first : first + 4], 0
        if some.size == 4:
            a, b, c, d = factor[f], factor[f + 1], factor[f + 2], factor[f + 3]
            i, j, k, m = some[0], some[1], some[2], some[3]
            for p in range(f):
                w, x, y, z = _dot_four(factor[p, :p], a[:p], b[:p], c[:p], d[:p])
                q, pivot = free[p], 1.0 / factor[p, p]
                a[p] = (np.float64(kernel[i, q]) + shift - w) * pivot
                b[p] = (np.float64(kernel[j, q]) + shift - x) * pivot
                c[p] = (np.float64(kernel[k, q]) + shift - y) * pivot
                d[p] = (np.float64(kernel[m, q]) + shift - z) * pivot
            known = f
        for one in some:
            f = _append_from(kernel, shift, carried, f, one, known)
    return f


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
def _remove(carried: Carried, f: int, at: int) -> int:
    """Pin the free row at place ``at``; plane rotations update the factor."""
    factor, free, turns = carried.factor, carried.free, carried.turns
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
            moved = source[at]
            if last - first == 4:  # up to the block's first column that is done
                begin, moved = first, turns[2, p - first]
            for j in range(begin, p):
                following = source[j + 1]
                row[j] = cosines[j] * moved + sines[j] * following
                moved = cosines[j] * following - sines[j] * moved
            following = source[p + 1]
            size = np.sqrt(moved * moved + following * following)
            cosines[p], sines[p] = moved / size, following / size
            row[p] = size
            for side in carried.sides:
                one, other = side[p], side[p + 1]
                side[p] = cosines[p] * one + sines[p] * other
                side[p + 1] = cosines[p] * other - sines[p] * one
    return f - 1


@compiled()
def factorise(kernel: np.ndarray, shift: float, carried: Carried, f: int) -> None:
    """Factorise the free block by LAPACK, or row by row if it is not definite."""
    factor, ones, free, ridge = carried.factor, carried.sides[0], carried.free, carried.ridge[0]
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
            ones[p] = (1.0 - dot(factor[p, :p], ones[:p])) / factor[p, p]
        else:
            _append_from(kernel, shift, carried, p, free[p], 0)


@compiled()
def solve_forward(residual: np.ndarray, carried: Carried, f: int) -> None:
    """Solve for the second right-hand side, from the residuals of the free rows."""
    factor, free, found = carried.factor, carried.free, carried.sides[1]
    for p in range(f):
        found[p] = (residual[free[p]] - dot(factor[p, :p], found[:p])) / factor[p, p]


@compiled(*_FAST)
def _subtract_two(
    one: np.ndarray, other: np.ndarray, row: np.ndarray, factor: float, other_factor: float
) -> None:
    for k in range(row.size):
        one[k] -= factor * row[k]
        other[k] -= other_factor * row[k]


@compiled()
def directions(carried: Carried, f: int, d: np.ndarray, v: np.ndarray) -> float:
    """Solve ``(K + ridge) d + level = residual`` and ``(K + ridge) v = 1``; return the level."""
    factor, ones, forward = carried.factor, carried.sides[0], carried.sides[1]
    level = dot(forward[:f], ones[:f]) / dot(ones[:f], ones[:f])
    for p in range(f):
        d[p], v[p] = forward[p] - level * ones[p], ones[p]
    for p in range(f - 1, -1, -1):
        row = factor[p]
        d[p] /= row[p]
        v[p] /= row[p]
        _subtract_two(d[:p], v[:p], row[:p], d[p], v[p])
    return level


@compiled()
def remove_bounded(
    kernel: np.ndarray,
    shift: float,
    carried: Carried,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    f: int,
) -> int:
    """Pin the free rows that have met a bound; returns the number of the others.

    By rotations, or where those take longer, by a new factor.
    """
    factor, forward, free = carried.factor, carried.sides[1], carried.free
    rotated = 0.0
    for p in range(f):
        if not (lower[free[p]] < beta[free[p]] < upper[free[p]]):
            rotated += (f - p) ** 2
    if rotated * _ROTATED_NS < f * f * (_GATHERED_NS + _MADE_NS * f):
        for p in range(f - 1, -1, -1):
            k = free[p]
            if not (lower[k] < beta[k] < upper[k]):
                f = _remove(carried, f, p)
        return f
    residual, left = carried.turns[0], 0
    for p in range(f):
        k = free[p]
        value = dot(factor[p, : p + 1], forward[: p + 1])
        if lower[k] < beta[k] < upper[k]:
            residual[left], free[left] = value, k
            left += 1
    factorise(kernel, shift, carried, left)
    for p in range(left):
        forward[p] = (residual[p] - dot(factor[p, :p], forward[:p])) / factor[p, p]
    return left


@compiled()
def take_up(
    kernel: np.ndarray,
    shift: float,
    ridge: float,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    rows: np.ndarray,
    carried: Carried,
) -> int:
    """Bring the factor of an earlier solve to the rows that are free now.

    rows : int64 (n,), the problem's numbers of the working set

    Returns how many are free; -1 if there was none, or one from a new start is quicker.
    """
    f, free, own = carried.size[0], carried.free, carried.ridge[0]
    if f == 0 or own > _RIDGE_TIMES * ridge or ridge > _RIDGE_TIMES * own:
        return -1
    order = np.argsort(rows)
    sorted_rows = rows[order]
    there = np.searchsorted(sorted_rows, carried.rows[:f])
    known = np.zeros(rows.size, np.bool_)
    for p in range(f):
        if there[p] == rows.size or sorted_rows[there[p]] != carried.rows[p]:
            return -1
        free[p] = order[there[p]]
        known[free[p]] = True
    new = (lower < beta) & (beta < upper) & ~known
    n_new = new.sum()
    if n_new * _APPENDED_NS > _MADE_NS * f or f + n_new > free.size:
        return -1
    carried.sides[1] = 0.0
    f = remove_bounded(kernel, shift, carried, beta, lower, upper, f)
    return append(kernel, shift, carried, f, np.flatnonzero(new))
