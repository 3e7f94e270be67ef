"""One binary problem along its whole path of C."""

import numpy as np
from numba import njit

from .smo import CONVERGED, ITERATION_LIMIT, STALLED, solve_dense
from .working_set import (
    gather,
    intercept_of,
    optimality,
    select,
    subtract_rows,
)  # fmt: skip

# Multipliers are scaled with C while more than this share of the support vectors
# is at its bound, and kept otherwise (measured, see NOTES.md).
_SCALE_SHARE = 0.6

# A working set pays when it is this much smaller than the problem, and up to this
# size (its kernel is then 64 MiB); else all rows are worked on in place.
_WORKING_SHARE = 0.2
_LARGEST_WORKING_SET = 4096

# An inner solve closes nine tenths of the gap before the other rows are looked
# at: to finish on a set that is not yet the right one wastes iterations.
_INNER_GAP = 0.1


@njit(nogil=True, cache=True, error_model="numpy")
def set_bounds(C, y, weight, lower, upper):
    """Bounds of the signed multipliers: ``C * weight`` on the side of the label."""
    for k in range(y.size):
        lower[k] = 0.0 if y[k] > 0 else -C * weight[k]
        upper[k] = C * weight[k] if y[k] > 0 else 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _fill_heavy(C, y, weight, eager, sign, total, beta):
    """All of ``C * weight`` to every row, but to those of label ``sign`` only until
    their weights sum to ``total``, the most eager first."""
    for k in np.argsort(eager):
        given = weight[k]
        # A rest that is only rounding is neither given nor missed: a multiplier
        # by a hair off its bound would count as free and set the intercept.
        if y[k] == sign and total < weight[k] * (1 - 1e-9):
            given = total if total > weight[k] * 1e-9 else 0.0
        if y[k] == sign:
            total -= given
        beta[k] = y[k] * C * given


@njit(nogil=True, cache=True, error_model="numpy")
def start(C, kernel, y, weight, pull_first, pull_second, beta, residual):
    """A feasible start for a small C, close to its solution.

    There every multiplier of the lighter class is at its bound, and the heavier
    class takes as much in its most eager rows.  ``pull_first`` and
    ``pull_second`` are kernel times weights over each class's training rows:
    they give the residual without a product over the whole problem.
    """
    first, second = 0.0, 0.0
    for k in range(y.size):
        first += weight[k] if y[k] > 0 else 0.0
        second += weight[k] if y[k] < 0 else 0.0
    light, sign = min(first, second), 1.0 if first > second else -1.0
    eager = np.empty(y.size)
    for k in range(y.size):
        mean_pull = light * (pull_first[k] / first - pull_second[k] / second)
        eager[k] = sign * (C * mean_pull - y[k])
    _fill_heavy(C, y, weight, eager, sign, light, beta)
    rows, factors, m = np.empty(y.size, np.int64), np.empty(y.size), 0
    # From "all of the heavy class" when less is missing than given.
    from_all = 2 * light > max(first, second)
    for k in range(y.size):
        heavy, other = pull_first[k], pull_second[k]
        if sign < 0:
            heavy, other = other, heavy
        residual[k] = y[k] - sign * C * (heavy * from_all - other)
        factor = beta[k] - from_all * sign * C * weight[k]
        if y[k] == sign and factor != 0.0:
            rows[m], factors[m] = k, factor
            m += 1
    subtract_rows(residual, kernel, rows[:m], factors[:m])


@njit(nogil=True, cache=True, error_model="numpy")
def _scale(ratio, y, beta, residual, old_lower, old_upper, lower, upper):
    """Multiply every multiplier, and its bound, by the growth of C."""
    for k in range(y.size):
        residual[k] = y[k] - (y[k] - residual[k]) * ratio
        if beta[k] == 0.0:
            continue
        if beta[k] == old_upper[k]:
            beta[k] = upper[k]
        elif beta[k] == old_lower[k]:
            beta[k] = lower[k]
        else:
            beta[k] = min(max(beta[k] * ratio, lower[k]), upper[k])


@njit(nogil=True, cache=True, error_model="numpy")
def count_support(beta, lower, upper):
    """Number of multipliers that are not zero, and of those at their bound."""
    n_support, n_bounded = 0, 0
    for k in range(beta.size):
        if beta[k] != 0.0:
            n_support += 1
            n_bounded += beta[k] == lower[k] or beta[k] == upper[k]
    return n_support, n_bounded


@njit(nogil=True, cache=True, error_model="numpy")
def dual_objective(y, beta, residual):
    """``1/2 beta' K beta - y' beta``, the value LIBSVM reports as obj."""
    total = 0.0
    for k in range(y.size):
        total -= 0.5 * beta[k] * (y[k] + residual[k])
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def solve_members(
    kernel, diagonal, residual, beta, lower, upper, members, compact, work, tol, limit
):
    """An inner solve on the member rows, and its effect on every row's residual.

    Returns iterations, status and the members' estimate of the intercept.
    """
    m = members.size
    r, b, lo, hi, rise, fall = (
        work[0, :m], work[1, :m], work[2, :m], work[3, :m], work[4, :m], work[5, :m],
    )  # fmt: skip
    diag = np.empty(m, np.float32)
    for p in range(m):
        k = members[p]
        r[p], b[p], lo[p], hi[p], diag[p] = residual[k], beta[k], lower[k], upper[k], diagonal[k]
    iterations, status = solve_dense(compact, diag, r, b, lo, hi, rise, fall, tol, limit)
    changed, factors, n_changed = np.empty(m, np.int64), np.empty(m), 0
    for p in range(m):
        k = members[p]
        if b[p] != beta[k]:
            changed[n_changed], factors[n_changed] = k, b[p] - beta[k]
            beta[k] = b[p]
            n_changed += 1
    subtract_rows(residual, kernel, changed[:n_changed], factors[:n_changed])
    return iterations, status, intercept_of(r, b, lo, hi)


