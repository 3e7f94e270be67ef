"""Passes of a block over all rows of a problem, between inner solves.

Thread t owns the rows t, t + T, ... but for ``choose``, where each thread has a
contiguous share so that the members come out in ascending order.
"""

import numpy as np

from pipelines.svm.cuda.block_threads import barrier, block_sum, block_top, device


@device
def survey(t, n_threads, n, C, signed, residual, beta, parts, places):
    """Where a problem stands.

    signed : float64 (n,), weight times label; residual, beta : float64 (n,)

    Returns, the same in every thread
    -------
    top, i : the largest residual of a row that may rise, and the row
    low, j : the smallest of a row that may fall
    level : the intercept by LIBSVM's rule: the mean residual of the free rows,
        with none free the middle between ``low`` and ``top``
    """
    top, i, low, j = -np.inf, np.int32(0), np.inf, np.int32(0)
    total, n_free = 0.0, 0.0
    for k in range(t, n, n_threads):
        r, b, bound = residual[k], beta[k], C * signed[k]
        may_rise, may_fall = b < max(bound, 0.0), b > min(bound, 0.0)
        if may_rise and r > top:
            top, i = r, np.int32(k)
        if may_fall and r < low:
            low, j = r, np.int32(k)
        if may_rise and may_fall:
            total += r
            n_free += 1.0
    top, i = block_top(t, n_threads, top, i, parts, places)
    low, j = block_top(t, n_threads, -low, j, parts, places)
    low = -low
    total = block_sum(t, n_threads, total, parts)
    n_free = block_sum(t, n_threads, n_free, parts)
    if n_free > 0.0:
        return top, i, low, j, total / n_free
    # None is free: these are then the bounds that the rows at their bounds leave.
    return top, i, low, j, 0.5 * (top + low)


@device
def count_support(t, n_threads, n, C, signed, beta, parts):
    """Number of multipliers that are not 0, and of those at their bound."""
    n_support, n_bounded = 0.0, 0.0
    for k in range(t, n, n_threads):
        if beta[k] != 0.0:
            n_support += 1.0
            if beta[k] == C * signed[k]:
                n_bounded += 1.0
    n_support = block_sum(t, n_threads, n_support, parts)
    return n_support, block_sum(t, n_threads, n_bounded, parts)


@device
def dual_objective(t, n_threads, n, signed, residual, beta, parts):
    """``1/2 beta' K beta - y' beta``, the value LIBSVM reports as obj."""
    total = 0.0
    for k in range(t, n, n_threads):
        label = 1.0 if signed[k] > 0.0 else -1.0
        total -= 0.5 * beta[k] * (label + residual[k])
    return block_sum(t, n_threads, total, parts)


@device
def _wanted(k, i, j, C, signed, residual, beta, level):
    """Free, or against its condition at ``level``, or of the worst pair."""
    r, b, bound = residual[k], beta[k], C * signed[k]
    may_rise, may_fall = b < max(bound, 0.0), b > min(bound, 0.0)
    return (
        (may_rise and may_fall)
        or (may_rise and r > level)
        or (may_fall and r < level)
        or k == i
        or k == j
    )


@device
def choose(t, n_threads, n, i, j, C, signed, residual, beta, level, counts, members):
    """The rows an inner solve needs, in ascending order.

    counts : int32 shared (n_threads,); members : int32 (n,), output

    Returns their number, the same in every thread.
    """
    share = (n + n_threads - 1) // n_threads
    first = min(n, t * share)
    last = min(n, first + share)
    count = 0
    for k in range(first, last):
        if _wanted(k, i, j, C, signed, residual, beta, level):
            count += 1
    barrier()  # an earlier call's counts have been read
    counts[t] = count
    barrier()  # every thread's count is there
    at, total = 0, 0
    for q in range(n_threads):
        if q < t:
            at += counts[q]
        total += counts[q]
    for k in range(first, last):
        if _wanted(k, i, j, C, signed, residual, beta, level):
            members[at] = k
            at += 1
    barrier()  # members are read by others than their writers
    return total
