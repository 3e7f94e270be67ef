"""Passes of a block over all rows of a problem, between inner solves.

Thread t owns the rows t, t + T, ... but for ``choose``, where each thread has a
contiguous share so that the members come out in ascending order.
"""

from typing import Any, NamedTuple

import numpy as np

from pipelines.svm.cuda.block import (
    barrier,
    block_sum,
    block_top,
    device,
    own_share,
    share_counts,
)
from pipelines.svm.cuda.start import HALVINGS


@device
def survey(t, n_threads, C, rows, parts):
    """Measure the state of a problem: violation, intercept and free rows.

    Returns, the same in every thread
    -------
    top, i : the largest residual of a row that may rise, and the row
    low, j : the smallest of a row that may fall
    level : the intercept by LIBSVM's rule: the mean residual of the free rows,
        with none free the middle between ``low`` and ``top``
    n_free : their number, a float
    """
    top, i, low, j = -np.inf, np.int32(0), np.inf, np.int32(0)
    total, n_free = 0.0, 0.0
    for k in range(t, rows.signed.size, n_threads):
        r, b, bound = rows.residual[k], rows.beta[k], C * rows.signed[k]
        may_rise, may_fall = b < max(bound, 0.0), b > min(bound, 0.0)
        if may_rise and r > top:
            top, i = r, np.int32(k)
        if may_fall and r < low:
            low, j = r, np.int32(k)
        if may_rise and may_fall:
            total += r
            n_free += 1.0
    top, i = block_top(t, n_threads, top, i, parts.tops, parts.places)
    low, j = block_top(t, n_threads, -low, j, parts.tops, parts.places)
    low = -low
    total = block_sum(t, n_threads, total, parts.tops)
    n_free = block_sum(t, n_threads, n_free, parts.tops)
    if n_free > 0.0:
        return top, i, low, j, total / n_free, n_free
    # None is free: these are then the bounds that the rows at their bounds leave.
    return top, i, low, j, 0.5 * (top + low), n_free


@device
def count_support(t, n_threads, C, rows, parts):
    """Return number of multipliers that are not 0, and of those at their bound."""
    n_support, n_bounded = 0.0, 0.0
    for k in range(t, rows.signed.size, n_threads):
        if rows.beta[k] != 0.0:
            n_support += 1.0
            if rows.beta[k] == C * rows.signed[k]:
                n_bounded += 1.0
    n_support = block_sum(t, n_threads, n_support, parts.tops)
    return n_support, block_sum(t, n_threads, n_bounded, parts.tops)


@device
def dual_objective(t, n_threads, rows, parts):
    """Return ``1/2 beta' K beta - y' beta``, the value LIBSVM reports as obj."""
    total = 0.0
    for k in range(t, rows.signed.size, n_threads):
        label = 1.0 if rows.signed[k] > 0.0 else -1.0
        total -= 0.5 * rows.beta[k] * (label + rows.residual[k])
    return block_sum(t, n_threads, total, parts.tops)


class Cut(NamedTuple):
    """The rows that may move in one direction and are most eager to.

    sign : 1.0 for rows that may rise, -1.0 for those that may fall
    sure : taken where ``sign * residual`` is at least this
    tie, last : taken up to row ``last`` where it is at least ``tie``
    apart : free rows are not among these, for all of them are taken
    """

    sign: Any
    sure: Any
    tie: Any
    last: Any
    apart: Any


@device
def _inside(k, C, rows, cut):
    b, bound, eager = rows.beta[k], C * rows.signed[k], cut.sign * rows.residual[k]
    may_rise, may_fall = b < max(bound, 0.0), b > min(bound, 0.0)
    if cut.apart and may_rise and may_fall:
        return False
    may = may_rise if cut.sign > 0.0 else may_fall
    return may and (eager >= cut.sure or (eager >= cut.tie and k <= cut.last))


@device
def _count_inside(t, n_threads, C, rows, cut, parts):
    count = 0.0
    for k in range(t, rows.signed.size, n_threads):
        if _inside(k, C, rows, cut):
            count += 1.0
    return block_sum(t, n_threads, count, parts.tops)


@device
def most_eager(t, n_threads, C, rows, sign, level, top, quota, apart, parts):
    """Return the rows beyond ``level`` in one direction, or of more than ``quota`` the most eager.

    Two bisections take the place of a sort, as in ``fill_heavy``; the first ends when
    the rows are a few less than the quota.

    level, top : of ``sign * residual``, the least and the most
    apart : whether free rows are left out
    """
    high, low, last = level, level, -1
    whole = Cut(sign, level, level, -1, apart)
    if _count_inside(t, n_threads, C, rows, whole, parts) > quota:
        # More than the quota from ``low`` on, not more from ``high`` on.
        high, last = top + 1e-6 * (1.0 + abs(top)), rows.signed.size - 1
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            if middle <= low or middle >= high:
                break
            cut = Cut(sign, middle, middle, -1, apart)
            count = _count_inside(t, n_threads, C, rows, cut, parts)
            if count > quota:
                low = middle
            else:
                high = middle
                if count >= 0.75 * quota:
                    last = -1
                    break
        first = -1
        while last - first > 1:
            row = (first + last) // 2
            cut = Cut(sign, high, low, row, apart)
            if _count_inside(t, n_threads, C, rows, cut, parts) > quota:
                last = row
            else:
                first = row
        last = first
    return Cut(sign, high, low, last, apart)


@device
def _wanted(k, i, j, C, rows, rise, fall):
    if rise.apart:
        b, bound = rows.beta[k], C * rows.signed[k]
        if min(bound, 0.0) < b < max(bound, 0.0):
            return True
    return _inside(k, C, rows, rise) or _inside(k, C, rows, fall) or k == i or k == j


@device
def choose(t, n_threads, i, j, C, rows, rise, fall, parts, members):
    """Return the rows an inner solve works on, in ascending order: those inside two cuts.

    All free rows are among them where the cuts leave those apart.

    i, j : rows taken in any case, so that each inner solve gains
    members : int32, output

    Returns their number, the same in every thread.
    """
    first, last = own_share(t, n_threads, rows.signed.size)
    count = 0
    for k in range(first, last):
        if _wanted(k, i, j, C, rows, rise, fall):
            count += 1
    at, total = share_counts(t, n_threads, count, parts.counts)
    for k in range(first, last):
        if _wanted(k, i, j, C, rows, rise, fall):
            members[at] = k
            at += 1
    barrier()  # members are read by others than their writers
    return total
