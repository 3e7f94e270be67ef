"""Passes of a block over all rows of a problem: the start of a path, the survey between inner
solves, and the warm start of each C from the last solution.

Like ``pipelines.svm.cpu.steps``.  Thread t owns the rows t, t + T, ... of a problem: only it writes
their residual and beta.  In ``pack`` and ``choose`` each thread has a contiguous slice instead, so
that their lists are in ascending order.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from pipelines.svm.cuda.block import barrier, block_sum, block_top, device, own_slice, share_counts
from pipelines.svm.cuda.kernel_values import value_function

# Rows that are subtracted from the residuals at once, with their factors in shared memory, and how
# many of them are read before the first is used.
CHUNK, BATCH = 128, 8

# Halvings of an interval of float64 after which values in it count as ties.
HALVINGS = 64

# As in ``cpu.steps``: the factor of the tolerance where decision values span less than the margins'
# distance of 2, and the rounding of float64 residuals relative to their size.
_TIGHT, _RESOLVED = 0.5, 1e-13


@device
def pack(t, n_threads, rows, m, work, parts):
    """List the changes, of m, that are not 0, with their rows' columns, in order.

    work : WorkSpace, of which ``factors`` and ``columns`` are written; a barrier has to separate
        this from writes of other threads to ``changes`` and ``members``

    Returns their number, the same in every thread.
    """
    first, last = own_slice(t, n_threads, m)
    count = 0
    for p in range(first, last):
        if work.changes[p] != 0.0:
            count += 1
    at, total = share_counts(t, n_threads, count, parts.counts)
    for p in range(first, last):
        if work.changes[p] != 0.0:
            work.factors[at] = work.changes[p]
            work.columns[at] = rows.columns[work.members[p]]
            at += 1
    barrier()  # they are read by threads other than their writers
    return total


@cache
def row_subtractor(name: str):
    """The device function for ``residual -= K @ factors``, for one kernel function."""
    value_at = value_function(name)

    @device
    def part(products, q, column, parts):
        """The shared product of row q of the chunk and a column."""
        return products.shared[np.uint32(parts.chunk_columns[np.uint32(q)]), column]

    @device
    def term(products, q, product, parts):
        value = np.float64(value_at(products, product))
        return parts.chunk_factors[np.uint32(q)] * value

    @device
    def subtract(t, n_threads, rows, begin, m, work, products, parts):
        """Subtract packed rows of the kernel, times their factors, from the residuals.

        begin, m : the half-open range of rows, ``begin`` to ``m``; ``begin`` is a multiple of
            ``CHUNK``; the result does not depend on how the range is split into calls
        """
        n, stride = np.int32(rows.residual.size), np.int32(n_threads)
        for first in range(begin, m, CHUNK):
            count = np.int32(min(CHUNK, m - first))
            barrier()  # all threads are done with the last chunk
            q = np.int32(t)
            while q < CHUNK:  # beyond the last a factor of 0
                parts.chunk_factors[q], parts.chunk_columns[q] = 0.0, np.int32(0)
                if q < count:
                    parts.chunk_factors[q] = work.factors[first + q]
                    parts.chunk_columns[q] = work.columns[first + q]
                q = np.int32(q + stride)
            barrier()  # the chunk is there
            k = np.int32(t)
            while k < n:
                column = np.uint32(rows.columns[np.uint32(k)])
                r = rows.residual[np.uint32(k)]
                q = np.int32(0)
                while q < count:
                    a, b = part(products, q, column, parts), part(products, q + 1, column, parts)
                    c, d = (
                        part(products, q + 2, column, parts),
                        part(products, q + 3, column, parts),
                    )
                    e, f = (
                        part(products, q + 4, column, parts),
                        part(products, q + 5, column, parts),
                    )
                    g, h = (
                        part(products, q + 6, column, parts),
                        part(products, q + 7, column, parts),
                    )
                    r -= (
                        (term(products, q, a, parts) + term(products, q + 1, b, parts))
                        + (term(products, q + 2, c, parts) + term(products, q + 3, d, parts))
                    ) + (
                        (term(products, q + 4, e, parts) + term(products, q + 5, f, parts))
                        + (term(products, q + 6, g, parts) + term(products, q + 7, h, parts))
                    )
                    q = np.int32(q + BATCH)
                rows.residual[np.uint32(k)] = r
                k = np.int32(k + stride)
        barrier()  # factors and members may be written again

    return subtract


@device
def _weight_up_to(t, n_threads, n, signed, sign, eager, level, tie_top, last, sums):
    """Weight of side ``sign``'s rows with ``eager <= level``, counting ties only up to ``last``."""
    total = 0.0
    for k in range(t, n, n_threads):
        if signed[k] * sign > 0.0 and (eager[k] <= level or (eager[k] <= tie_top and k <= last)):
            total += abs(signed[k])
    return block_sum(t, n_threads, total, sums)


