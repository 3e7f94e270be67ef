"""Keep the list of free rows: drop those that meet a bound, add those that violate.

By all threads of a block; each has a contiguous share of what is listed, so that the lists
are the same for every number of threads.
"""

import numpy as np

from pipelines.svm.cuda.block_threads import (
    NOWHERE,
    barrier,
    block_top,
    device,
    larger,
    share_counts,
    smaller,
)
from pipelines.svm.cuda.inner import FALL, RISE


@device
def is_free(mark):
    """Return whether a row may rise and fall."""
    return mark == RISE | FALL


@device
def rank_of(value, at, n, values):
    """Count the values that sort before number ``at``; ties sort by place."""
    rank = 0
    for q in range(n):
        if values[q] < value or (values[q] == value and q < at):
            rank += 1
    return rank


@device
def list_free(t, n_threads, m, near, free, keys, parts):
    """Fill ``free.rows`` with the free members, and return their number.

    Those next to a bound, the likely ones to be pinned, come last: then few rows of the
    factor change.

    keys : float64 (>= m,), overwritten
    """
    share = (m + n_threads - 1) // n_threads
    first = min(m, t * share)
    last = min(m, first + share)
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
    """Take out of ``free.rows`` those that have met a bound; the others keep their order.

    Returns how many are left, and up to which place nothing changed.
    """
    share = (f + n_threads - 1) // n_threads
    first = min(f, t * share)
    last = min(f, first + share)
    count, changed = 0, np.int32(NOWHERE)
    for p in range(last - 1, first - 1, -1):
        if is_free(near.marks[free.rows[p]]):
            count += 1
        else:
            changed = np.int32(p)
    at, left = share_counts(t, n_threads, count, parts.counts)
    for p in range(first, last):
        if is_free(near.marks[free.rows[p]]):
            free.spare[at] = free.rows[p]
            at += 1
    _, changed = block_top(t, n_threads, -float(changed), changed, parts.tops, parts.places)
    for p in range(t, left, n_threads):  # ``block_top`` has barriers: all are listed
        free.rows[p] = free.spare[p]
    barrier()  # they are read by others than their writers
    return left, min(left, changed)


@device
def add_violating(t, n_threads, m, f, most, level, least, near, free, keys, parts):
    """Put behind the f free rows those at a bound that violate by more than ``least``.

    Of more than ``most`` the worst.

    keys : float64 (>= m,), overwritten

    Returns how many are free then.
    """
    share = (m + n_threads - 1) // n_threads
    first = min(m, t * share)
    last = min(m, first + share)
    count = 0
    for p in range(first, last):
        if _violation(p, level, near) > least:
            count += 1
    at, found = share_counts(t, n_threads, count, parts.counts)
    for p in range(first, last):
        gap = _violation(p, level, near)
        if gap > least:
            free.spare[at], keys[at] = p, -gap
            at += 1
    barrier()  # all are listed
    for p in range(t, found, n_threads):
        rank = rank_of(keys[p], p, found, keys)
        if rank < most:
            free.rows[f + rank] = free.spare[p]
    barrier()  # they are read by others than their writers
    return f + min(found, most)


@device
def _violation(p, level, near):
    """Return by how much a row at a bound violates optimality."""
    mark = near.marks[p]
    if mark == RISE:
        return near.residual[p] - level
    if mark == FALL:
        return level - near.residual[p]
    return 0.0
