"""Newton's method on the free members of an inner solve, by all threads of a block.

The method and its constants are those of ``pipelines.svm.cpu.newton``: all free members move at
once, until their residuals are equal or some of them reach a bound.  Those are pinned; once none
reaches a bound the members that violate optimality most are set free.  Here the effect of every
step is subtracted from all members' residuals at once, by a product that all threads share, so the
decrease of the objective follows from the step itself.  Everywhere:

matrix : float64, the members' kernel, see ``hard``; ``shift`` is added to its values,
    ``ridge`` to its diagonal
f : how many members are free; their numbers are the first of ``free.rows``
free : Free.  ``factor`` holds the factor below the diagonal, and the reciprocals of its diagonal;
    the two rows after its last one (the sides) solve ``factor @ side = right`` for ones and for
    the residuals, and are computed like the factor's own rows

A warp computes a row of the factor, four columns at a time (a panel): its lanes share the inner
products.  Each thread fills a contiguous slice of the lists, so that these are the same for every
number of threads.
"""

import math

import numpy as np

from pipelines.svm.cuda.block import (
    WARP,
    barrier,
    block_sum,
    block_top,
    device,
    larger,
    own_slice,
    share_counts,
    smaller,
    sum_of,
)
from pipelines.svm.cuda.inner import FALL, RISE, mark_of
from pipelines.svm.rules import (
    ADDED_FRACTION,
    LEAST_BATCH,
    LEAST_MOVE,
    MOST_IDLE_STEPS,
    MOST_TRIES,
    RESOLVED64,
    RIDGE_FRACTION,
    VIOLATION_FRACTION,
)
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

# Columns that are computed together.
PANEL = 4

# Steps after which the block looks at the clock: with the largest factor they take about as long
# as 26,000 iterations of SMO.
STEPS_AT_ONCE = 4

# A status beside those of ``solutions``: the next call continues.  And how many values are saved
# until then: the number of free rows, the first row of the factor to be computed, the number of
# rows to set free at once, the number of idle steps, and whether the factor has followed the last
# step.
UNFINISHED = -1
KEPT = 5

# Rows of the factor's array beside those of members: the two sides, and four vectors.
EXTRA_ROWS = 6


@device
def _shared_with(lane, j, f, p, factor):
    """Inner products of row p with the four rows of the panel at j, over the columns before it."""
    last = np.int32(f - 1)
    row = factor[np.uint32(p)]
    first, second = factor[np.uint32(j)], factor[np.uint32(min(j + 1, last))]
    third, fourth = factor[np.uint32(min(j + 2, last))], factor[np.uint32(min(j + 3, last))]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for k in range(lane, j, WARP):
        at = np.uint32(k)
        value = row[at]
        a += value * first[at]
        b += value * second[at]
        c += value * third[at]
        d += value * fourth[at]
    return sum_of(a, WARP), sum_of(b, WARP), sum_of(c, WARP), sum_of(d, WARP)


@device
def _right(p, q, f, near, matrix, shift, ridge, free):
    """Entry (p, q) of the matrix to factorise, or of a right-hand side."""
    column = free.rows[min(q, f - 1)]
    if p == f:
        return 1.0
    if p == f + 1:
        return near.residual[column]
    value = matrix[free.rows[p], column] + shift
    if p == q:
        value += ridge
    return value


@device
def _factorise_panel(width, ridge, tile):
    """Factorise four rows and columns in place (Cholesky), by one thread.

    A pivot is at least the ridge: rows that depend on others, up to the kernel's rounding, then
    take no step of their own.

    width : how many rows there are; the rest becomes the identity
    """
    for r in range(PANEL):
        for e in range(r + 1):
            value = 1.0 if e == r else 0.0
            if r < width:
                value = tile[PANEL * r + e]
            for k in range(e):
                value -= tile[PANEL * r + k] * tile[PANEL * e + k]
            if e < r:
                value *= tile[(PANEL + 1) * e]
            else:
                value = 1.0 / math.sqrt(larger(value, ridge))
            tile[PANEL * r + e] = value


