"""The rows an inner solve works on, and their compact kernel.

Most rows of a problem are far from changing: at a bound, with the right sign of gradient.  Leaving
them out (shrinking) makes an SMO iteration cost the size of the working set instead of the size of
the problem.  Their residuals are updated after each inner solve, from the multipliers that changed,
so nothing is lost: the stopping rule is always tested on every row.

Everywhere ``state`` and ``numbers`` are arrays whose rows ``binary_problem`` names; their first n
columns are used.

References
----------
T. Joachims, "Making large-scale SVM learning practical", Advances in Kernel Methods, 1999.
"""

import numpy as np

from pipelines.svm.compiled import NO_NAN, compiled
from pipelines.svm.cpu.binary_problem import BETA, CHOSEN, LOWER, MEMBERS, PLACE, RESIDUAL, UPPER


@compiled(*NO_NAN)
def subtract_rows(
    state: np.ndarray,
    target: int,
    n: int,
    kernel: np.ndarray,
    rows: np.ndarray,
    factors: np.ndarray,
    m: int,
) -> None:
    """Compute ``state[target] -= factors @ kernel[rows]`` with the first m rows and factors.

    Works on four rows at a time, so that the residual is read and written a quarter as
    often as the kernel.

    kernel : float32 or float64 (any, >= n); rows : int64 (>= m,); factors : float64 (>= m,)
    """
    for r in range(0, m, 4):
        a = b = c = d = rows[r]
        fa, fb, fc, fd = factors[r], 0.0, 0.0, 0.0
        if r + 1 < m:
            b, fb = rows[r + 1], factors[r + 1]
        if r + 2 < m:
            c, fc = rows[r + 2], factors[r + 2]
        if r + 3 < m:
            d, fd = rows[r + 3], factors[r + 3]
        for k in range(n):
            state[target, k] -= (fa * np.float64(kernel[a, k]) + fb * np.float64(kernel[b, k])) + (
                fc * np.float64(kernel[c, k]) + fd * np.float64(kernel[d, k])
            )


@compiled()
def optimality(state: np.ndarray, n: int) -> tuple[float, float, int, int]:
    """The largest residual of rows that may rise, the smallest that may fall, and their rows."""
    top, bottom, i, j = -np.inf, np.inf, -1, -1
    for k in range(n):
        r = state[RESIDUAL, k]
        if r > top and state[BETA, k] < state[UPPER, k]:
            top, i = r, k
        if r < bottom and state[BETA, k] > state[LOWER, k]:
            bottom, j = r, k
    return top, bottom, i, j


@compiled()
def intercept_of(state: np.ndarray, n: int) -> float:
    """The b of ``f(x) = sum_j beta_j K(x, j) + b``, by LIBSVM's rule.

    The mean residual of the free multipliers; if none is free, the middle of the interval that the
    rows at their bounds allow.
    """
    total, n_free = 0.0, 0
    top, bottom = -np.inf, np.inf
    for k in range(n):
        residual, beta = state[RESIDUAL, k], state[BETA, k]
        may_rise, may_fall = beta < state[UPPER, k], beta > state[LOWER, k]
        if may_rise and may_fall:
            total += residual
            n_free += 1
        elif may_rise:
            top = max(top, residual)
        elif may_fall:
            bottom = min(bottom, residual)
    return total / n_free if n_free else 0.5 * (top + bottom)


@compiled()
def select_rows(
    state: np.ndarray, numbers: np.ndarray, n: int, level: float, i: int, j: int
) -> int:
    """Mark as ``CHOSEN`` the rows an inner solve needs; returns their number.

    Free rows, those that violate optimality at ``level``, an estimate of the intercept, and in any
    case rows i and j, the pair that violates most: each inner solve then makes progress.
    """
    count = 0
    for k in range(n):
        residual, beta = state[RESIDUAL, k], state[BETA, k]
        may_rise, may_fall = beta < state[UPPER, k], beta > state[LOWER, k]
        chosen = (may_rise and (may_fall or residual > level)) or (may_fall and residual < level)
        numbers[CHOSEN, k] = 1 if chosen else 0
        count += numbers[CHOSEN, k]
    count += 2 - numbers[CHOSEN, i] - numbers[CHOSEN, j]
    numbers[CHOSEN, i] = numbers[CHOSEN, j] = 1
    return count


def keep_worst(
    state: np.ndarray, numbers: np.ndarray, level: float, i: int, j: int, most: int
) -> int:
    """Reduce the rows that ``select_rows`` has ``CHOSEN`` to ``most``; returns their number.

    The worst pair first, then free rows, then others; of each kind, those that violate most.
    """
    rows = np.flatnonzero(numbers[CHOSEN])
    beta = state[BETA, rows]
    at_bound = ~((state[LOWER, rows] < beta) & (beta < state[UPPER, rows]))
    not_of_pair = (rows != i) & (rows != j)
    violation = np.abs(state[RESIDUAL, rows] - level)
    numbers[CHOSEN] = 0
    numbers[CHOSEN, rows[np.lexsort((-violation, at_bound, not_of_pair))[:most]]] = 1
    return most


def keep_most_violating(state: np.ndarray, numbers: np.ndarray, most: int) -> None:
    """Choose ``most`` rows, half of them to rise and half to fall.

    The largest residuals of those that may rise, and the smallest of those that may fall. If rows
    were compared with an estimate of the intercept that is off, all would have to move the same
    way, and only the worst pair could.
    """
    beta, residual = state[BETA], state[RESIDUAL]
    rank = np.full(beta.size, beta.size)
    for may, falling in ((beta < state[UPPER], -residual), (beta > state[LOWER], residual)):
        rows = np.flatnonzero(may)
        order = rows[np.argsort(falling[rows], kind="stable")]
        rank[order] = np.minimum(rank[order], np.arange(order.size))
    numbers[CHOSEN] = 0
    numbers[CHOSEN, np.argsort(rank, kind="stable")[:most]] = 1


@compiled()
def gather(
    kernel: np.ndarray,
    slot: np.ndarray,
    numbers: np.ndarray,
    n: int,
    n_chosen: int,
    n_members: int,
    compact: np.ndarray,
) -> int:
    """Make the chosen rows members of the compact kernel; returns the number of members.

    Members of earlier solves stay while they are few: a member costs time in each iteration, a new
    row has to be gathered.  ``PLACE`` holds the position of each row among the members, or -1.

    kernel : (m, n), float32 or float64
    slot : int64 (n,), the row of ``kernel`` of each row
    n_chosen, n_members : how many rows are chosen, and members so far
    compact : float (capacity, > capacity), output
    """
    missing = 0
    for k in range(n):
        if numbers[CHOSEN, k] > 0 and numbers[PLACE, k] < 0:
            missing += 1
    total = n_members + missing
    if total > compact.shape[0] or total > n_chosen + n_chosen // 2 + 32:
        for p in range(n_members):
            numbers[PLACE, numbers[MEMBERS, p]] = -1
        n_members = 0
    first_new = n_members
    for k in range(n):
        if numbers[CHOSEN, k] > 0 and numbers[PLACE, k] < 0:
            numbers[MEMBERS, n_members], numbers[PLACE, k] = k, n_members
            n_members += 1
    for p in range(n_members):
        source, begin = slot[numbers[MEMBERS, p]], 0 if p >= first_new else first_new
        for q in range(begin, n_members):
            compact[p, q] = kernel[source, numbers[MEMBERS, q]]
    return n_members
