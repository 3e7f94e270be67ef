"""The interface of strategies, which decide what candidate is tried next, on which splits.

A strategy is one file beside this and an entry in ``STRATEGIES``. It knows candidates by their
places, and nothing of estimators, tasks or Dask: it asks for candidates on splits, and is told
their rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

__all__ = ["WHOLE", "Cell", "Request", "RoundStrategy", "Row", "Scope", "Stop", "Strategy"]

WHOLE = 1.0  # the share of all rows

Row = Mapping[str, Any]
Cell = tuple[int, int, float]  # candidate, split, share of the rows


@dataclass(frozen=True)
class Request:
    """Candidates that are wanted on splits, each on every one of them.

    Attributes
    ----------
    candidates : their places
    splits : numbers of splits
    share : of the rows of the search that these splits have, above 0 and at most 1
    """

    candidates: tuple[int, ...]
    splits: tuple[int, ...]
    share: float = WHOLE

    @property
    def cells(self) -> Iterator[Cell]:
        """Each candidate on each split."""
        for split in self.splits:
            for candidate in self.candidates:
                yield candidate, split, self.share


@dataclass(frozen=True)
class Scope:
    """What a strategy searches: candidates in groups, splits, and what they cost.

    Attributes
    ----------
    groups : of each task that shares work the places of its candidates; one alone shares nothing
    n_splits : int
        Splits of all rows; there are as many of a share of them.
    n_rows : int
        Rows of the search, training and validation together.
    seed : int
    parameters : of each candidate
    cost : function of places, the number of splits and a share of the rows; predicts the time of
        their fits in one task
    splits_share : whether the splits of a task share work, which a later round pays again
    """

    groups: Sequence[Sequence[int]]
    n_splits: int
    n_rows: int
    seed: int = 0
    parameters: Sequence[Mapping[str, Any]] = ()
    cost: Callable[[Sequence[int], int, float], float] = lambda members, n, fraction: (
        len(members) * n
    )
    splits_share: bool = False

    @property
    def candidates(self) -> list[int]:
        """The places of all candidates, in order."""
        return sorted(candidate for group in self.groups for candidate in group)

    @property
    def splits(self) -> tuple[int, ...]:
        """The numbers of all splits."""
        return tuple(range(self.n_splits))


@dataclass(frozen=True)
class Stop:
    """When a candidate was given up, and why.

    Attributes
    ----------
    n_splits : that it was tried on
    share : of the rows that these had
    behind : how much its mean score was below the best on the same splits; None where a fit failed
    """

    n_splits: int
    fraction: float
    behind: float | None


class Strategy(ABC):
    """Decides which candidates are tried on which splits, as their rows come.

    What it asks for follows from its scope and the scores of the rows it asked for, not from the
    order in which they come: so a run that is resumed, or has other workers, asks for the same.

    Attributes
    ----------
    rows : those it was told, by candidate, split and share
    wanted : the cells it asked for; ``ahead`` may have asked for others
    stopped : when candidates were given up, by their places
    decides : whether what it asks for depends on rows
    draws : whether it draws candidates as rows come
    """

    decides: ClassVar[bool] = True
    draws: ClassVar[bool] = False

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.rows: dict[Cell, Row] = {}
        self.requested_cells: dict[Cell, None] = {}
        self.stopped: dict[int, Stop] = {}

    @classmethod
    def of(cls, scope: Scope, options: Any) -> Self:
        """The strategy as options have it, ``StrategyOptions``."""
        return cls(scope)

    @classmethod
    def fractions(cls, n_candidates: int, n_rows: int, n_splits: int) -> Sequence[float]:
        """The shares of the rows, below 1, that it may ask for."""
        return ()

    @abstractmethod
    def ask(self) -> Sequence[Request] | None:
        """What is wanted next, the most urgent first.

        Returns
        -------
        requests; none while rows are to come that it decides by; None when nothing is left
        """

    def tell(self, rows: Iterable[Row]) -> None:
        """Take in rows of its search, in any order; one whose fit failed has no ``score``."""
        for row in rows:
            self.rows[row["candidate"], row["split"], row["share"]] = row

    def ahead(self) -> Sequence[Request]:
        """What will likely be wanted, for workers that would idle until the last rows come."""
        return ()

    def score(self, candidate: int, split: int, fraction: float = WHOLE) -> float | None:
        """The score of a candidate on a split; larger is better, None of a fit that failed."""
        score: float | None = self.rows[candidate, split, fraction]["score"]
        return score


class RoundStrategy(Strategy):
    """A strategy of rounds: each is decided when all rows of the one before are there."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self._rounds = self.rounds()
        self._missing = set[Cell]()

    @abstractmethod
    def rounds(self) -> Iterator[Sequence[Request]]:
        """The requests of each round; it goes on when their ``rows`` are there."""

    def ask(self) -> Sequence[Request] | None:
        if self._missing:
            return ()
        requests = next(self._rounds, None)
        if requests is not None:
            cells = dict.fromkeys(cell for request in requests for cell in request.cells)
            self.requested_cells |= cells
            self._missing = cells.keys() - self.rows.keys()
        return requests

    def tell(self, rows: Iterable[Row]) -> None:
        super().tell(rows := list(rows))
        self._missing -= {(row["candidate"], row["split"], row["share"]) for row in rows}