@device
def fill_heavy(t, n_threads, n, C, signed, sign, light, eager, beta, parts):
    """Set the multipliers of the light class, and of the most eager rows of the heavy one, to
    their bounds.

    The eager rows of the heavy class, whose label is ``sign``, get the weight ``light`` together.
    Two bisections replace a sort: one finds the eagerness up to which rows are filled, one the last
    row among those that tie.

    signed : float64 (n,), weight times label
    eager : float64 (n,), the smallest first
    beta : float64 (n,), output
    """
    top, lowest = -np.inf, np.inf
    for k in range(t, n, n_threads):
        if signed[k] * sign > 0.0:
            top, lowest = max(top, eager[k]), min(lowest, eager[k])
    high, _ = block_top(t, n_threads, top, np.int32(0), parts.tops, parts.places)
    low, _ = block_top(t, n_threads, -lowest, np.int32(0), parts.tops, parts.places)
    low = -low
    # The rows up to ``low`` weigh less than ``light``, those up to ``high`` at least as much.
    low -= 1e-6 * (1.0 + abs(low))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        weight = _weight_up_to(t, n_threads, n, signed, sign, eager, middle, middle, -1, parts.tops)
        if weight >= light * (1 - 1e-12):
            high = middle
        else:
            low = middle
    first, last = -1, n - 1
    while last - first > 1:
        middle_row = (first + last) // 2
        weight = _weight_up_to(
            t, n_threads, n, signed, sign, eager, low, high, middle_row, parts.tops
        )
        if weight >= light * (1 - 1e-12):
            last = middle_row
        else:
            first = middle_row
    remainder = light - _weight_up_to(
        t, n_threads, n, signed, sign, eager, low, high, first, parts.tops
    )
    for k in range(t, n, n_threads):
        fraction = 1.0
        if signed[k] * sign > 0.0 and not (eager[k] <= low or (eager[k] <= high and k <= first)):
            fraction = 0.0
            if eager[k] <= high and k == last:
                # Remainders that are only rounding are dropped: a multiplier a hair off its bound
                # would count as free, and would set the intercept.
                remainder_fraction = remainder / abs(signed[k])
                if remainder_fraction >= 1 - 1e-9:
                    fraction = 1.0
                elif remainder_fraction > 1e-9:
                    fraction = remainder_fraction
        # A full multiplier equals its bound exactly.
        beta[k] = C * signed[k] if fraction == 1.0 else C * signed[k] * fraction


@device
def class_pull(sides, column):
    """The kernel at one column times the weights, over a problem's first and second side."""
    pulls, factors, other = sides.pulls, sides.factors, 0.0
    if sides.second >= 0:
        other = factors[sides.second] * pulls[sides.second, column]
    else:
        for c in range(factors.size):
            if c != sides.first:
                other += factors[c] * pulls[c, column]
    return factors[sides.first] * pulls[sides.first, column], other


@device
def _range(t, n_threads, high, low, parts):
    """The largest ``high`` and the smallest ``low`` of all threads, in every thread."""
    high, _ = block_top(t, n_threads, high, np.int32(0), parts.tops, parts.places)
    low, _ = block_top(t, n_threads, -low, np.int32(0), parts.tops, parts.places)
    return high, -low


@device
def device_reach(t, n_threads, rows, sides, parts):
    """How far apart C = 1 can move two decision values, and how far a single one.

    The smaller range of the two sides' pulls over a problem's rows, and the largest pull.
    """
    top_first, low_first, top_second, low_second = -np.inf, np.inf, -np.inf, np.inf
    for k in range(t, rows.signed.size, n_threads):
        pull, other = class_pull(sides, rows.columns[k])
        top_first, low_first = max(top_first, pull), min(low_first, pull)
        top_second, low_second = max(top_second, other), min(low_second, other)
    top_first, low_first = _range(t, n_threads, top_first, low_first, parts)
    top_second, low_second = _range(t, n_threads, top_second, low_second, parts)
    size = max(max(abs(top_first), abs(low_first)), max(abs(top_second), abs(low_second)))
    return min(top_first - low_first, top_second - low_second), size


@device
def device_tolerance_at(C, tol, span, size):
    """The tolerance at a C: ``tol``, or less if decision values cannot differ by the margins' 2.

    As on the CPU, see ``pipelines.svm.cpu.steps.tolerance_at``.
    """
    return min(tol, max(tol * _TIGHT * C * span, _RESOLVED * (1.0 + C * size)))


