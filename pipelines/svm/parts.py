"""A unit that comes in parts: folds that are done before it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipelines.run.news import News
from pipelines.run.outcomes import Outcome
from pipelines.svm.units import Place, Row, Unit


class Parts:
    """Gives every row of some units once, a fold as if it were a unit of its own.

    A unit that is begun anew, as its worker died, tells of the same rows again.
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = {unit.name: unit for unit in units}
        self._given: set[Place] = set()
        self._until: dict[str, float] = {}  # when the rows of a unit were last told

    def of(self, news: News) -> Iterator[tuple[News, list[Row]]]:
        """What news say: once for each fold that has rows, in equal parts of the time."""
        unit = self._units[news.unit]
        by_fold: dict[int, list[Row]] = {}
        for row in self._new(news.rows):
            by_fold.setdefault(row["fold"], []).append(row)
        if not by_fold:
            yield replace(news, rows=[]), []
            return
        self._until[unit.name] = news.started + news.seconds
        seconds = news.seconds / len(by_fold)
        for turn, (fold, rows) in enumerate(by_fold.items()):
            part, started = unit.part(fold), news.started + turn * seconds
            told = replace(
                news, rows=rows, part=part.name, started=started, seconds=seconds, cost=part.cost
            )
            yield told, rows

    def rest(self, outcome: Outcome[Unit], rows: list[Row]) -> tuple[Outcome[Unit], list[Row]]:
        """A unit that is done, and those of its rows that were not given before."""
        left = outcome.unit.without(self._given)
        new = self._new(rows)
        if len(new) == len(rows):
            return outcome, rows
        began = max(outcome.started, self._until.get(outcome.unit.name, 0.0))
        seconds = max(0.0, outcome.started + outcome.seconds - began)
        name = left.name if left else ""
        # It compiled before its first rows were ready.
        rest = replace(
            outcome, part=name, started=began, seconds=seconds, compile_seconds=0.0,
            cost=left.cost if left else 0.0,
        )  # fmt: skip
        return rest, new

    def _new(self, rows: Sequence[Row]) -> list[Row]:
        new = [row for row in rows if _place(row) not in self._given]
        self._given |= {_place(row) for row in new}
        return new


def _place(row: Row) -> Place:
    return row["C"], row["gamma"], row["fold"]
