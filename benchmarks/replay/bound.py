"""What no schedule can beat."""

from __future__ import annotations

import numpy as np

from pipelines.run.schedule import Seconds, WorkerLifetimes


def lower_bound(seconds: Seconds, lifetimes: WorkerLifetimes) -> float:
    """Seconds that tasks take at the least on workers that are there from first to last.

    The largest of total / W, the longest task, and for k W + 1 tasks or more the sum of the k + 1
    smallest of the k W + 1 longest: some worker has k + 1 of these (Graham 1969). Where cards
    differ in speed: the total by all of them, and the longest on the fastest.
    """
    n_workers = len(lifetimes.speed)
    best = max(seconds.sum() / lifetimes.speed.sum(), seconds.max() / lifetimes.speed.max())
    if (lifetimes.speed == 1).all():
        longest = -np.sort(-seconds)
        before = np.concatenate(([0.0], np.cumsum(longest)))
        for k in range(1, (len(seconds) - 1) // n_workers + 1):
            end = k * n_workers + 1
            best = max(best, before[end] - before[end - k - 1])
    return float(best)