@device
def start(t, n_threads, C, rows, sides, work, parts):
    """Build a feasible starting point for the first C; changes remain to be packed and subtracted.

    Every multiplier of the class with less weight is at its bound, and the other class is given the
    same total.  The residual and beta of ``rows`` are written, ``work`` is overwritten.
    """
    signed, beta, n = rows.signed, rows.beta, rows.signed.size
    weight_first, weight_second = 0.0, 0.0
    for k in range(t, n, n_threads):
        weight_first += max(signed[k], 0.0)
        weight_second -= min(signed[k], 0.0)
    weight_first = block_sum(t, n_threads, weight_first, parts.tops)
    weight_second = block_sum(t, n_threads, weight_second, parts.tops)
    light = min(weight_first, weight_second)
    sign = 1.0 if weight_first > weight_second else -1.0
    for k in range(t, n, n_threads):
        pull, other = class_pull(sides, rows.columns[k])
        label = 1.0 if signed[k] > 0.0 else -1.0
        mean_pull = light * (pull / weight_first - other / weight_second)
        work.changes[k] = sign * (C * mean_pull - label)
    fill_heavy(t, n_threads, n, C, signed, sign, light, work.changes, beta, parts)
    # Start from all rows of the heavy class if fewer of its rows are left out than taken.
    from_all = 1.0 if 2 * light > max(weight_first, weight_second) else 0.0
    for k in range(t, n, n_threads):
        heavy, other = class_pull(sides, rows.columns[k])
        if sign < 0.0:
            heavy, other = other, heavy
        label = 1.0 if signed[k] > 0.0 else -1.0
        rows.residual[k] = label - sign * C * (heavy * from_all - other)
        work.members[k], work.changes[k] = np.int32(k), 0.0
        if label == sign:
            work.changes[k] = beta[k] - from_all * C * signed[k]


@device
def restore(t, n_threads, rows, work):
    """Reset residuals to the labels; all multipliers become changes to be packed and subtracted."""
    for k in range(t, rows.signed.size, n_threads):
        rows.residual[k] = 1.0 if rows.signed[k] > 0.0 else -1.0
        work.members[k], work.changes[k] = np.int32(k), rows.beta[k]


@device
def scale(t, n_threads, old_C, C, rows):
    """Scale every multiplier with C, like its bound, and the residuals with them."""
    signed, beta, residual = rows.signed, rows.beta, rows.residual
    ratio = C / old_C
    for k in range(t, signed.size, n_threads):
        label = 1.0 if signed[k] > 0.0 else -1.0
        residual[k] = label - (label - residual[k]) * ratio
        if beta[k] == old_C * signed[k]:
            beta[k] = C * signed[k]
        elif beta[k] != 0.0:
            bound = C * signed[k]
            beta[k] = min(max(beta[k] * ratio, min(bound, 0.0)), max(bound, 0.0))


@device
def survey(t, n_threads, C, rows, parts):
    """Measure the state of a problem: its violation of optimality, intercept and free rows.

    Returns
    -------
    top, i
        The largest residual of a row that may rise, and the row.
    low, j
        The smallest residual of a row that may fall, and the row.
    level
        The intercept by LIBSVM's rule: the mean residual of the free rows; if none is free, the
        middle of ``low`` and ``top``.
    n_free
        The number of free rows, a float.  All are the same in every thread.
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
    # No row is free: rows at their bounds allow any intercept between these two.
    return top, i, low, j, 0.5 * (top + low), n_free


@device
def count_support(t, n_threads, C, rows, parts):
    """The number of multipliers that are not 0, and the number at their bound."""
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
    """The dual objective ``1/2 beta' K beta - y' beta``, which LIBSVM reports as obj."""
    total = 0.0
    for k in range(t, rows.signed.size, n_threads):
        label = 1.0 if rows.signed[k] > 0.0 else -1.0
        total -= 0.5 * rows.beta[k] * (label + rows.residual[k])
    return block_sum(t, n_threads, total, parts.tops)


class Cut(NamedTuple):
    """A rule that selects the rows most eager to move in one direction.

    sign : 1.0 for rows that may rise, -1.0 for those that may fall
    sure : rows are selected where ``sign * residual`` is at least this,
    tie, last : and up to row ``last`` where it is at least ``tie``
    apart : whether free rows are excluded, as all of them are chosen anyway
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
    """The ``Cut`` of the rows beyond ``level`` in one direction, or of the ``quota`` most eager.

    Two bisections replace a sort, as in ``fill_heavy``; the first ends once there are slightly
    fewer rows than the quota.

    level, top : the least and the largest value of ``sign * residual``
    apart : whether free rows are excluded
    """
    high, low, last = level, level, -1
    whole = Cut(sign, level, level, -1, apart)
    if _count_inside(t, n_threads, C, rows, whole, parts) > quota:
        # From ``low`` on there are more rows than the quota, from ``high`` on not more.
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
    """List the rows of an inner solve in ascending order: those that two cuts select.

    If the cuts exclude free rows, all free rows are chosen as well.

    i, j : rows that are chosen in any case, so that each inner solve makes progress
    members : int32, output

    Returns their number, the same in every thread.
    """
    first, last = own_slice(t, n_threads, rows.signed.size)
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
