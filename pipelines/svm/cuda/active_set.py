"""Newton's method on the free members of an inner solve, by all threads of a block.

The method and its numbers are those of ``pipelines.svm.cpu.newton``: all free members
move at once, to where their residuals are equal or some of them meet a bound; those are
pinned, and where none is met those that violate most are set free.  Here every step takes
its effect off all members' residuals at once, which is a product that all threads share,
and so the decrease of the objective is known from the step itself.
"""

import numpy as np

from pipelines.svm.cuda.block_threads import barrier, block_sum, block_top, device, larger, smaller
from pipelines.svm.cuda.factor import directions, extend
from pipelines.svm.cuda.free_rows import add_violating, drop_bounded, list_free, rank_of
from pipelines.svm.cuda.inner import FALL, RISE, mark_of
from pipelines.svm.rules import (
    ADDED_SHARE,
    LEAST_BATCH,
    LEAST_MOVE,
    MOST_IDLE_STEPS,
    MOST_TRIES,
    RESOLVED64,
    RIDGE_SHARE,
    VIOLATION_SHARE,
)
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED


@device
def _room(q, near, free):
    """Return how far the free row at place q may fall and rise."""
    k = free.rows[q]
    bound, beta = near.bounds[k], near.beta[k]
    return smaller(bound, 0.0) - beta, larger(bound, 0.0) - beta


@device
def _times(t, n_threads, f, near, free, times, parts):
    """Fill ``times`` with how far along ``free.d`` each row's bound lies.

    Returns the smallest, at most 1, its place, and how many are less than 1.
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
    """Return the kernel of m members with the free ones, times ``free.move``.

    The constant that ``matrix`` may lack falls away: moves sum to 0.
    """
    for p in range(t, m, n_threads):
        total = 0.0
        for q in range(f):
            total += matrix[np.uint32(free.rows[q]), np.uint32(p)] * free.move[q]
        out[p] = total
    barrier()  # it is read by others than its writers


@device
def _spread(t, n_threads, f, reach, near, free, parts):
    """Fill ``free.move``: ``reach`` of ``d``, pinned rows to their bounds, ``v`` takes up the sum.

    Rows whom ``v`` carries beyond their bounds are pinned, too.  Returns whether all are within.
    """
    for _ in range(MOST_TRIES):
        excess, others = 0.0, 0.0
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
                others += free.v[q]
        excess = block_sum(t, n_threads, excess, parts.tops)
        others = block_sum(t, n_threads, others, parts.tops)
        if others == 0.0:
            return False
        beyond, share = 0.0, -excess / others
        for q in range(t, f, n_threads):
            if free.pinned[q] == 0.0:
                fall, rise = _room(q, near, free)
                move = reach * free.d[q] + share * free.v[q]
                free.move[q] = move
                if move > rise:
                    free.pinned[q] = 1.0
                    beyond += 1.0
                elif move < fall:
                    free.pinned[q] = -1.0
                    beyond += 1.0
        if block_sum(t, n_threads, beyond, parts.tops) == 0.0:
            return True
    return False


@device
def _pin_many(
    t, n_threads, m, f, step, count, wished, ridge, near, matrix, free, times, effect, parts
):
    """Fill ``free.move``, which puts many rows at their bounds at once; whether there is one.

    It is taken if the objective falls by no less than along ``d`` to the first bound.

    step : along ``d`` to the first bound; count : rows whose bounds ``d`` meets
    effect : float64 (m,), what the move takes off residuals, output
    """
    enough = (step - 0.5 * step * step) * wished
    batch = count
    for q in range(t, f, n_threads):
        free.spare[q] = rank_of(times[q], q, f, times)
    while batch >= LEAST_BATCH:
        following = np.inf
        for q in range(t, f, n_threads):
            free.pinned[q] = 0.0
            if free.spare[q] >= batch:
                following = min(following, times[q])
            elif free.d[q] > 0.0:
                free.pinned[q] = 1.0
            else:
                free.pinned[q] = -1.0
        following, _ = block_top(t, n_threads, -following, np.int32(0), parts.tops, parts.places)
        if _spread(t, n_threads, f, min(-following, 1.0), near, free, parts):
            _product(t, n_threads, m, f, matrix, free, effect)
            fallen = 0.0
            for q in range(t, f, n_threads):
                k, move = free.rows[q], free.move[q]
                fallen += (near.residual[k] - 0.5 * (effect[k] + ridge * move)) * move
            if block_sum(t, n_threads, fallen, parts.tops) >= enough:
                return True
        batch //= 2
    return False


@device
def _take_step(t, n_threads, m, f, near, free, effect, parts):
    """Carry out ``free.move`` and its effect; returns the farthest that a member moved.

    Where ``free.pinned`` is not 0 a member is put at its bound exactly, so that later tests
    for equality hold.
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
    """Return the largest residual that may rise, the smallest that may fall, and their members."""
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
    """Return the widest range of a member, and the largest value of its kernel with itself."""
    span, value = 0.0, 0.0
    for p in range(t, m, n_threads):
        span = max(span, abs(near.bounds[p]))
        value = max(value, abs(matrix[p, p]))
    span, _ = block_top(t, n_threads, span, np.int32(0), parts.tops, parts.places)
    value, _ = block_top(t, n_threads, value, np.int32(0), parts.tops, parts.places)
    return span, value