@njit(nogil=True, cache=True, error_model="numpy")
def solve_one_C(
    kernel, diagonal, residual, beta, lower, upper, level, tol, limit,
    chosen, place, members, n_members, compact, work,
):  # fmt: skip
    """Inner solves on working sets until every row meets the stopping rule.

    Returns iterations, status and the number of members.
    """
    done, n, capacity = 0, residual.size, members.size
    rise, fall = np.empty(n), np.empty(n)
    while True:
        top, bottom, i, j = optimality(residual, beta, lower, upper)
        if not (top - bottom >= tol):
            return done, CONVERGED, n_members
        if done >= limit:
            return done, ITERATION_LIMIT, n_members
        count = select(residual, beta, lower, upper, level, i, j, chosen)
        if count > capacity:
            iterations, status = solve_dense(
                kernel, diagonal, residual, beta, lower, upper, rise, fall, tol, limit - done
            )
            return done + iterations, status, n_members
        n_members = gather(kernel, chosen, count, members, n_members, place, compact)
        iterations, status, level = solve_members(
            kernel, diagonal, residual, beta, lower, upper, members[:n_members], compact,
            work, max(tol, _INNER_GAP * (top - bottom)), limit - done,
        )  # fmt: skip
        done += iterations
        if status == STALLED:
            return done, STALLED, n_members


@njit(nogil=True, cache=True, error_model="numpy")
def walk(
    kernel, diagonal, y, weight, pull_first, pull_second, Cs, tol, limit,
    betas, residuals, intercepts, objectives, iterations, supports, status,
):  # fmt: skip
    """Solve one binary problem for every C, each from the last solution.

    Parameters
    ----------
    kernel : float32 array of shape (n, n), exactly symmetric
    diagonal : float32 array of shape (n,)
    y : float64 array of shape (n,), +1 or -1
    weight : float64 array of shape (n,)
        ``C * weight`` bounds a multiplier; 0 keeps a row out of training, and its
        residual is maintained all the same.  Each label needs a weight above 0.
    pull_first, pull_second : float64 arrays of shape (n,)
        ``kernel @ weight`` over the rows of each label.
    Cs : float64 array of shape (n_C,), ascending
    tol, limit : stopping tolerance, and the largest number of iterations for one C
    betas : float32 or float64 array of shape (n_C, n), output
    residuals : float32 or float64 array of shape (n_C, n) or (0, 0), output
        ``y - K beta``: ``y - residual + intercept`` is a row's decision value.
    intercepts, objectives : float64 arrays of shape (n_C,), output
    iterations, supports, status : int64 arrays of shape (n_C,), output

    Returns
    -------
    int : how many C were solved; the rest has the last one's solution

    Alpha seeding: D. DeCoste, K. Wagstaff, "Alpha seeding for support vector
    machines", KDD 2000.
    """
    n = y.size
    beta, residual = np.zeros(n), np.empty(n)
    lower, upper, old_lower, old_upper = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    chosen, place = np.empty(n, np.bool_), np.full(n, -1, np.int64)
    capacity = min(_LARGEST_WORKING_SET, max(2, int(_WORKING_SHARE * n)))
    members, n_members = np.empty(capacity, np.int64), 0
    compact, work = np.empty((capacity, capacity + 16), np.float32), np.empty((6, capacity))
    n_support, n_bounded, level = 0, 0, 0.0
    for c in range(Cs.size):
        lower, upper, old_lower, old_upper = old_lower, old_upper, lower, upper
        set_bounds(Cs[c], y, weight, lower, upper)
        if c == 0:
            start(Cs[0], kernel, y, weight, pull_first, pull_second, beta, residual)
            level = intercept_of(residual, beta, lower, upper)
        elif n_bounded > _SCALE_SHARE * n_support:
            _scale(Cs[c] / Cs[c - 1], y, beta, residual, old_lower, old_upper, lower, upper)
            level = intercept_of(residual, beta, lower, upper)
        iterations[c], status[c], n_members = solve_one_C(
            kernel, diagonal, residual, beta, lower, upper, level, tol, limit,
            chosen, place, members, n_members, compact, work,
        )  # fmt: skip
        level = intercept_of(residual, beta, lower, upper)
        n_support, n_bounded = count_support(beta, lower, upper)
        intercepts[c], supports[c] = level, n_support
        objectives[c] = dual_objective(y, beta, residual)
        betas[c] = beta
        if residuals.shape[0]:
            residuals[c] = residual
        if n_bounded == 0 and status[c] == CONVERGED:
            repeat_last(c, betas, residuals, intercepts, objectives, iterations, supports, status)
            return c + 1
    return Cs.size


@njit(nogil=True, cache=True, error_model="numpy")
def repeat_last(c, betas, residuals, intercepts, objectives, iterations, supports, status):
    """No multiplier is at its bound at ``c``: every larger C has this solution."""
    for d in range(c + 1, intercepts.size):
        betas[d] = betas[c]
        if residuals.shape[0]:
            residuals[d] = residuals[c]
        intercepts[d], objectives[d] = intercepts[c], objectives[c]
        iterations[d], supports[d], status[d] = 0, supports[c], CONVERGED
