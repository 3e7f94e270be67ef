"""The rows an inner solve works on, and their kernel kept compact.

Most rows of a problem are far from changing: at a bound, with the right sign of
gradient.  Leaving them out (shrinking, T. Joachims, "Making large-scale SVM
learning practical", 1999) makes an SMO iteration cost the size of the working
set instead of the size of the problem.  Their residual is brought up to date
after each inner solve, from the multipliers that changed, so nothing is lost:
the stopping rule is always tested on every row.
"""

import numpy as np

from pipelines.svm.compiled import NO_NAN, compiled


@compiled(*NO_NAN)
def _subtract_four(
    residual: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    d: np.ndarray,
    fa: float,
    fb: float,
    fc: float,
    fd: float,
) -> None:
    for k in range(residual.size):
        residual[k] -= (fa * np.float64(a[k]) + fb * np.float64(b[k])) + (
            fc * np.float64(c[k]) + fd * np.float64(d[k])
        )


@compiled()
def subtract_rows_part(
    residual: np.ndarray,
    kernel: np.ndarray,
    rows: np.ndarray,
    factors: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Apply ``subtract_rows`` to the entries from start to stop."""
    m = rows.size
    part = residual[start:stop]
    for r in range(0, m, 4):
        a = rows[r]
        b, fb = (rows[r + 1], factors[r + 1]) if r + 1 < m else (a, 0.0)
        c, fc = (rows[r + 2], factors[r + 2]) if r + 2 < m else (a, 0.0)
        d, fd = (rows[r + 3], factors[r + 3]) if r + 3 < m else (a, 0.0)
        _subtract_four(
            part, kernel[a, start:stop], kernel[b, start:stop], kernel[c, start:stop],
            kernel[d, start:stop], factors[r], fb, fc, fd,
        )  # fmt: skip


@compiled()
def subtract_rows(
    residual: np.ndarray, kernel: np.ndarray, rows: np.ndarray, factors: np.ndarray
) -> None:
    """Compute ``residual -= factors @ kernel[rows]``.

    Four rows at a time, so that the residual is read and written a quarter as
    often as the kernel.

    residual : float64 (n,); kernel : float32 (n, n); rows : int64 (m,);
    factors : float64 (m,).
    """
    subtract_rows_part(residual, kernel, rows, factors, 0, residual.size)


@compiled()
def optimality(
    residual: np.ndarray, beta: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[float, float, int, int]:
    """Return largest residual that may rise, smallest that may fall, and their rows."""
    top, bottom, i, j = -np.inf, np.inf, -1, -1
    for k in range(residual.size):
        r = residual[k]
        if r > top and beta[k] < upper[k]:
            top, i = r, k
        if r < bottom and beta[k] > lower[k]:
            bottom, j = r, k
    return top, bottom, i, j


@compiled()
def intercept_of(
    residual: np.ndarray, beta: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> float:
    """Return the b of ``f(x) = sum_j beta_j K(x, j) + b``, by LIBSVM's rule.

    The mean residual of the free multipliers; with none free, the middle of the
    interval that the rows at their bounds leave.
    """
    total, n_free = 0.0, 0
    top, bottom = -np.inf, np.inf
    for k in range(residual.size):
        may_rise, may_fall = beta[k] < upper[k], beta[k] > lower[k]
        if may_rise and may_fall:
            total += residual[k]
            n_free += 1
        elif may_rise:
            top = max(top, residual[k])
        elif may_fall:
            bottom = min(bottom, residual[k])
    return total / n_free if n_free else 0.5 * (top + bottom)


@compiled()
def select(
    residual: np.ndarray,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    level: float,
    i: int,
    j: int,
    chosen: np.ndarray,
) -> int:
    """Mark in ``chosen`` the rows an inner solve needs; returns their number.

    Free multipliers, and those that violate their condition against ``level``, an
    estimate of the intercept; rows i and j, the worst pair, in any case, so that
    each inner solve gains.
    """
    count = 0
    for k in range(residual.size):
        may_rise, may_fall = beta[k] < upper[k], beta[k] > lower[k]
        chosen[k] = (may_rise and may_fall) or (
            may_rise and residual[k] > level) or (
            may_fall and residual[k] < level)  # fmt: skip
        count += chosen[k]
    for k in (i, j):
        count += not chosen[k]
        chosen[k] = True
    return count


@compiled()
def keep_worst(
    residual: np.ndarray,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    level: float,
    i: int,
    j: int,
    chosen: np.ndarray,
    most: int,
) -> int:
    """Leave marked as many rows as there is room for, from ``select``; returns their number.

    The worst pair, free multipliers, and of each kind those that violate most.
    """
    rows = np.flatnonzero(chosen)
    worst_first = rows[np.argsort(-np.abs(residual[rows] - level))]
    chosen[:] = False
    chosen[i] = chosen[j] = True
    count = 2
    for free in (True, False):
        for k in worst_first:
            if count < most and not chosen[k] and (lower[k] < beta[k] < upper[k]) == free:
                chosen[k] = True
                count += 1
    return count


@compiled()
def gather(
    kernel: np.ndarray,
    slot: np.ndarray,
    chosen: np.ndarray,
    n_chosen: int,
    members: np.ndarray,
    n_members: int,
    place: np.ndarray,
    compact: np.ndarray,
) -> int:
    """Bring the compact kernel to hold at least the chosen rows.

    Members of earlier solves stay while they are few against those needed: a
    member costs a lane in each iteration, a new row costs a gather.  Returns the
    number of members; ``place`` holds each row's position among them, or -1.

    kernel : (m, n), and slot : int64 (n,), where in it the kernel row of each row is
    """
    missing = 0
    for k in range(chosen.size):
        missing += chosen[k] and place[k] < 0
    total = n_members + missing
    if total > members.size or total > n_chosen + n_chosen // 2 + 32:
        place[members[:n_members]] = -1
        n_members = 0
    first_new = n_members
    for k in range(chosen.size):
        if chosen[k] and place[k] < 0:
            members[n_members], place[k] = k, n_members
            n_members += 1
    for p in range(n_members):
        source, begin = kernel[slot[members[p]]], 0 if p >= first_new else first_new
        for q in range(begin, n_members):
            compact[p, q] = source[members[q]]
    return n_members
