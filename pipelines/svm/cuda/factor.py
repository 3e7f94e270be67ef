"""The Cholesky factor of the free members' kernel, made by all threads of a block.

As ``pipelines.svm.cpu.newton`` but for what changes a factor: rows from some place on are
made anew, where the CPU turns and appends them.  Everywhere:

matrix : float64, the members' kernel, see ``exact``; ``shift`` is added to its values,
    ``ridge`` to its diagonal
f : how many members are free; their numbers are the first of ``free.rows``
free : Free.  ``factor``: below the diagonal the factor's values, on it their reciprocals; the
    two rows after the last solve ``factor @ side = right`` for right sides of ones and of
    the residuals: they are made like the factor's own rows

A warp makes a row, four columns at a time (a panel): its lanes share the inner products.
"""

import math

import numpy as np

from pipelines.svm.cuda.block_threads import WARP, barrier, block_sum, device, larger, sum_of

# Columns that are made together.
PANEL = 4

# Rows of the factor's array beyond those of members: the two sides, and four vectors.
EXTRA_ROWS = 6


@device
def _shared_with(lane, j, f, p, factor):
    """Return inner products of row p with the four rows of the panel at j, before the panel."""
    last = np.int32(f - 1)
    row = factor[np.uint32(p)]
    one, two = factor[np.uint32(j)], factor[np.uint32(min(j + 1, last))]
    three, four = factor[np.uint32(min(j + 2, last))], factor[np.uint32(min(j + 3, last))]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for k in range(lane, j, WARP):
        at = np.uint32(k)
        value = row[at]
        a += value * one[at]
        b += value * two[at]
        c += value * three[at]
        d += value * four[at]
    return sum_of(a, WARP), sum_of(b, WARP), sum_of(c, WARP), sum_of(d, WARP)


@device
def _right(p, q, f, near, matrix, shift, ridge, free):
    """Return entry (p, q) of the matrix to factorise, or of a right-hand side."""
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
    """Return the Cholesky factor of four rows and columns, in place; by one thread.

    A pivot is no less than the ridge: rows that depend on others to the kernel's rounding
    take no step of their own.

    width : rows that there are, the others are made the identity's
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
    """Make the factor's rows from ``first`` on, and both sides.

    first : rows before it are kept
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
            barrier()  # and are the factor's
        for q in range(t, PANEL * PANEL, n_threads):
            r, e = q // PANEL, q % PANEL
            if e <= r and r < width:
                if j >= first:
                    factor[j + r, j + e] = tile[q]
                else:
                    tile[q] = factor[j + r, j + e]
        if j < first:
            barrier()  # the panel that was kept is there
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
        barrier()  # other lanes and warps read these columns; the tile is made anew


@device
def directions(t, n_threads, f, free, parts):
    """Fill ``free.d``, along which residuals become equal, and ``free.v``, which takes up sums.

    ``(K + ridge) d = residual - level`` and ``(K + ridge) v = 1``; d sums to 0.  Both sides are
    overwritten.

    Returns, the same in every thread
    -------
    level : the intercept at which residuals meet
    wished : twice by how much the objective falls along all of d
    """
    factor = free.factor
    ones, forward = factor[f], factor[f + 1]
    both, own = 0.0, 0.0
    for p in range(t, f, n_threads):
        both += ones[p] * forward[p]
        own += ones[p] * ones[p]
    both = block_sum(t, n_threads, both, parts.tops)
    level = both / block_sum(t, n_threads, own, parts.tops)
    wished = 0.0
    for p in range(t, f, n_threads):
        value = forward[p] - level * ones[p]
        forward[p] = value
        wished += value * value
    wished = block_sum(t, n_threads, wished, parts.tops)  # has a barrier: all is written
    for column in range(f):
        j = f - 1 - column
        row, pivot = factor[j], factor[j, j]
        d, v = forward[j] * pivot, ones[j] * pivot
        for p in range(t, j, n_threads):
            forward[p] -= row[p] * d
            ones[p] -= row[p] * v
        if t == 0:
            free.d[j], free.v[j] = d, v
        barrier()  # the next column's sides are done
    return level, wished