@device
def solve_active(
    t, n_threads, m, near, matrix, shift, tol, finest, limit, free, keys, effect, parts
):
    """Take Newton steps until LIBSVM's stopping rule holds among m members.

    Parameters
    ----------
    t, n_threads : this thread's number, and how many the block has
    near : Near; all threads have left it as it is
    matrix : float64, see ``exact``; ``shift`` is added to its values
    finest : the tolerance that will be asked for in the end
    limit : of steps
    free : Free, of at least m members
    keys, effect : float64 (>= m,), work space
    parts : Parts; ``chunk_factors`` is overwritten, too

    Returns, the same in every thread
    -------
    steps, status : ``CONVERGED``, ``ITERATION_LIMIT`` or ``STALLED``: steps no longer move
        anything
    visited : float32 values read, a float64 of the factor as two
    """
    span, value = _largest(t, n_threads, m, near, matrix, parts)
    ridge = max(RIDGE_SHARE * finest / span, RESOLVED64 * max(value, 1.0))
    steps, idle, batch, visited, first = 0, 0, 1, 0, 0
    f = list_free(t, n_threads, m, near, free, keys, parts)
    while True:
        level = 0.0
        if f >= 2:
            extend(t, n_threads, first, f, near, matrix, shift, ridge, free, parts.chunk_factors)
            visited += (f + 2 - first) * f * f + m * f
            level, wished = directions(t, n_threads, f, free, parts)
            if not wished < np.inf:  # the kernel is not finite
                return steps, STALLED, visited
            step, at, count = _times(t, n_threads, f, near, free, keys, parts)
            many = False
            if step < 1.0:
                many = _pin_many(
                    t, n_threads, m, f, step, count, wished, ridge, near, matrix, free, keys,
                    effect, parts,
                )  # fmt: skip
            if not many:
                for q in range(t, f, n_threads):
                    free.move[q], free.pinned[q] = step * free.d[q], 0.0
                    if step < 1.0 and q == at:
                        free.pinned[q] = free.d[q]
                barrier()  # moves are read by others than their writers
                _product(t, n_threads, m, f, matrix, free, effect)
            moved = _take_step(t, n_threads, m, f, near, free, effect, parts)
            steps += 1
            if moved <= LEAST_MOVE * span:
                idle += 1
            else:
                idle = 0
            f, first = drop_bounded(t, n_threads, f, near, free, parts)
            if step < 1.0 and idle <= MOST_IDLE_STEPS and steps < limit:
                # A row that was set free and may not move: fewer at once are safer.
                if idle > 0:
                    batch = 0
                continue
        top, i, low, j = _extremes(t, n_threads, m, near, parts)
        if not (top - low >= tol):
            return steps, CONVERGED, visited
        if idle > MOST_IDLE_STEPS:
            return steps, STALLED, visited
        if steps >= limit:
            return steps, ITERATION_LIMIT, visited
        if f == 0:  # the worst pair
            if t == 0:
                free.rows[0], free.rows[1] = i, j
            barrier()  # they are there
            f, first = 2, 0
            continue
        batch = min(2 * batch, 1 + int(ADDED_SHARE * f)) if batch > 0 else 1
        if f == 1:  # there is no factor, and no step has told the level
            level, first, batch = near.residual[free.rows[0]], 0, 1
        first = min(first, f)
        more = add_violating(
            t, n_threads, m, f, batch, level, VIOLATION_SHARE * tol, near, free, keys, parts
        )
        if more == f:
            idle += 1
        f = more
