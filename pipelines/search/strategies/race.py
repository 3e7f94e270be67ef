"""Racing: candidates that are clearly behind the best are given up before they have all splits.

Maron and Moore, Hoeffding races (NIPS 6, 1994); Kuhn, Futility analysis in the cross-validation of
machine learning models (2014). Differences to the best are paired, split by split.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from pipelines.search.strategies.base import WHOLE, Request, RoundStrategy, Scope, Stop
from pipelines.search.strategies.grid import halving_levels

MARGIN = 3.0  # standard errors
FIRST_SPLITS = 2  # before anything is given up
# Where splits share work, a later round pays it again. There all groups are tried on some splits
# of a share of the rows first: a third is a ninth of a kernel.
SCREEN = 1 / 3
SCREEN_SPLITS = 3
LEAST_ROWS = 1000  # of such a share; fewer tell little of all
LEAST_GROUPS = 4
LEAST_GAIN = 0.1  # of what a group costs, for which single candidates of it are given up


class Race(RoundStrategy):
    """Splits in rounds, after each of which a group is given up by its best candidate.

    Once the last split is there, the best and all within one standard error of it have all splits.

    Parameters
    ----------
    scope : Scope
    margin : standard errors of the paired difference that a candidate may be behind the best
    """

    def __init__(self, scope: Scope, margin: float = MARGIN) -> None:
        super().__init__(scope)
        self.margin = margin
        levels = halving_levels(scope.parameters)
        groups = sorted(scope.groups, key=lambda group: min(levels.get(i, 0) for i in group))
        self.alive = [list(group) for group in groups]
        self._next: tuple[tuple[int, ...], float] | None = None  # splits of the next round
        self._now: tuple[tuple[int, ...], float] = ((), WHOLE)  # splits by which is decided

    @classmethod
    def of(cls, scope: Scope, options: Any) -> Self:
        return cls(scope, options.race_margin)

    @classmethod
    def fractions(cls, n_candidates: int, n_rows: int, n_splits: int) -> Sequence[float]:
        return [SCREEN] if SCREEN * n_rows >= LEAST_ROWS else []

    def rounds(self) -> Iterator[Sequence[Request]]:
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
        """Yield the requests of all that is alive, where there are any."""
        self._now, self._next = (
            (decided_by or splits, fraction),
            next_round if next_round[0] else None,
        )
        if splits:
            yield self._requests(self.alive, splits, fraction)

    def _requests(
        self, groups: Sequence[Sequence[int]], splits: Sequence[int], fraction: float
    ) -> list[Request]:
        """A request for each group."""
        return [Request(tuple(group), tuple(splits), fraction) for group in groups]

    def ahead(self) -> Sequence[Request]:
        """The next splits of groups that have the present ones and are not behind, best first."""
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
        """Scores of shape (n_members, n_splits); NaN of what is missing or failed."""
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
        """How far candidates are clearly behind the best, 0 where they are not.

        A difference has the deviation of its own splits, or where that is larger the median of
        those of the better half of groups: a few splits may differ alike by chance. Of accuracies,
        a difference of m rows has at least the standard error of m coin flips, as at least so many
        rows are told apart. What all splits will say is less in doubt the fewer are to come.
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
        """What the standard error of so many of all splits is multiplied by.

        The mean of n of N splits that are drawn without replacement is off the mean of all N by the
        root of 1 - n / N of what it is off the mean of any (Cochran, Sampling techniques, 1977,
        2.6). Splits of a share are none of them, and of two the deviation is hardly known.
        """
        if fraction < WHOLE or n <= FIRST_SPLITS:
            return 1.0
        return math.sqrt(max(0.0, 1 - n / self.scope.n_splits))

    def _rows_counted(self, candidate: int, splits: Sequence[int], fraction: float) -> int:
        """The validation rows whose errors the score counts; 0 where it is another score."""
        rows = [self.rows[candidate, split, fraction] for split in splits]
        if any(
            row.get("error") is None or abs(1 - row["error"] - row["score"]) > 1e-9 for row in rows
        ):
            return 0
        return sum(row["n_validation"] for row in rows)

    def _give_up(self, splits: Sequence[int], fraction: float) -> None:
        """Keep the groups whose best candidate is not behind, and of these what saves nothing."""
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
        # A fit that fails on few rows need not fail on all of them.
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
        # The best is tried first, as time may end.
        order = sorted(range(len(alive)), key=lambda number: -means[number])
        self.alive = [alive[number] for number in order]

    def _groups_to_revive(self) -> list[list[int]]:
        """Groups with a candidate that is within one standard error of the winner after all.

        The winner need not be the best that they were given up for.
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
