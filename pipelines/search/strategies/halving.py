"""Successive halving: all candidates on few rows, then the best third on three times as many rows.

The numbers of candidates and rows are those of scikit-learn's
``HalvingGridSearchCV(factor=3, min_resources="exhaust")``, except that the last round has all rows.

References
----------
Jamieson and Talwalkar, Non-stochastic best arm identification and hyperparameter optimization,
AISTATS 2016.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from pipelines.search.strategies.base import WHOLE, Request, RoundStrategy, Scope, Stop

FACTOR = 3  # each round has this many times the rows, and keeps one in this many candidates
LEAST_ROWS = 20  # in the first round, per split; scikit-learn's minimum is two per class


class Halving(RoundStrategy):
    """Rounds on growing fractions of the rows, each with the best third of the candidates.

    In a round a candidate is tried on all splits. One with a failed fit ranks behind all others.

    Parameters
    ----------
    scope : Scope

    Attributes
    ----------
    alive : list of int
        Candidates that have not been given up, best first after the first round.
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.alive = scope.candidates
        self._fraction, self._next_fraction = WHOLE, WHOLE  # of the current round and the next

    @classmethod
    def fractions(cls, n_candidates: int, n_rows: int, n_splits: int) -> Sequence[float]:
        """See ``Strategy.fractions``; ascending.

        Enough rounds are used that at most ``FACTOR`` candidates are left for all rows, unless the
        first round would then have fewer than ``LEAST_ROWS`` rows per split.
        """
        n_wanted = _power(n_candidates)
        n_possible = _power(n_rows / (LEAST_ROWS * n_splits))
        return [FACTOR**-i for i in range(min(n_wanted, n_possible), 0, -1)]

    def rounds(self) -> Iterator[Sequence[Request]]:
        """See ``RoundStrategy``; a round for each fraction, the last with all rows."""
        scope = self.scope
        fractions = [*self.fractions(len(scope.candidates), scope.n_rows, scope.n_splits), WHOLE]
        for self._fraction, self._next_fraction in zip(
            fractions, [*fractions[1:], WHOLE], strict=True
        ):
            yield self._requests(self.alive, self._fraction)
            if self._fraction < WHOLE:
                self._give_up(self._fraction)

    def ahead(self) -> Sequence[Request]:
        """The next round for the best third of the candidates that have finished this one.

        Asynchronous halving does the same, but keeps to that choice; here the round is decided by
        all candidates.

        References
        ----------
        Li et al., A system for massively parallel hyperparameter tuning, MLSys 2020.
        """
        if self._fraction == WHOLE:
            return ()
        splits = self.scope.splits
        ready = [i for i in self.alive if all((i, n, self._fraction) in self.rows for n in splits)]
        best = self._rank(ready, self._fraction)[: len(ready) // FACTOR]
        return self._requests(best, self._next_fraction)

    def _requests(self, candidates: Sequence[int], fraction: float) -> list[Request]:
        """A request for each group with some of these candidates, in the order of the best ones."""
        ranks = {candidate: rank for rank, candidate in enumerate(candidates)}
        groups = [tuple(i for i in group if i in ranks) for group in self.scope.groups]
        groups = sorted(filter(None, groups), key=lambda group: min(ranks[i] for i in group))
        return [Request(group, self.scope.splits, fraction) for group in groups]

    def _mean(self, candidate: int, fraction: float) -> float:
        """The mean score of a candidate on all splits at a fraction; NaN if a fit failed."""
        scores = [self.score(candidate, split, fraction) for split in self.scope.splits]
        return math.nan if None in scores else float(np.mean([score or 0.0 for score in scores]))

    def _rank(self, candidates: Sequence[int], fraction: float) -> list[int]:
        """Candidates, best first; ties by number, failed candidates last."""
        means = {i: self._mean(i, fraction) for i in candidates}
        return sorted(candidates, key=lambda i: (math.isnan(means[i]), -means[i], i))

    def _give_up(self, fraction: float) -> None:
        """Keep the best third of the candidates, and note the others as stopped."""
        ranked = self._rank(self.alive, fraction)
        n_kept, best = math.ceil(len(ranked) / FACTOR), self._mean(ranked[0], fraction)
        for i in ranked[n_kept:]:
            behind = best - self._mean(i, fraction)
            self.stopped[i] = Stop(
                self.scope.n_splits, fraction, None if math.isnan(behind) else behind
            )
        self.alive = ranked[:n_kept]  # the best is tried first, as a time budget may end the search


def _power(number: float) -> int:
    """How often a number can be divided by ``FACTOR`` before it is less than ``FACTOR``."""
    power = 0
    while number >= FACTOR:
        number, power = number / FACTOR, power + 1
    return power