@device
def extend(t, n_threads, first, f, near, matrix, shift, ridge, free, tile):
    """Compute the factor's rows from ``first`` on, and both sides; rows before it are kept.

    tile : float64 shared (>= PANEL**2,), overwritten
    """
    lane, warp, n_warps = t % WARP, t // WARP, n_threads // WARP
    factor, first = free.factor, first // PANEL * PANEL
    for j in range(0, f, PANEL):
        width = min(PANEL, f - j)
        if j >= first:
            for p in range(j + warp, j + width, n_warps):
                a, b, c, d = _shared_with(lane, j, f, p, factor)
                if lane == 0:
                    at = PANEL * (p - j)
                    tile[at] = _right(p, j, f, near, matrix, shift, ridge, free) - a
                    tile[at + 1] = _right(p, j + 1, f, near, matrix, shift, ridge, free) - b
                    tile[at + 2] = _right(p, j + 2, f, near, matrix, shift, ridge, free) - c
                    tile[at + 3] = _right(p, j + 3, f, near, matrix, shift, ridge, free) - d
            barrier()  # the panel's own rows are there
            if t == 0:
                _factorise_panel(width, ridge, tile)
            barrier()  # and are factorised
        for q in range(t, PANEL * PANEL, n_threads):
            r, e = q // PANEL, q % PANEL
            if e <= r and r < width:
                if j >= first:
                    factor[j + r, j + e] = tile[q]
                else:
                    tile[q] = factor[j + r, j + e]
        if j < first:
            barrier()  # the earlier panel is in the tile
        for p in range(max(first, j + width) + warp, f + 2, n_warps):
            a, b, c, d = _shared_with(lane, j, f, p, factor)
            if lane == 0:
                row = factor[p]
                a = (_right(p, j, f, near, matrix, shift, ridge, free) - a) * tile[0]
                row[j] = a
                if width > 1:
                    b = _right(p, j + 1, f, near, matrix, shift, ridge, free) - b
                    b = (b - a * tile[4]) * tile[5]
                    row[j + 1] = b
                if width > 2:
                    c = _right(p, j + 2, f, near, matrix, shift, ridge, free) - c
                    c = (c - a * tile[8] - b * tile[9]) * tile[10]
                    row[j + 2] = c
                if width > 3:
                    d = _right(p, j + 3, f, near, matrix, shift, ridge, free) - d
                    d = (d - a * tile[12] - b * tile[13] - c * tile[14]) * tile[15]
                    row[j + 3] = d
        barrier()  # other lanes and warps read these columns; the tile is overwritten


@device
def directions(t, n_threads, f, free, parts):
    """Fill ``free.d``, along which residuals become equal, and ``free.v``, which corrects sums.

    ``(K + ridge) d = residual - level`` and ``(K + ridge) v = 1``; d sums to 0.  ``free.move`` and
    ``free.pinned`` are overwritten.

    Returns
    -------
    level : float
        The intercept at which residuals meet; the same in every thread.
    full_gain : float
        Twice the decrease of the objective along all of d; the same in every thread.
    """
    factor, right, other = free.factor, free.move, free.pinned
    ones, forward = factor[f], factor[f + 1]
    product_sum, square_sum = 0.0, 0.0
    for p in range(t, f, n_threads):
        product_sum += ones[p] * forward[p]
        square_sum += ones[p] * ones[p]
    product_sum = block_sum(t, n_threads, product_sum, parts.tops)
    level = product_sum / block_sum(t, n_threads, square_sum, parts.tops)
    full_gain = 0.0
    for p in range(t, f, n_threads):
        value = forward[p] - level * ones[p]
        right[p], other[p] = value, ones[p]
        full_gain += value * value
    full_gain = block_sum(t, n_threads, full_gain, parts.tops)  # has a barrier: all is written
    for column in range(f):
        j = f - 1 - column
        row, pivot = factor[j], factor[j, j]
        d, v = right[j] * pivot, other[j] * pivot
        for p in range(t, j, n_threads):
            right[p] -= row[p] * d
            other[p] -= row[p] * v
        if t == 0:
            free.d[j], free.v[j] = d, v
        barrier()  # the next column's sides are done
    return level, full_gain


@device
def _follow_step(t, n_threads, f, step, level, free):
    """Subtract the effect of a step along ``d`` from the side of the residuals."""
    ones, forward = free.factor[f], free.factor[f + 1]
    for p in range(t, f, n_threads):
        forward[p] -= step * (forward[p] - level * ones[p])
    barrier()  # other threads turn it


