"""Where a path starts, and how one C's solution becomes the start for the next.

As ``start``, ``seed`` and ``tolerance`` of ``pipelines.svm.cpu``, by all threads of a
block.  Thread t owns the rows t, t + T, ... of a problem: it alone writes their residual
and beta.
"""

from functools import cache

import numpy as np

from pipelines.svm.cuda.block_threads import barrier, block_sum, block_top, device
from pipelines.svm.cuda.kernel_values import value_function

# Rows taken off the residuals at once; a shared place for each.
CHUNK = 128

# Halvings of an interval of float64 until what is left counts as a tie.
_HALVINGS = 64

# Half the margins' distance, and what float64 residuals still resolve of their size.
_TIGHT, _RESOLVED = 0.5, 1e-13


@cache
def row_subtractor(name: str):
    """The device function ``residual -= K @ factors``, for one kernel function."""
    value_at = value_function(name)

    @device
    def subtract(t, n_threads, n, columns, residual, m, members, factors,
                 shared, gamma, coef0, degree, chunk_factors, chunk_columns):  # fmt: skip
        """Take m rows of the kernel, times factors, off the residual.

        columns : int32 (n,), of the problem's rows in the shared products;
        residual : float64 (n,); members : int32 (m,), row numbers;
        factors : float64 (m,); chunk_factors : float64 and chunk_columns : int32,
        shared (CHUNK,).  ``factors`` may have been written by other threads only
        before a barrier.
        """
        for first in range(0, m, CHUNK):
            count = min(CHUNK, m - first)
            barrier()  # all are done with the chunk before
            for q in range(t, count, n_threads):
                chunk_factors[q] = factors[first + q]
                chunk_columns[q] = columns[members[first + q]]
            barrier()  # the chunk is there
            for k in range(t, n, n_threads):
                column, r = columns[k], residual[k]
                for q in range(count):
                    factor = chunk_factors[q]
                    if factor != 0.0:
                        value = value_at(shared[chunk_columns[q], column], gamma, coef0, degree)
                        r -= factor * np.float64(value)
                residual[k] = r
        barrier()  # factors and members may be written again

    return subtract


@device
def _weight_up_to(t, n_threads, n, signed, sign, eager, level, tie_top, last, parts):
    """Weight of label ``sign`` with ``eager <= level``, or up to ``tie_top`` and row ``last``."""
    total = 0.0
    for k in range(t, n, n_threads):
        if signed[k] * sign > 0.0 and (eager[k] <= level or (eager[k] <= tie_top and k <= last)):
            total += abs(signed[k])
    return block_sum(t, n_threads, total, parts)


@device
def fill_heavy(t, n_threads, n, C, signed, sign, light, eager, beta, parts, places):
    """Full bounds to the light class, and to the heavy one's most eager rows.

    The heavy class's multipliers, of label ``sign``, get the weight ``light``
    together.  Two bisections take the place of a sort: one for the eagerness up to
    which rows are filled, one for the row among those that tie.

    signed : float64 (n,), weight times label; eager : float64 (n,);
    beta : float64 (n,), output.
    """
    top, lowest = -np.inf, np.inf
    for k in range(t, n, n_threads):
        if signed[k] * sign > 0.0:
            top, lowest = max(top, eager[k]), min(lowest, eager[k])
    high, _ = block_top(t, n_threads, top, np.int32(0), parts, places)
    low, _ = block_top(t, n_threads, -lowest, np.int32(0), parts, places)
    low = -low
    # All rows up to ``low`` weigh less than ``light``, those up to ``high`` enough.
    low -= 1e-6 * (1.0 + abs(low))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        weight = _weight_up_to(t, n_threads, n, signed, sign, eager, middle, middle, -1, parts)
        if weight >= light * (1 - 1e-12):
            high = middle
        else:
            low = middle
    first, last = -1, n - 1
    while last - first > 1:
        middle_row = (first + last) // 2
        weight = _weight_up_to(t, n_threads, n, signed, sign, eager, low, high, middle_row, parts)
        if weight >= light * (1 - 1e-12):
            last = middle_row
        else:
            first = middle_row
    rest = light - _weight_up_to(t, n_threads, n, signed, sign, eager, low, high, first, parts)
    for k in range(t, n, n_threads):
        given = 1.0
        if signed[k] * sign > 0.0 and not (eager[k] <= low or (eager[k] <= high and k <= first)):
            given = 0.0
            if eager[k] <= high and k == last:
                # A rest that is only rounding is neither given nor missed: a multiplier
                # by a hair off its bound would count as free and set the intercept.
                share = rest / abs(signed[k])
                if share >= 1 - 1e-9:
                    given = 1.0
                elif share > 1e-9:
                    given = share
        # A full one is its bound exactly.
        beta[k] = C * signed[k] if given == 1.0 else C * signed[k] * given


