"""The longest units cut into parts, where workers would else idle at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pipelines.run.outcomes import AnyUnit
from pipelines.run.pace import queue_of
from pipelines.run.schedule import Lives, makespan

UNITS_A_WORKER = 20  # from which the end is even without
LEAST_GAIN = 0.02  # of the time of all; a part repeats what the whole would have done but once


def cut_for(
    units: Sequence[AnyUnit], n_workers: int, parts_of: Callable[[AnyUnit], Sequence[AnyUnit]]
) -> list[AnyUnit]:
    """Units of which the longest are cut, as many as make an end on so many workers earliest.

    By the predicted costs: none, one, two, four of them and so on are cut, and each way is
    replayed.

    Parameters
    ----------
    units : that need no others
    parts_of : the parts of a unit with their costs, together more than its own; itself, where it
        cannot be cut
    """
    best = list(units)
    if n_workers == 1 or len(best) >= UNITS_A_WORKER * n_workers:
        return best
    longest = sorted(units, key=lambda unit: -unit.cost)
    least, n = _end(best, n_workers), 0
    while n < len(longest):
        n = min(2 * n or 1, len(longest))
        cut = [part for unit in longest[:n] for part in parts_of(unit)] + longest[n:]
        end = _end(cut, n_workers)
        if end < (1 - LEAST_GAIN) * least:
            best, least = cut, end
    return best


def _end(units: Sequence[AnyUnit], n_workers: int) -> float:
    costs = np.array([unit.cost for unit in units])
    return makespan(queue_of(units, costs), Lives.equal(n_workers))
