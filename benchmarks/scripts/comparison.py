"""What two runs of a script found, held against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Scores no further apart than this are equal: sums in another order.
ROUNDING = 1e-9
# Solvers stop within their own tolerances; further apart than this is another result.
TOLERANCE = 1e-2


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
    """

    same_searches: bool
    same_best: bool
    furthest: float

    @property
    def equal(self) -> bool:
        """Whether nothing but rounding tells the runs apart."""
        return self.same_searches and self.same_best and self.furthest <= ROUNDING

    @property
    def close(self) -> bool:
        """Whether the best candidates are the same, and scores but for a solver's tolerance."""
        return self.same_searches and self.same_best and self.furthest <= TOLERANCE

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
        apart = "equal scores" if self.furthest <= ROUNDING else f"scores to {self.furthest:.1e}"
        return apart if self.same_best else f"{apart}, another best candidate"


def compare(left: Sequence[dict[str, Any]], right: Sequence[dict[str, Any]]) -> Agreement:
    """The records of two runs, in the order of their searches."""
    if [_shape(search) for search in left] != [_shape(search) for search in right]:
        return Agreement(False, False, float("inf"))
    pairs = list(zip(left, right, strict=True))
    furthest = max((_furthest(*pair) for pair in pairs), default=0.0)
    return Agreement(True, all(a["best"] == b["best"] for a, b in pairs), furthest)


def searches_in_words(searches: Sequence[dict[str, Any]], most: int = 3) -> str:
    """``GridSearchCV(SVC), 2 x learning_curve(SVC)``: kinds of searches, the costliest first.

    Parameters
    ----------
    searches : sequence of dict
        The records of a run.
    most : int
        Kinds that are named; the rest is counted.
    """
    seconds: Counter[str] = Counter()
    for search in searches:
        seconds[search["search"]] += search["seconds"]
    counts = Counter(search["search"] for search in searches)
    kinds = [kind for kind, _ in seconds.most_common()]
    words = [f"{counts[kind]} x {kind}" if counts[kind] > 1 else kind for kind in kinds[:most]]
    rest = sum(counts[kind] for kind in kinds[most:])
    return ", ".join(words) + (f" and {rest} more" if rest else "")


def _shape(search: dict[str, Any]) -> tuple[Any, ...]:
    lengths = {key: len(values) for key, values in search["scores"].items()}
    return search["search"], search["error"], lengths


def _furthest(left: dict[str, Any], right: dict[str, Any]) -> float:
    """The largest difference of a score between two records of one shape."""
    furthest = 0.0
    for key, values in left["scores"].items():
        a, b = np.asarray(values, float), np.asarray(right["scores"][key], float)
        if (np.isnan(a) != np.isnan(b)).any():
            return float("inf")
        furthest = max(furthest, float(np.nan_to_num(np.abs(a - b)).max(initial=0.0)))
    return furthest
