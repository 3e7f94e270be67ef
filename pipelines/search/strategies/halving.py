"""Successive halving: of all candidates on few rows the best third is tried on three times as many.

Jamieson and Talwalkar, Non-stochastic best arm identification and hyperparameter optimization
(AISTATS 2016). The numbers of candidates and rows are those of scikit-learn's
``HalvingGridSearchCV(factor=3, min_resources="exhaust")``, but for the rows, of which the last
round has all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from pipelines.search.strategies.base import WHOLE, Request, RoundStrategy, Scope, Stop

FACTOR = 3  # of rows from a round to the next; one of so many candidates goes on
# Of the first round, for each split; scikit-learn has two for each class.
LEAST_ROWS = 20


class Halving(RoundStrategy):
    """Rounds on growing shares of the rows, each of the best third of the candidates before.

    A candidate is tried on all splits of a share. One whose fit fails there is behind all others.

    Attributes
    ----------
    alive : candidates that have not been given up, in order
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.alive = scope.candidates
        self._fraction, self._next_fraction = WHOLE, WHOLE  # of the present round and the next

    @classmethod
    def fractions(cls, n_candidates: int, n_rows: int, n_splits: int) -> Sequence[float]:
        """See ``Strategy``; ascending.

        There are as many as leave at most ``FACTOR`` candidates for all rows, if the first has
        ``LEAST_ROWS`` for each split.
        """
        n_wanted = _power(n_candidates)
        n_possible = _power(n_rows / (LEAST_ROWS * n_splits))
        return [FACTOR**-i for i in range(min(n_wanted, n_possible), 0, -1)]

    def rounds(self) -> Iterator[Sequence[Request]]:
        scope = self.scope
        fractions = [*self.fractions(len(scope.candidates), scope.n_rows, scope.n_splits), WHOLE]
        for self._fraction, self._next_fraction in zip(
            fractions, [*fractions[1:], WHOLE], strict=True
        ):
            yield self._requests(self.alive, self._fraction)
            if self._fraction < WHOLE:
                self._give_up(self._fraction)

    def ahead(self) -> Sequence[Request]:
        """The next round of the best third of those that have all rows of this one.

        So does asynchronous halving (Li et al., MLSys 2020), which goes on with them.
        """
        if self._fraction == WHOLE:
            return ()
        splits = self.scope.splits
        ready = [i for i in self.alive if all((i, n, self._fraction) in self.rows for n in splits)]
        best = self._rank(ready, self._fraction)[: len(ready) // FACTOR]
        return self._requests(best, self._next_fraction)

    def _requests(self, candidates: Sequence[int], fraction: float) -> list[Request]:
        """A request for each group that has some of these candidates."""
        ranks = {candidate: rank for rank, candidate in enumerate(candidates)}
        groups = [tuple(i for i in group if i in ranks) for group in self.scope.groups]
        groups = sorted(filter(None, groups), key=lambda group: min(ranks[i] for i in group))
        return [Request(group, self.scope.splits, fraction) for group in groups]

    def _mean(self, candidate: int, fraction: float) -> float:
        """The mean score of a candidate on all splits of a share; NaN if a fit failed."""
        scores = [self.score(candidate, split, fraction) for split in self.scope.splits]
        return math.nan if None in scores else float(np.mean([score or 0.0 for score in scores]))

    def _rank(self, candidates: Sequence[int], fraction: float) -> list[int]:
        """Candidates, best first; of equals the first one, and failed ones last."""
        means = {i: self._mean(i, fraction) for i in candidates}
        return sorted(candidates, key=lambda i: (math.isnan(means[i]), -means[i], i))

    def _give_up(self, fraction: float) -> None:
        """Keep the best third."""
        ranked = self._rank(self.alive, fraction)
        n_kept, best = math.ceil(len(ranked) / FACTOR), self._mean(ranked[0], fraction)
        for i in ranked[n_kept:]:
            behind = best - self._mean(i, fraction)
            self.stopped[i] = Stop(
                self.scope.n_splits, fraction, None if math.isnan(behind) else behind
            )
        self.alive = ranked[:n_kept]  # the best is tried first, as time may end


def _power(number: float) -> int:
    """How often a number can be divided by ``FACTOR`` before it is below it."""
    power = 0
    while number >= FACTOR:
        number, power = number / FACTOR, power + 1
    return power