@device
def _follow_move(t, n_threads, f, free):
    """Subtract the transposed factor times ``free.move``, its effect, from the residuals' side."""
    factor = free.factor
    forward = factor[f + 1]
    for k in range(t, f, n_threads):
        total = free.move[k] / factor[k, k]
        for p in range(k + 1, f):
            total += factor[np.uint32(p), np.uint32(k)] * free.move[p]
        forward[k] -= total
    barrier()  # other threads turn it


@device
def is_free(mark):
    """Whether a row may both rise and fall."""
    return mark == RISE | FALL


@device
def rank_of(value, at, n, values):
    """The rank of element ``at`` among n values; ties are in order of their numbers."""
    rank = 0
    for q in range(n):
        if values[q] < value or (values[q] == value and q < at):
            rank += 1
    return rank


@device
def list_free(t, n_threads, m, near, free, keys, parts):
    """Fill ``free.rows`` with the free members; returns their number.

    Members near a bound, which are likely to be pinned, come last: removing one changes only the
    rows of the factor after it.

    keys : float64 (>= m,), overwritten
    """
    first, last = own_slice(t, n_threads, m)
    count = 0
    for p in range(first, last):
        if is_free(near.marks[p]):
            count += 1
    at, f = share_counts(t, n_threads, count, parts.counts)
    for p in range(first, last):
        if is_free(near.marks[p]):
            bound, beta = near.bounds[p], near.beta[p]
            free.spare[at] = p
            keys[at] = -min(beta - smaller(bound, 0.0), larger(bound, 0.0) - beta)
            at += 1
    barrier()  # all are listed
    for p in range(t, f, n_threads):
        free.rows[rank_of(keys[p], p, f, keys)] = free.spare[p]
    barrier()  # and in order
    return f


@device
def drop_bounded(t, n_threads, f, near, free, parts):
    """Remove members that have reached a bound from ``free.rows`` and the factor; keep the order.

    Returns how many are left.
    """
    first, last = own_slice(t, n_threads, f)
    count = 0
    for p in range(first, last):
        if is_free(near.marks[free.rows[p]]):
            count += 1
    at, n_left = share_counts(t, n_threads, count, parts.counts)
    for p in range(first, last):
        if is_free(near.marks[free.rows[p]]):
            free.spare[at] = p
            at += 1
        else:
            free.spare[n_left + p - at] = p
    barrier()  # the numbers of those that stay are there, and after them those of the others
    if n_left < f:
        for begin in range(0, n_left, n_threads):
            p = begin + t
            member = free.rows[free.spare[min(p, n_left - 1)]]
            barrier()  # these are read, later ones not yet written
            if p < n_left:
                free.rows[p] = member
        _move_up(t, n_threads, f, n_left, free)
        _turn_columns(t, n_threads, n_left, f - n_left, free, parts.chunk_factors)
    return n_left


@device
def _move_up(t, n_threads, f, n_left, free):
    """Move up the factor's rows that stay, and the sides; each thread does some columns."""
    factor, places, last = free.factor, free.spare, n_left - 1
    for k in range(t, f, n_threads):
        column = np.uint32(k)
        for p in range(places[n_left], n_left, 4):  # so that four loads are in flight
            q, r, s = min(p + 1, last), min(p + 2, last), min(p + 3, last)
            a, b = factor[np.uint32(places[p]), column], factor[np.uint32(places[q]), column]
            c, d = factor[np.uint32(places[r]), column], factor[np.uint32(places[s]), column]
            factor[np.uint32(p), column] = a
            if p < last:
                factor[np.uint32(q), column] = b
            if p + 1 < last:
                factor[np.uint32(r), column] = c
            if p + 2 < last:
                factor[np.uint32(s), column] = d
        factor[n_left, k], factor[n_left + 1, k] = factor[f, k], factor[f + 1, k]
    barrier()  # a row is turned by one thread


@device
def _turned(value, x, c, s):
    return c * value + s * x, c * x - s * value


@device
def _turned_by_all(value, w, x, y, z, e, tile):
    """A value of column e of a panel and four values of removed columns, rotated together."""
    at = 2 * PANEL * e
    value, w = _turned(value, w, tile[at], tile[at + 1])
    value, x = _turned(value, x, tile[at + 2], tile[at + 3])
    value, y = _turned(value, y, tile[at + 4], tile[at + 5])
    value, z = _turned(value, z, tile[at + 6], tile[at + 7])
    return value, w, x, y, z


