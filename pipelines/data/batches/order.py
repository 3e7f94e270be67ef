"""In which order an epoch shows the rows, and which of them a rank gets: pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Order = NDArray[np.int64]


def generator_of(seed: int, epoch: int) -> np.random.Generator:
    """What shuffles an epoch: it knows nothing but these two numbers."""
    return np.random.default_rng(np.random.SeedSequence([seed, epoch]))


def shuffled(n_rows: int, generator: np.random.Generator) -> Order:
    """All rows, each place of each row equally likely."""
    return generator.permutation(n_rows).astype(np.int64, copy=False)


def shuffled_in_groups(
    bounds: Sequence[int], n_together: int, generator: np.random.Generator
) -> Order:
    """All rows of a file, so that it can be read group by group.

    Row groups are put in random order; the rows of every ``n_together`` successive ones are
    shuffled with each other. That is a shuffle through a buffer which is emptied before it is
    filled anew: less than a full one, and the same for any number of readers.

    Parameters
    ----------
    bounds : the first row of each group, and the number of rows; of length n_groups + 1
    n_together : groups in the buffer
    """
    groups = generator.permutation(len(bounds) - 1)
    pieces = []
    for first in range(0, len(groups), n_together):
        window = groups[first : first + n_together]
        rows = np.concatenate([np.arange(bounds[g], bounds[g + 1]) for g in window])
        pieces.append(generator.permutation(rows))
    return np.concatenate(pieces).astype(np.int64, copy=False) if pieces else np.empty(0, np.int64)


def share(n_rows: int, rank: int, n_ranks: int) -> slice:
    """The rows of a union batch that are a rank's: parts differ by one row at the most."""
    return slice(n_rows * rank // n_ranks, n_rows * (rank + 1) // n_ranks)
