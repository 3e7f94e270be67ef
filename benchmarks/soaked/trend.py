"""Whether something grows with the units that are done: a slope, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WARM_UP = 0.2  # of the units: imports, compilation, and first arrays are in
BLOCKS = 20  # means of neighbours, since what follows at once is no new evidence
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Trend:
    """A slope for each unit with the ends of its interval, and the level it starts from."""

    slope: float
    low: float
    high: float
    level: float

    def is_flat(self, limit: float) -> bool:
        """Whether it is sure that it grows by less than ``limit`` for each unit."""
        return self.high < limit


def trend(units: Sequence[int], values: Sequence[float | None]) -> Trend:
    """The trend of what was measured after so many units.

    A line by least squares through the means of 20 blocks of equal numbers of looks, with
    Student's interval for its slope.

    Raises
    ------
    ValueError
        There are too few looks to tell.
    """
    from scipy import stats

    pairs = [(n, value) for n, value in zip(units, values, strict=True) if value is not None]
    x, y = np.array(pairs, float).reshape(-1, 2).T
    late = x >= WARM_UP * (x.max() if len(x) else 0)
    n_blocks = min(BLOCKS, int(late.sum()) // 2)
    if n_blocks < 4 or x[late].min() == x[late].max():
        raise ValueError(f"a trend needs at least 8 looks at a run that goes on, got {late.sum()}")
    x = np.array([part.mean() for part in np.array_split(x[late], n_blocks)])
    y = np.array([part.mean() for part in np.array_split(y[late], n_blocks)])
    far = x - x.mean()
    slope = float(far @ y / (far @ far))
    missed = y - y.mean() - slope * far
    error = float(np.sqrt(missed @ missed / (n_blocks - 2) / (far @ far)))
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, n_blocks - 2)) * error
    return Trend(slope, slope - reach, slope + reach, float(y.mean() + slope * far[0]))