@device
def _removed_columns(row, to, count):
    """The values of a row in the columns to be removed, padded with 0 to ``PANEL``."""
    w, x, y, z = row[to], 0.0, 0.0, 0.0
    if count > 1:
        x = row[to + 1]
    if count > 2:
        y = row[to + 2]
    if count > 3:
        z = row[to + 3]
    return w, x, y, z


@device
def _rotation(inverse, x):
    """The plane rotation that makes x 0: the new pivot's reciprocal, cosine and sine."""
    ratio = x * inverse
    c = 1.0 / math.sqrt(1.0 + ratio * ratio)
    return inverse * c, c, ratio * c


@device
def _turn_panel(j, width, to, count, factor, tile):
    """Rotate the rows of a panel itself, and fill ``tile`` with the rotations; by one thread."""
    for r in range(width):
        row, e = factor[np.uint32(j + r)], 2 * PANEL * r
        w, x, y, z = _removed_columns(row, to, count)
        for column in range(r):
            value, w, x, y, z = _turned_by_all(row[to + count + column], w, x, y, z, column, tile)
            row[to + column] = value
        inverse, tile[e], tile[e + 1] = _rotation(row[to + count + r], w)
        inverse, tile[e + 2], tile[e + 3] = _rotation(inverse, x)
        inverse, tile[e + 4], tile[e + 5] = _rotation(inverse, y)
        row[to + r], tile[e + 6], tile[e + 7] = _rotation(inverse, z)


@device
def _turn_columns(t, n_threads, n_left, n_gone, free, tile):
    """Make the factor triangular again after rows were removed whose columns are still there.

    Plane rotations of such a column with each later one, row by row, move it to the end: up to four
    columns at a time, the last ones first.  In a row their values stand between the columns that
    are done and those that are not, so that it is rotated in place.  The sides are rotated, too.

    free.spare : old numbers of the rows that stay, and after them of the removed ones
    tile : float64 shared (>= 2 * PANEL**2,), overwritten
    """
    factor, end = free.factor, n_gone
    while end > 0:
        low = max(0, end - PANEL)
        j = free.spare[n_left + low] - low
        while j < n_left:
            # How many columns are removed at this row, and after how many rows the next one is.
            count, width = 0, min(PANEL, n_left - j)
            for v in range(low, end):
                ahead = free.spare[n_left + v] - v - j
                if ahead <= 0:
                    count += 1
                else:
                    width = min(width, ahead)
            to = j + low
            if t == 0:
                _turn_panel(j, width, to, count, factor, tile)
            barrier()  # the rotations are there
            for p in range(j + width + t, n_left + 2, n_threads):
                row = factor[np.uint32(p)]
                w, x, y, z = _removed_columns(row, to, count)
                for e in range(width):
                    value, w, x, y, z = _turned_by_all(row[to + count + e], w, x, y, z, e, tile)
                    row[to + e] = value
                row[to + width] = w
                if count > 1:
                    row[to + width + 1] = x
                if count > 2:
                    row[to + width + 2] = y
                if count > 3:
                    row[to + width + 3] = z
            barrier()  # the next panel's rows are done, and all have read the tile
            j += width
        end = low


@device
def add_violating(t, n_threads, m, f, most, level, least, near, free, keys, parts):
    """Append to the f free rows the ``most`` rows at a bound that violate optimality most.

    least : only rows that violate optimality by more than this
    keys : float64 (>= m,), overwritten

    Returns how many are free then.
    """
    first, last = own_slice(t, n_threads, m)
    count = 0
    for p in range(first, last):
        if _violation(p, level, near) > least:
            count += 1
    at, n_violating = share_counts(t, n_threads, count, parts.counts)
    for p in range(first, last):
        gap = _violation(p, level, near)
        if gap > least:
            free.spare[at], keys[at] = p, -gap
            at += 1
    barrier()  # all are listed
    for p in range(t, n_violating, n_threads):
        rank = rank_of(keys[p], p, n_violating, keys)
        if rank < most:
            free.rows[f + rank] = free.spare[p]
    barrier()  # they are read by threads other than their writers
    return f + min(n_violating, most)


@device
def _violation(p, level, near):
    """By how much a row at a bound violates optimality; 0 for free rows."""
    mark = near.marks[p]
    if mark == RISE:
        return near.residual[p] - level
    if mark == FALL:
        return level - near.residual[p]
    return 0.0


