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
from pipelines.search.strategies.grid import levels_of

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
        levels = levels_of(scope.parameters)
        groups = sorted(scope.groups, key=lambda group: min(levels.get(i, 0) for i in group))
        self.alive = [list(group) for group in groups]
        self._next: tuple[tuple[int, ...], float] | None = None  # splits of the next round
        self._now: tuple[tuple[int, ...], float] = ((), WHOLE)  # splits by which is decided

    @classmethod
    def of(cls, scope: Scope, options: Any) -> Self:
        return cls(scope, options.race_margin)

    @classmethod
    def shares(cls, n_candidates: int, n_rows: int, n_splits: int) -> Sequence[float]:
        return [SCREEN] if SCREEN * n_rows >= LEAST_ROWS else []

    def rounds(self) -> Iterator[Sequence[Request]]:
        scope = self.scope
        order = np.random.default_rng(scope.seed).permutation(scope.n_splits).tolist()
        steps = [order[:FIRST_SPLITS], *([split] for split in order[FIRST_SPLITS:])]
        if scope.splits_share:
            steps = [order[:FIRST_SPLITS], order[FIRST_SPLITS:]]
            if self.shares(0, scope.n_rows, scope.n_splits) and len(scope.groups) >= LEAST_GROUPS:
                screen = tuple(sorted(order[:SCREEN_SPLITS]))
                yield from self._round(screen, SCREEN, (tuple(sorted(order)), WHOLE))
                self._give_up(screen, SCREEN)
                steps = [order]
        done = list[int]()
        for number, step in enumerate(steps):
            following = tuple(sorted(steps[number + 1])) if number + 1 < len(steps) else ()
            done += step
            yield from self._round(tuple(sorted(step)), WHOLE, (following, WHOLE), tuple(done))
            if following:
                self._give_up(done, WHOLE)
        while revived := self._revived():
            for members in revived:
                for member in members:
                    del self.stopped[member]
            self.alive += revived
            yield self._requests(revived, scope.splits, WHOLE)

    def _round(
        self,
        splits: tuple[int, ...],
        share: float,
        following: tuple[tuple[int, ...], float],
        decided_by: tuple[int, ...] = (),
    ) -> Iterator[Sequence[Request]]:
        """Yield the requests of all that is alive, where there are any."""
        self._now, self._next = (decided_by or splits, share), following if following[0] else None
        if splits:
            yield self._requests(self.alive, splits, share)

    def _requests(
        self, groups: Sequence[Sequence[int]], splits: Sequence[int], share: float
    ) -> list[Request]:
        """A request for each group."""
        return [Request(tuple(group), tuple(splits), share) for group in groups]

    def ahead(self) -> Sequence[Request]:
        """The next splits of groups that have the present ones and are not behind, best first."""
        if self._next is None:
            return ()
        scores = {
            place: values
            for group in self.alive
            if not any(math.isnan(value) for value in self._scores(group, *self._now).flat)
            for place, values in zip(group, self._scores(group, *self._now), strict=True)
        }
        if not scores:
            return ()
        behind = self._behind(scores, *self._now)
        groups = [group for group in self.alive if any(behind.get(i) == 0 for i in group)]
        means = {place: values.mean() for place, values in scores.items()}
        groups.sort(key=lambda group: -max(means[i] for i in group if i in means))
        return self._requests(groups, *self._next)

    def _scores(self, members: Sequence[int], splits: Sequence[int], share: float) -> Any:
        """Scores of shape (n_members, n_splits); NaN of what is missing or failed."""
        rows = self.rows
        return np.array(
            [
                [
                    math.nan
                    if (row := rows.get((member, split, share))) is None or row["score"] is None
                    else row["score"]
                    for split in splits
                ]
                for member in members
            ],
            float,
        ).reshape(len(members), len(splits))

    def _behind(
        self, scores: Mapping[int, Any], splits: Sequence[int], share: float
    ) -> dict[int, float]:
        """How far candidates are clearly behind the best, 0 where they are not.

        A difference has the deviation of its own splits, or where that is larger the median of
        those of the better half of groups: a few splits may differ alike by chance. Of accuracies,
        a difference of m rows has at least the standard error of m coin flips, as at least so many
        rows are told apart. What all splits will say is less in doubt the fewer are to come.
        """
        places = list(scores)
        matrix = np.array([scores[place] for place in places])
        means = matrix.mean(axis=1)
        best = int(np.argmax(means))
        differences = matrix[best] - matrix
        n = len(splits)
        deviations = differences.std(axis=1, ddof=1) if n > 1 else np.full(len(places), math.inf)
        number = {place: i for i, place in enumerate(places)}
        bests = [
            max((number[place] for place in group if place in number), key=lambda i: means[i])
            for group in self.alive
            if any(place in number for place in group)
        ]
        bests.sort(key=lambda i: -means[i])
        others = deviations[bests[1 : 1 + math.ceil(len(bests) / 2)]]
        usual = float(np.median(others)) if len(others) else 0.0
        errors = np.maximum(deviations, usual) / math.sqrt(n)
        mean = differences.mean(axis=1)
        if n_rows := self._rows_counted(places[best], splits, share):
            errors = np.maximum(errors, np.sqrt(mean.clip(0) / n_rows))
        errors *= self._left(n, share)
        behind = np.where(mean > self.margin * errors, mean, 0.0)
        return dict(zip(places, behind.tolist(), strict=True))

    def _left(self, n: int, share: float) -> float:
        """What the standard error of so many of all splits is multiplied by.

        The mean of n of N splits that are drawn without replacement is off the mean of all N by the
        root of 1 - n / N of what it is off the mean of any (Cochran, Sampling techniques, 1977,
        2.6). Splits of a share are none of them, and of two the deviation is hardly known.
        """
        if share < WHOLE or n <= FIRST_SPLITS:
            return 1.0
        return math.sqrt(max(0.0, 1 - n / self.scope.n_splits))

    def _rows_counted(self, candidate: int, splits: Sequence[int], share: float) -> int:
        """The validation rows whose errors the score counts; 0 where it is another score."""
        rows = [self.rows[candidate, split, share] for split in splits]
        if any(
            row.get("error") is None or abs(1 - row["error"] - row["score"]) > 1e-9 for row in rows
        ):
            return 0
        return sum(row["n_validation"] for row in rows)

    def _give_up(self, splits: Sequence[int], share: float) -> None:
        """Keep the groups whose best candidate is not behind, and of these what saves nothing."""
        scores, failed = dict[int, Any](), list[int]()
        for group in self.alive:
            for place, values in zip(group, self._scores(group, splits, share), strict=True):
                if np.isnan(values).any():
                    failed.append(place)
                else:
                    scores[place] = values
        if not scores:
            return
        behind = self._behind(scores, splits, share)
        # A fit that fails on few rows need not fail on all of them.
        lost = dict.fromkeys(failed, share == WHOLE)
        lost |= {place: difference > 0 for place, difference in behind.items()}
        alive, means, scope = list[list[int]](), list[float](), self.scope
        for group in self.alive:
            kept = [place for place in group if not lost[place]]
            if kept and len(kept) < len(group):
                cost, least = (scope.cost(members, 1, WHOLE) for members in (group, kept))
                if scope.splits_share or least > (1 - LEAST_GAIN) * cost:
                    kept = group
            if kept:
                alive.append(kept)
                best = [float(scores[place].mean()) for place in kept if place in scores]
                means.append(max(best, default=-math.inf))
            for place in set(group) - set(kept):
                difference = behind.get(place)
                self.stopped[place] = Stop(len(splits), share, difference)
        # The best is tried first, as time may end.
        order = sorted(range(len(alive)), key=lambda number: -means[number])
        self.alive = [alive[number] for number in order]

    def _revived(self) -> list[list[int]]:
        """Groups with a candidate that is within one standard error of the winner after all.

        The winner need not be the best that they were given up for.
        """
        splits, means = self.scope.splits, dict[int, float]()
        for group in self.alive:
            for place, values in zip(group, self._scores(group, splits, WHOLE), strict=True):
                if not np.isnan(values).any():
                    means[place] = float(values.mean())
        if not means:
            return []
        winner = max(means, key=lambda place: means[place])
        scores = self._scores([winner], splits, WHOLE)[0]
        error = scores.std() / math.sqrt(max(1, len(splits) - 1))
        near = set[int]()
        for place, stop in self.stopped.items():
            if stop.behind is None:
                continue
            tried = [
                split
                for split in splits
                if (place, split, stop.share) in self.rows
                and (winner, split, stop.share) in self.rows
            ]
            own, of_winner = self._scores([place, winner], tried, stop.share)
            if len(tried) < 2:
                continue
            differences = of_winner - own
            doubt = differences.std(ddof=1) / math.sqrt(len(tried))
            doubt *= self._left(len(tried), stop.share)
            if differences.mean() - doubt <= error:
                near.add(place)
        groups = ([place for place in group if place in near] for group in self.scope.groups)
        return [group for group in groups if group]
