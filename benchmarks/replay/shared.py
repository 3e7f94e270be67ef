"""Workers that compute on fewer cores than there are of them."""

from __future__ import annotations

import numpy as np

from pipelines.run.schedule import Lives, Queue, Seconds, course


def speeds(n_workers: int, n_cores: int, when_full: float) -> Seconds:
    """How fast each worker computes while 0, 1, ... ``n_workers`` of them do.

    Parameters
    ----------
    n_cores : they share these evenly
    when_full : of one of as many as there are cores; cores may share a cache, or be two of one

    Returns
    -------
    of shape (n_workers + 1,), 1 for one that computes alone
    """
    busy = np.arange(1, n_workers + 1)
    on_cores = np.minimum(busy, n_cores)
    share = (on_cores - 1) / max(1, n_cores - 1)
    return np.concatenate([[1.0], (1 + share * (when_full - 1)) * on_cores / busy])


def makespan_on_cores(queue: Queue, speed: Seconds) -> float:
    """Seconds to the end of the last unit where workers slow each other down.

    All that are busy are equally fast at any time, so units end in the order in which they
    would on cores of their own; only the clock runs slower the more of them are busy.

    Parameters
    ----------
    queue : units, with the seconds that each takes alone
    speed : see ``speeds``
    """
    begins, ends = course(queue, Lives.equal(len(speed) - 1))
    moments = np.unique(np.concatenate([[0.0], begins, ends]))
    middle = (moments[1:] + moments[:-1]) / 2
    busy = np.searchsorted(np.sort(begins), middle) - np.searchsorted(np.sort(ends), middle)
    return float((np.diff(moments) / speed[busy]).sum())