@device
def _room(q, near, free):
    """How far free row number q may fall, and rise."""
    k = free.rows[q]
    bound, beta = near.bounds[k], near.beta[k]
    return smaller(bound, 0.0) - beta, larger(bound, 0.0) - beta


@device
def _times(t, n_threads, f, near, free, times, parts):
    """Fill ``times`` with how far along ``free.d`` each row's bound lies.

    Returns the smallest, at most 1, its number, and how many are less than 1.
    """
    near_time, at, count = np.inf, np.int32(0), 0.0
    for q in range(t, f, n_threads):
        d, time = free.d[q], np.inf
        fall, rise = _room(q, near, free)
        if d > 0.0:
            time = larger(rise / d, 0.0)
        elif d < 0.0:
            time = larger(fall / d, 0.0)
        times[q] = time
        if time < near_time:
            near_time, at = time, np.int32(q)
        if time < 1.0:
            count += 1.0
    step, at = block_top(t, n_threads, -near_time, at, parts.tops, parts.places)
    count = block_sum(t, n_threads, count, parts.tops)
    return min(-step, 1.0), at, int(count)


@device
def _product(t, n_threads, m, f, matrix, free, out):
    """Fill ``out`` with the kernel of m members and the free ones, times ``free.move``.

    ``matrix`` may be smaller by a constant, which does not matter, as moves sum to 0.
    """
    for begin in range(t, m, 4 * n_threads):  # so that four loads are in flight
        a, b, c = begin, begin + n_threads, begin + 2 * n_threads
        d, last = begin + 3 * n_threads, m - 1
        u, v = np.uint32(a), np.uint32(min(b, last))
        w, x = np.uint32(min(c, last)), np.uint32(min(d, last))
        sum_u, sum_v, sum_w, sum_x = 0.0, 0.0, 0.0, 0.0
        for q in range(f):
            row, move = matrix[np.uint32(free.rows[q])], free.move[q]
            sum_u += row[u] * move
            sum_v += row[v] * move
            sum_w += row[w] * move
            sum_x += row[x] * move
        out[a] = sum_u
        if b < m:
            out[b] = sum_v
        if c < m:
            out[c] = sum_w
        if d < m:
            out[d] = sum_x
    barrier()  # it is read by threads other than its writers


@device
def _spread(t, n_threads, f, reach, near, free, parts):
    """Fill ``free.move``: pinned rows go to their bounds, the others by ``reach`` times ``d``.

    A multiple of ``v`` keeps the sum 0.  Rows that it carries beyond their bounds are also pinned,
    and the multiple is computed again.  Returns whether all rows are within their bounds.
    """
    for _ in range(MOST_TRIES):
        excess, v_sum = 0.0, 0.0
        for q in range(t, f, n_threads):
            if free.pinned[q] != 0.0:
                fall, rise = _room(q, near, free)
                move = fall
                if free.pinned[q] > 0.0:
                    move = rise
                free.move[q] = move
                excess += move
            else:
                excess += reach * free.d[q]
                v_sum += free.v[q]
        excess = block_sum(t, n_threads, excess, parts.tops)
        v_sum = block_sum(t, n_threads, v_sum, parts.tops)
        if v_sum == 0.0:
            return False
        n_beyond, v_factor = 0.0, -excess / v_sum
        for q in range(t, f, n_threads):
            if free.pinned[q] == 0.0:
                fall, rise = _room(q, near, free)
                move = reach * free.d[q] + v_factor * free.v[q]
                free.move[q] = move
                if move > rise:
                    free.pinned[q] = 1.0
                    n_beyond += 1.0
                elif move < fall:
                    free.pinned[q] = -1.0
                    n_beyond += 1.0
        if block_sum(t, n_threads, n_beyond, parts.tops) == 0.0:
            return True
    return False


