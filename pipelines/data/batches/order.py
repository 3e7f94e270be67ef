"""The order in which an epoch visits the rows, and the rows of each rank: pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Permutation = NDArray[np.int64]


def generator_of(seed: int, epoch: int) -> np.random.Generator:
    """Return the random generator of an epoch, which depends on these two numbers alone."""
    return np.random.default_rng(np.random.SeedSequence([seed, epoch]))


def shuffled(n_rows: int, generator: np.random.Generator) -> Permutation:
    """Return a uniformly random permutation of all rows."""
    return generator.permutation(n_rows).astype(np.int64, copy=False)


def buffered_shuffle(
    sizes: Sequence[int], n_together: int, generator: np.random.Generator
) -> Iterator[Permutation]:
    """Yield a shuffle of a file that is read group by group, through a buffer that stays full.

    The first ``n_together`` row groups fill the buffer. For each that follows, as many rows as it
    has are drawn from the buffer, and it takes their places. At the end what is left comes in
    random order. That is less than a full shuffle, and the same for any number of readers.

    Parameters
    ----------
    sizes : rows of each group, in the order in which they are read, which is random
    n_together : groups in the buffer

    Yields
    ------
    Of each group the places in the buffer whose rows come now, in this order, and are taken by its
    own; those of its rows that are more follow at the buffer's end. Then what is left.
    """
    n_held = 0
    for i, size in enumerate(sizes):
        n_drawn = 0 if i < n_together else min(size, n_held)
        yield generator.choice(n_held, n_drawn, replace=False).astype(np.int64)
        n_held += size - n_drawn
    yield generator.permutation(n_held).astype(np.int64, copy=False)


def buffer_size(sizes: Sequence[int], n_together: int) -> int:
    """Rows in the buffer of ``buffered_shuffle`` at the most."""
    n_held = sum(sizes[:n_together])
    for size in sizes[n_together:]:
        n_held = max(n_held, size)
    return n_held


def share(n_rows: int, rank: int, n_ranks: int) -> slice:
    """Return the rows of a union batch that are a rank's: parts differ by one row at the most."""
    return slice(n_rows * rank // n_ranks, n_rows * (rank + 1) // n_ranks)
