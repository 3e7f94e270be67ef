"""Racing: candidates that are clearly behind the best are given up before they have all splits.

Differences to the best are paired, split by split.

References
----------
Maron and Moore, Hoeffding races: accelerating model selection search for classification and
function approximation, NIPS 6, 1994.

Kuhn, Futility analysis in the cross-validation of machine learning models, arXiv:1405.6974, 2014.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from pipelines.search.strategies.base import WHOLE, Request, RoundStrategy, Scope, Stop
from pipelines.search.strategies.grid import halving_levels

MARGIN = 3.0  # standard errors
FIRST_SPLITS = 2  # before anything is given up: a standard deviation needs two
# Where splits share work, each further round repeats that work. There a screen comes first: all
# groups on some splits of a fraction of the rows. A third of the rows has a ninth of the kernel.
SCREEN = 1 / 3
SCREEN_SPLITS = 3
LEAST_ROWS = 1000  # rows of the screen; fewer rows tell little about all
LEAST_GROUPS = 4  # fewer groups have no screen
# Candidates of a group are given up one by one only where that saves this fraction of its cost.
LEAST_GAIN = 0.1


class Race(RoundStrategy):
    """Rounds of splits, after each of which groups are given up that are clearly behind.

    A group is judged by its best candidate. At the end the winner, and all candidates within one
    standard error of it, have been tried on all splits.

    Parameters
    ----------
    scope : Scope
    margin : float, default 3.0
        How many standard errors of the paired difference a candidate may be behind the best.

    Attributes
    ----------
    alive : list of list of int
        Groups that have not been given up, with their remaining candidates.
    """

    def __init__(self, scope: Scope, margin: float = MARGIN) -> None:
        super().__init__(scope)
        self.margin = margin
        levels = halving_levels(scope.parameters)
        groups = sorted(scope.groups, key=lambda group: min(levels.get(i, 0) for i in group))
        self.alive = [list(group) for group in groups]
        # Splits and fraction of the next round, and the splits that decide the current one.
        self._next: tuple[tuple[int, ...], float] | None = None
        self._now: tuple[tuple[int, ...], float] = ((), WHOLE)

    @classmethod
    def of(cls, scope: Scope, options: Any) -> Self:
        return cls(scope, options.race_margin)

    @classmethod
    def fractions(cls, n_candidates: int, n_rows: int, n_splits: int) -> Sequence[float]:
        """See ``Strategy.fractions``; the fraction of the screen, where it has enough rows."""
        return [SCREEN] if SCREEN * n_rows >= LEAST_ROWS else []

    def rounds(self) -> Iterator[Sequence[Request]]:
        """See ``RoundStrategy``; perhaps a screen, then splits in random order, then revivals."""
        scope = self.scope
        order = np.random.default_rng(scope.seed).permutation(scope.n_splits).tolist()
        steps = [order[:FIRST_SPLITS], *([split] for split in order[FIRST_SPLITS:])]
        if scope.splits_share:
            steps = [order[:FIRST_SPLITS], order[FIRST_SPLITS:]]
            if (
                self.fractions(0, scope.n_rows, scope.n_splits)
                and len(scope.groups) >= LEAST_GROUPS
            ):
                screen = tuple(sorted(order[:SCREEN_SPLITS]))
                yield from self._round(screen, SCREEN, (tuple(sorted(order)), WHOLE))
                self._give_up(screen, SCREEN)
                steps = [order]
        done_splits = list[int]()
        for number, step in enumerate(steps):
            next_splits = tuple(sorted(steps[number + 1])) if number + 1 < len(steps) else ()
            done_splits += step
            yield from self._round(
                tuple(sorted(step)), WHOLE, (next_splits, WHOLE), tuple(done_splits)
            )
            if next_splits:
                self._give_up(done_splits, WHOLE)
        while revived := self._groups_to_revive():
            for members in revived:
                for member in members:
                    del self.stopped[member]
            self.alive += revived
            yield self._requests(revived, scope.splits, WHOLE)

    def _round(
        self,
        splits: tuple[int, ...],
        fraction: float,
        next_round: tuple[tuple[int, ...], float],
        decided_by: tuple[int, ...] = (),
    ) -> Iterator[Sequence[Request]]:
        """A round of all groups that are alive; no round if there are no splits.

        Parameters
        ----------
        splits : tuple of int
        fraction : float
        next_round : (splits, fraction)
            Used by ``ahead``; without splits, there is no next round.
        decided_by : tuple of int, optional
            The splits whose scores decide after the round; by default its own.
        """
        self._now, self._next = (
            (decided_by or splits, fraction),
            next_round if next_round[0] else None,
        )
        if splits:
            yield self._requests(self.alive, splits, fraction)

    def _requests(
        self, groups: Sequence[Sequence[int]], splits: Sequence[int], fraction: float
    ) -> list[Request]:
        """A request for each group, on the given splits."""
        return [Request(tuple(group), tuple(splits), fraction) for group in groups]

    def ahead(self) -> Sequence[Request]:
        """The next round for groups that have finished this one and are not behind, best first."""
        if self._next is None:
            return ()
        scores = {
            candidate: values
            for group in self.alive
            if not any(math.isnan(value) for value in self._scores(group, *self._now).flat)
            for candidate, values in zip(group, self._scores(group, *self._now), strict=True)
        }
        if not scores:
            return ()
        behind = self._behind(scores, *self._now)
        groups = [group for group in self.alive if any(behind.get(i) == 0 for i in group)]
        means = {candidate: values.mean() for candidate, values in scores.items()}
        groups.sort(key=lambda group: -max(means[i] for i in group if i in means))
        return self._requests(groups, *self._next)

    def _scores(self, members: Sequence[int], splits: Sequence[int], fraction: float) -> Any:
        """Scores of shape (n_members, n_splits); NaN where a row is missing or a fit failed."""
        rows = self.rows
        return np.array(
            [
                [
                    math.nan
                    if (row := rows.get((member, split, fraction))) is None or row["score"] is None
                    else row["score"]
                    for split in splits
                ]
                for member in members
            ],
            float,
        ).reshape(len(members), len(splits))

    def _behind(
        self, scores: Mapping[int, Any], splits: Sequence[int], fraction: float
    ) -> dict[int, float]:
        """How far candidates are behind the best, where clearly so; else 0.

        The standard error of a difference comes from its standard deviation over the splits. It is
        raised to the median of the deviations in the better half of the groups where that is
        larger: on few splits a candidate may differ equally from the best by chance. For accuracy
        it is at least that of m coin flips, where the candidates differ by m correct rows: they
        disagree on that many rows or more. It shrinks as fewer splits remain.

        Parameters
        ----------
        scores : dict of int to float array of shape (n_splits,)
            By candidate, without NaN.
        splits : sequence of int
        fraction : float

        Returns
        -------
        dict of int to float
            Mean differences to the best.
        """
        candidates = list(scores)
        matrix = np.array([scores[candidate] for candidate in candidates])
        means = matrix.mean(axis=1)
        best = int(np.argmax(means))
        differences = matrix[best] - matrix
        n = len(splits)
        deviations = (
            differences.std(axis=1, ddof=1) if n > 1 else np.full(len(candidates), math.inf)
        )
        positions = {candidate: i for i, candidate in enumerate(candidates)}
        bests = [
            max(
                (positions[candidate] for candidate in group if candidate in positions),
                key=lambda i: means[i],
            )
            for group in self.alive
            if any(candidate in positions for candidate in group)
        ]
        bests.sort(key=lambda i: -means[i])
        other_deviations = deviations[bests[1 : 1 + math.ceil(len(bests) / 2)]]
        typical_deviation = float(np.median(other_deviations)) if len(other_deviations) else 0.0
        errors = np.maximum(deviations, typical_deviation) / math.sqrt(n)
        mean = differences.mean(axis=1)
        if n_rows := self._rows_counted(candidates[best], splits, fraction):
            errors = np.maximum(errors, np.sqrt(mean.clip(0) / n_rows))
        errors *= self._finite_population_factor(n, fraction)
        behind = np.where(mean > self.margin * errors, mean, 0.0)
        return dict(zip(candidates, behind.tolist(), strict=True))

    def _finite_population_factor(self, n: int, fraction: float) -> float:
        """The factor of a standard error that accounts for the small number of splits.

        It is sqrt(1 - n / N), for n of N splits drawn without replacement. It is 1 on a fraction of
        the rows, as those splits are not among the N, and on the first two splits, which hardly
        tell the deviation.

        References
        ----------
        Cochran, Sampling Techniques, Wiley, 1977, section 2.6.
        """
        if fraction < WHOLE or n <= FIRST_SPLITS:
            return 1.0
        return math.sqrt(max(0.0, 1 - n / self.scope.n_splits))

    def _rows_counted(self, candidate: int, splits: Sequence[int], fraction: float) -> int:
        """The number of validation rows, if the score is the accuracy on them; else 0."""
        rows = [self.rows[candidate, split, fraction] for split in splits]
        if any(
            row.get("error") is None or abs(1 - row["error"] - row["score"]) > 1e-9 for row in rows
        ):
            return 0
        return sum(row["n_validation"] for row in rows)

    def _give_up(self, splits: Sequence[int], fraction: float) -> None:
        """Give up groups whose best candidate is behind, and candidates where that saves time."""
        scores, failed = dict[int, Any](), list[int]()
        for group in self.alive:
            for candidate, values in zip(group, self._scores(group, splits, fraction), strict=True):
                if np.isnan(values).any():
                    failed.append(candidate)
                else:
                    scores[candidate] = values
        if not scores:
            return
        behind = self._behind(scores, splits, fraction)
        # A fit that fails on a fraction of the rows may succeed on all of them.
        is_lost = dict.fromkeys(failed, fraction == WHOLE)
        is_lost |= {candidate: difference > 0 for candidate, difference in behind.items()}
        alive, means, scope = list[list[int]](), list[float](), self.scope
        for group in self.alive:
            kept = [candidate for candidate in group if not is_lost[candidate]]
            if kept and len(kept) < len(group):
                cost, kept_cost = (scope.cost(members, 1, WHOLE) for members in (group, kept))
                if scope.splits_share or kept_cost > (1 - LEAST_GAIN) * cost:
                    kept = group
            if kept:
                alive.append(kept)
                best = [
                    float(scores[candidate].mean()) for candidate in kept if candidate in scores
                ]
                means.append(max(best, default=-math.inf))
            for candidate in set(group) - set(kept):
                difference = behind.get(candidate)
                self.stopped[candidate] = Stop(len(splits), fraction, difference)
        # The best is tried first, as a time budget may end the search.
        order = sorted(range(len(alive)), key=lambda number: -means[number])
        self.alive = [alive[number] for number in order]

    def _groups_to_revive(self) -> list[list[int]]:
        """Groups of given-up candidates that may be within one standard error of the winner.

        They were compared with the best of their round, which need not be the winner.
        """
        splits, means = self.scope.splits, dict[int, float]()
        for group in self.alive:
            for candidate, values in zip(group, self._scores(group, splits, WHOLE), strict=True):
                if not np.isnan(values).any():
                    means[candidate] = float(values.mean())
        if not means:
            return []
        winner = max(means, key=lambda candidate: means[candidate])
        scores = self._scores([winner], splits, WHOLE)[0]
        # ``std`` divides by n here, so that n - 1 below makes it the usual standard error.
        error = scores.std() / math.sqrt(max(1, len(splits) - 1))
        near_candidates = set[int]()
        for candidate, stop in self.stopped.items():
            if stop.behind is None:
                continue
            common_splits = [
                split
                for split in splits
                if (candidate, split, stop.fraction) in self.rows
                and (winner, split, stop.fraction) in self.rows
            ]
            candidate_scores, winner_scores = self._scores(
                [candidate, winner], common_splits, stop.fraction
            )
            if len(common_splits) < 2:
                continue
            differences = winner_scores - candidate_scores
            doubt = differences.std(ddof=1) / math.sqrt(len(common_splits))
            doubt *= self._finite_population_factor(len(common_splits), stop.fraction)
            if differences.mean() - doubt <= error:
                near_candidates.add(candidate)
        groups = (
            [candidate for candidate in group if candidate in near_candidates]
            for group in self.scope.groups
        )
        return [group for group in groups if group]