@device
def _pin_many(
    t, n_threads, m, f, step, count, full_gain, ridge, near, matrix, free, times, effect, parts
):
    """Fill ``free.move`` so that many rows reach their bounds; returns whether such a move exists.

    A move is accepted if the objective falls at least as much as it does along ``d`` to the first
    bound.

    step : the length along ``d`` to the first bound
    count : how many rows reach a bound along ``d``
    effect : float64 (m,), what the move subtracts from residuals, output
    """
    least_gain = (step - 0.5 * step * step) * full_gain
    batch = count
    # Rows in order of their times; those that reach no bound come last.
    first, last = own_slice(t, n_threads, f)
    n_blocked = 0
    for q in range(first, last):
        free.spare[q] = f
        if times[q] < 1.0:
            n_blocked += 1
    at, _ = share_counts(t, n_threads, n_blocked, parts.counts)
    for q in range(first, last):
        if times[q] < 1.0:
            free.move[at], free.pinned[at] = times[q], float(q)
            at += 1
    barrier()  # all are listed
    for c in range(t, count, n_threads):
        free.spare[int(free.pinned[c])] = rank_of(free.move[c], c, count, free.move)
    barrier()  # each row's rank is there, and the lists are read
    while batch >= LEAST_BATCH:
        next_time = np.inf
        for q in range(t, f, n_threads):
            free.pinned[q] = 0.0
            if free.spare[q] >= batch:
                next_time = min(next_time, times[q])
            elif free.d[q] > 0.0:
                free.pinned[q] = 1.0
            else:
                free.pinned[q] = -1.0
        next_time, _ = block_top(t, n_threads, -next_time, np.int32(0), parts.tops, parts.places)
        if _spread(t, n_threads, f, min(-next_time, 1.0), near, free, parts):
            _product(t, n_threads, m, f, matrix, free, effect)
            fallen = 0.0
            for q in range(t, f, n_threads):
                k, move = free.rows[q], free.move[q]
                fallen += (near.residual[k] - 0.5 * (effect[k] + ridge * move)) * move
            if block_sum(t, n_threads, fallen, parts.tops) >= least_gain:
                return True
        batch //= 2
    return False


@device
def _take_step(t, n_threads, m, f, near, free, effect, parts):
    """Carry out ``free.move`` and its effect; returns the largest move of a member.

    Where ``free.pinned`` is not 0 a member is set to its bound exactly, as it is compared with it
    later.
    """
    farthest = 0.0
    for q in range(t, f, n_threads):
        k = free.rows[q]
        bound, old = near.bounds[k], near.beta[k]
        fall, rise = smaller(bound, 0.0), larger(bound, 0.0)
        new = smaller(larger(old + free.move[q], fall), rise)
        if free.pinned[q] > 0.0:
            new = rise
        elif free.pinned[q] < 0.0:
            new = fall
        near.beta[k], near.marks[k] = new, mark_of(new, bound)
        farthest = max(farthest, abs(new - old))
    for p in range(t, m, n_threads):
        near.residual[p] -= effect[p]
    farthest, _ = block_top(t, n_threads, farthest, np.int32(0), parts.tops, parts.places)
    return farthest  # ``block_top`` has barriers: all is written


@device
def _extremes(t, n_threads, m, near, parts):
    """The largest residual of members that may rise, the smallest that may fall, and which."""
    top, i, low, j = -np.inf, np.int32(0), np.inf, np.int32(0)
    for p in range(t, m, n_threads):
        r, mark = near.residual[p], near.marks[p]
        if mark & RISE != 0 and r > top:
            top, i = r, np.int32(p)
        if mark & FALL != 0 and r < low:
            low, j = r, np.int32(p)
    top, i = block_top(t, n_threads, top, i, parts.tops, parts.places)
    low, j = block_top(t, n_threads, -low, j, parts.tops, parts.places)
    return top, i, -low, j


@device
def _largest(t, n_threads, m, near, matrix, parts):
    """The widest range of a multiplier, and the largest kernel value of a member with itself."""
    span, value = 0.0, 0.0
    for p in range(t, m, n_threads):
        span = max(span, abs(near.bounds[p]))
        value = max(value, abs(matrix[p, p]))
    span, _ = block_top(t, n_threads, span, np.int32(0), parts.tops, parts.places)
    value, _ = block_top(t, n_threads, value, np.int32(0), parts.tops, parts.places)
    return span, value


