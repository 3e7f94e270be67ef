"""The best candidate of a search that goes on, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipelines.run_folder.measures import measure_of

Candidate = tuple[Any, ...]


class BestSoFar:
    """The best mean score of the candidates that have the most folds.

    Parameters
    ----------
    candidate : names of the columns that tell one candidate from another
    scoring : what the score is; of accuracy the error is told
    """

    def __init__(self, candidate: Sequence[str], scoring: str = "accuracy") -> None:
        self._names, self._scoring = candidate, scoring
        self._sums: dict[Candidate, tuple[int, float]] = {}  # number of folds, sum of scores
        self._best: Candidate | None = None

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take in the rows of cells; those without a ``score`` failed."""
        for row in rows:
            if row["score"] is None:
                continue
            one = tuple(row[name] for name in self._names)
            n_folds, total = self._sums.get(one, (0, 0.0))
            self._sums[one] = n_folds + 1, total + row["score"]
            # Another fold makes the best one the best of more folds: it need not be compared.
            if self._best is None or self._rank(one) > self._rank(self._best):
                self._best = one

    def _rank(self, one: Candidate) -> tuple[int, float]:
        n_folds, total = self._sums[one]
        return n_folds, total / n_folds

    @property
    def text(self) -> str:
        """The best mean score and its candidate in words; empty if there is no score yet."""
        if self._best is None:
            return ""
        n_folds, score = self._rank(self._best)
        measure = measure_of(self._scoring)
        shown = measure.text(measure.of(score))
        score_text = f"{shown} error" if measure.is_error else f"{measure.name} {shown}"
        about = ", ".join(
            f"{name} = {value:.3g}" if isinstance(value, float) else f"{name} = {value}"
            for name, value in zip(self._names, self._best, strict=True)
        )
        return f"best so far {score_text} on {n_folds} fold{'s' * (n_folds != 1)}, {about}"
