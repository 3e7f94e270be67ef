"""What two runs of a script found, held against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Scores no further apart than this are equal: sums in another order.
ROUNDING = 1e-9
# One row of a small fold may be classified otherwise where a solver stops within its tolerance.
TOLERANCE = 0.05


@dataclass(frozen=True)
class Agreement:
    """How far two runs agree.

    Attributes
    ----------
    same_searches : bool
        Whether both made the same searches, of the same scores, and failed in the same ones.
    same_best : bool
        Whether the best candidate of every search is the same.
    furthest : float
        The largest difference between two scores; NaN agrees with NaN, and differs from any
        number by infinity.
    apart : float
        The fraction of scores that differ.
    chosen : float
        The largest difference between the scores of the best candidates, and between those of
        searches that choose none.
    """

    same_searches: bool
    same_best: bool
    furthest: float
    apart: float
    chosen: float

    @property
    def equal(self) -> bool:
        """Whether nothing but rounding tells the runs apart."""
        return self.same_searches and self.same_best and self.furthest <= ROUNDING

    @property
    def close(self) -> bool:
        """Whether the best candidates are the same, or as good, but for a solver's tolerance.

        Candidates that are not chosen may differ further: a kernel of ones leaves a solver free.
        """
        nearest = TOLERANCE if self.same_best else ROUNDING
        return self.same_searches and self.chosen <= nearest

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Of two agreements, the larger one is the worse."""
        return not self.same_searches, not self.same_best, self.furthest

    def in_words(self) -> str:
        """``equal``, or what differs."""
        if self.equal:
            return "equal"
        if not self.same_searches:
            return "other searches"
        words = "equal scores"
        if self.furthest > ROUNDING:
            words = f"{self.apart:.1%} of scores differ, by {self.furthest:.1e} at most"
        if self.same_best:
            return words
        equally_good = " of the same score" if self.chosen <= ROUNDING else ""
        return f"{words}; another best candidate{equally_good}"


def compare(first: Sequence[dict[str, Any]], second: Sequence[dict[str, Any]]) -> Agreement:
    """The records of two runs, in the order of their searches."""
    if [_shape(search) for search in first] != [_shape(search) for search in second]:
        return Agreement(False, False, float("inf"), 1.0, float("inf"))
    pairs = list(zip(first, second, strict=True))
    same_best = all(expected["best"] == result["best"] for expected, result in pairs)
    apart = np.concatenate([_apart(*pair) for pair in pairs]) if pairs else np.zeros(1)
    chosen = max((_chosen(*pair) for pair in pairs), default=0.0)
    share = float((apart > ROUNDING).mean())
    return Agreement(True, same_best, float(apart.max()), share, chosen)


def searches_in_words(searches: Sequence[dict[str, Any]], n_kinds: int = 3) -> str:
    """``GridSearchCV(SVC), 2 x learning_curve(SVC)``: kinds of searches, the costliest first.

    Parameters
    ----------
    searches : sequence of dict
        The records of a run.
    n_kinds : int
        Kinds that are named; the rest is counted.
    """
    seconds: Counter[str] = Counter()
    for search in searches:
        seconds[search["search"]] += search["seconds"]
    counts = Counter(search["search"] for search in searches)
    kinds = [kind for kind, _ in seconds.most_common()]
    words = [f"{counts[kind]} x {kind}" if counts[kind] > 1 else kind for kind in kinds[:n_kinds]]
    n_others = sum(counts[kind] for kind in kinds[n_kinds:])
    return ", ".join(words) + (f" and {n_others} more" if n_others else "")


def _shape(search: dict[str, Any]) -> tuple[Any, ...]:
    lengths = {key: len(values) for key, values in search["scores"].items()}
    return search["search"], search["error"], lengths


def _apart(first: dict[str, Any], second: dict[str, Any]) -> np.ndarray:
    """The difference of every score between two records of one shape, (n_scores,)."""
    expected, result = (
        np.concatenate([np.zeros(1), *map(np.asarray, record["scores"].values())]).astype(float)
        for record in (first, second)
    )
    apart = np.abs(expected - result)
    apart[np.isnan(expected) & np.isnan(result)] = 0.0
    return np.nan_to_num(apart[1:] if len(apart) > 1 else apart, nan=np.inf)


def _chosen(first: dict[str, Any], second: dict[str, Any]) -> float:
    """How far the best scores are apart; without a best, the largest difference of all."""
    best = first.get("best_score")
    return float(_apart(first, second).max() if best is None else abs(best - second["best_score"]))