@device
def solve_active(
    t, n_threads, m, near, matrix, shift, tol, finest, limit, free, keys, effect, saved_state, parts
):
    """Take Newton steps until LIBSVM's stopping rule holds among m members; a few in each call.

    Parameters
    ----------
    t, n_threads : int
        This thread's number, and how many the block has.
    near : Near
        No thread may write to it before the first barrier.
    matrix, shift : see above
    tol : float
        Tolerance of this solve.
    finest : float
        Tolerance of the problem, which later solves have to meet.
    limit : int
        The most steps.
    free : Free, with room for at least m members
    keys, effect : float64 (>= m,)
        Work space.
    saved_state : float64 (``KEPT``,)
        In device memory, below 0 at first. After ``UNFINISHED``, a call with this, ``near`` and
        ``free`` unchanged continues as if there had been no interruption.
    parts : Parts
        ``chunk_factors`` is also overwritten.

    Returns
    -------
    steps, status : int
        The same in every thread. The status is ``CONVERGED``, ``ITERATION_LIMIT``,
        ``UNFINISHED``, or ``STALLED``: steps no longer move anything.
    """
    span, value = _largest(t, n_threads, m, near, matrix, parts)
    ridge = max(RIDGE_FRACTION * finest / span, RESOLVED64 * max(value, 1.0))
    steps, f, first, batch, idle = (
        0,
        int(saved_state[0]),
        int(saved_state[1]),
        int(saved_state[2]),
        int(saved_state[3]),
    )
    follows = saved_state[4] > 0.0  # the factor and its sides have followed the last step
    if f < 0:
        f, first, batch, idle = list_free(t, n_threads, m, near, free, keys, parts), 0, 1, 0
        follows = False
    while True:
        if steps >= STEPS_AT_ONCE:
            barrier()  # all have read the saved state
            if t == 0:
                saved_state[0], saved_state[1], saved_state[2], saved_state[3] = (
                    f,
                    first,
                    batch,
                    idle,
                )
                saved_state[4] = 1.0 if follows else 0.0
            return steps, UNFINISHED
        level = 0.0
        if f >= 2:
            if not follows:
                extend(
                    t, n_threads, first, f, near, matrix, shift, ridge, free, parts.chunk_factors
                )
            level, full_gain = directions(t, n_threads, f, free, parts)
            if not full_gain < np.inf:  # the kernel is not finite
                return steps, STALLED
            step, at, count = _times(t, n_threads, f, near, free, keys, parts)
            pins_many = False
            if step < 1.0:
                pins_many = _pin_many(
                    t,
                    n_threads,
                    m,
                    f,
                    step,
                    count,
                    full_gain,
                    ridge,
                    near,
                    matrix,
                    free,
                    keys,
                    effect,
                    parts,
                )
            if not pins_many:
                for q in range(t, f, n_threads):
                    free.move[q], free.pinned[q] = step * free.d[q], 0.0
                    if step < 1.0 and q == at:
                        free.pinned[q] = free.d[q]
                barrier()  # moves are read by threads other than their writers
                _product(t, n_threads, m, f, matrix, free, effect)
            moved = _take_step(t, n_threads, m, f, near, free, effect, parts)
            steps += 1
            if moved <= LEAST_MOVE * span:
                idle += 1
            else:
                idle = 0
            follows = step < 1.0 and idle == 0  # an idle step may be due to rounding in the factor
            if follows and pins_many:
                _follow_move(t, n_threads, f, free)
            elif follows:
                _follow_step(t, n_threads, f, step, level, free)
            f = drop_bounded(t, n_threads, f, near, free, parts)
            first = f if idle == 0 else 0
            if step < 1.0 and idle <= MOST_IDLE_STEPS and steps < limit:
                # A row that was just set free blocks the step: next time fewer are set free.
                if idle > 0:
                    batch = 0
                continue
        follows = False
        top, i, low, j = _extremes(t, n_threads, m, near, parts)
        if not (top - low >= tol):
            return steps, CONVERGED
        if idle > MOST_IDLE_STEPS:
            return steps, STALLED
        if steps >= limit:
            return steps, ITERATION_LIMIT
        if f == 0:  # the worst pair
            if t == 0:
                free.rows[0], free.rows[1] = i, j
            barrier()  # they are there
            f, first = 2, 0
            continue
        batch = min(2 * batch, 1 + int(ADDED_FRACTION * f)) if batch > 0 else 1
        if f == 1:  # no factor was computed, and the level is not known from a step
            level, first, batch = near.residual[free.rows[0]], 0, 1
        first = min(first, f)
        n_free = add_violating(
            t, n_threads, m, f, batch, level, VIOLATION_FRACTION * tol, near, free, keys, parts
        )
        if n_free == f:
            idle += 1
        f = n_free
