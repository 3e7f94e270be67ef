"""Every candidate on every split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.search.strategies.base import Request, RoundStrategy


class Grid(RoundStrategy):
    """Every candidate on every split, all in one request.

    Coarse values come first, so that a search that ends early has tried a coarse grid and not a
    corner of a fine one.
    """

    decides = False

    def rounds(self) -> Iterator[Sequence[Request]]:
        """See ``RoundStrategy``; a single round."""
        scope, levels = self.scope, halving_levels(self.scope.parameters)
        # A group is one task, so it comes as early as its coarsest candidate.
        groups = sorted(scope.groups, key=lambda group: min(levels.get(i, 0) for i in group))
        yield [Request(tuple(group), scope.splits) for group in groups]


def halving_levels(parameters: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """How often a grid has to be halved until it contains a candidate, by the candidate's number.

    On an axis of seven values the middle one has level 0, the second and sixth have level 1, and
    the others level 2. A candidate has the largest level of its values.

    Parameters
    ----------
    parameters : sequence of dict
        Parameters of each candidate. The values of an axis are in the order in which they first
        occur.

    Examples
    --------
    >>> halving_levels([{"C": C} for C in (1, 2, 4, 8, 16, 32, 64)])
    {0: 2, 1: 1, 2: 2, 3: 0, 4: 2, 5: 1, 6: 2}
    """
    axes: dict[str, dict[str, int]] = {}
    for candidate in parameters:
        for name, value in candidate.items():
            values = axes.setdefault(name, {})
            values.setdefault(repr(value), len(values))
    levels = {name: _levels_of_axis(len(values)) for name, values in axes.items()}
    return {
        number: max(
            (levels[name][axes[name][repr(value)]] for name, value in candidate.items()), default=0
        )
        for number, candidate in enumerate(parameters)
    }


def _levels_of_axis(n: int) -> list[int]:
    """The level of each of n values on an axis, in order."""
    levels, spans, level = [0] * n, [(0, n)], 0
    while spans:
        middles = [(low, (low + high) // 2, high) for low, high in spans]
        for _, middle, _ in middles:
            levels[middle] = level
        halves = [half for low, mid, high in middles for half in ((low, mid), (mid + 1, high))]
        spans, level = [(low, high) for low, high in halves if low < high], level + 1
    return levels