@device
def class_pull(pulls, factors, first, second, column):
    """Kernel times weights over a problem's first and its second side, at one column."""
    other = 0.0
    if second >= 0:
        other = factors[second] * pulls[second, column]
    else:
        for c in range(factors.size):
            if c != first:
                other += factors[c] * pulls[c, column]
    return factors[first] * pulls[first, column], other


@device
def _range(t, n_threads, high, low, parts, places):
    """The largest of ``high`` and the smallest of ``low``, in every thread."""
    high, _ = block_top(t, n_threads, high, np.int32(0), parts, places)
    low, _ = block_top(t, n_threads, -low, np.int32(0), parts, places)
    return high, -low


@device
def reach(t, n_threads, n, columns, pulls, factors, first, second, parts, places):
    """How far C = 1 can move decision values apart, and how far it can move them.

    The smaller of the ranges of the two sides' pulls over a problem's rows, and the
    largest pull; see ``starter`` for the arguments.
    """
    top_first, low_first, top_second, low_second = -np.inf, np.inf, -np.inf, np.inf
    for k in range(t, n, n_threads):
        pull, other = class_pull(pulls, factors, first, second, columns[k])
        top_first, low_first = max(top_first, pull), min(low_first, pull)
        top_second, low_second = max(top_second, other), min(low_second, other)
    top_first, low_first = _range(t, n_threads, top_first, low_first, parts, places)
    top_second, low_second = _range(t, n_threads, top_second, low_second, parts, places)
    size = max(max(abs(top_first), abs(low_first)), max(abs(top_second), abs(low_second)))
    return min(top_first - low_first, top_second - low_second), size


@device
def tolerance_at(C, tol, span, size):
    """``tol``, less where C does not let decision values differ by the margins' 2.

    There a gap of ``tol`` may be all that rows differ by, and which class has the
    largest value would be an accident of the start.  As on the CPU.
    """
    return min(tol, max(tol * _TIGHT * C * span, _RESOLVED * (1.0 + C * size)))


@cache
def starter(name: str):
    """The device function that makes a feasible start for the first C."""
    subtract = row_subtractor(name)

    @device
    def start(t, n_threads, n, C, signed, columns, pulls, factors, first, second,
              residual, beta, work, members, parts, places,
              shared, gamma, coef0, degree, chunk_factors, chunk_columns):  # fmt: skip
        """Every multiplier of the lighter class at its bound, as much in the heavier.

        pulls : float64 (n_classes, n_columns), kernel times fold weights over each
        class; factors : float64 (n_classes,), what multiplies C; first, second :
        class numbers, second -1 for all others.  ``residual`` and ``beta`` are
        written, ``work`` and ``members`` overwritten.
        """
        weight_first, weight_second = 0.0, 0.0
        for k in range(t, n, n_threads):
            weight_first += max(signed[k], 0.0)
            weight_second -= min(signed[k], 0.0)
        weight_first = block_sum(t, n_threads, weight_first, parts)
        weight_second = block_sum(t, n_threads, weight_second, parts)
        light = min(weight_first, weight_second)
        sign = 1.0 if weight_first > weight_second else -1.0
        for k in range(t, n, n_threads):
            pull, other = class_pull(pulls, factors, first, second, columns[k])
            label = 1.0 if signed[k] > 0.0 else -1.0
            mean_pull = light * (pull / weight_first - other / weight_second)
            work[k] = sign * (C * mean_pull - label)
        fill_heavy(t, n_threads, n, C, signed, sign, light, work, beta, parts, places)
        # From "all of the heavy class" when less is missing than given.
        from_all = 1.0 if 2 * light > max(weight_first, weight_second) else 0.0
        for k in range(t, n, n_threads):
            heavy, other = class_pull(pulls, factors, first, second, columns[k])
            if sign < 0.0:
                heavy, other = other, heavy
            label = 1.0 if signed[k] > 0.0 else -1.0
            residual[k] = label - sign * C * (heavy * from_all - other)
            members[k], work[k] = np.int32(k), 0.0
            if label == sign:
                work[k] = beta[k] - from_all * C * signed[k]
        subtract(t, n_threads, n, columns, residual, n, members, work,
                 shared, gamma, coef0, degree, chunk_factors, chunk_columns)  # fmt: skip

    return start


@device
def scale(t, n_threads, n, old_C, C, signed, beta, residual):
    """Multiply every multiplier, and its bound, by the growth of C."""
    ratio = C / old_C
    for k in range(t, n, n_threads):
        label = 1.0 if signed[k] > 0.0 else -1.0
        residual[k] = label - (label - residual[k]) * ratio
        if beta[k] == old_C * signed[k]:
            beta[k] = C * signed[k]
        elif beta[k] != 0.0:
            bound = C * signed[k]
            beta[k] = min(max(beta[k] * ratio, min(bound, 0.0)), max(bound, 0.0))
