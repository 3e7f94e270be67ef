"""The interface of strategies, which decide which candidate is tried next, on which splits.

A strategy is a class in a file beside this one and an entry in ``STRATEGIES``. It knows candidates
by their numbers only, and nothing of estimators, tasks or Dask. It asks for candidates on splits,
and is told their rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

__all__ = ["WHOLE", "Cell", "Request", "RoundStrategy", "Row", "Scope", "Stop", "Strategy"]

WHOLE = 1.0  # the fraction that stands for all rows

Row = Mapping[str, Any]
Cell = tuple[int, int, float]  # candidate, split, fraction of the rows


@dataclass(frozen=True)
class Request:
    """Candidates to fit, each on every split of the request.

    Attributes
    ----------
    candidates : tuple of int
        Numbers of the candidates.
    splits : tuple of int
        Numbers of the splits.
    fraction : float, default 1.0
        The fraction of the search's rows that the splits have, above 0 and at most 1.
    """

    candidates: tuple[int, ...]
    splits: tuple[int, ...]
    fraction: float = WHOLE

    @property
    def cells(self) -> Iterator[Cell]:
        """Each candidate on each split."""
        for split in self.splits:
            for candidate in self.candidates:
                yield candidate, split, self.fraction


@dataclass(frozen=True)
class Scope:
    """What a strategy searches: candidates in groups, splits, and the cost of fits.

    Attributes
    ----------
    groups : sequence of sequence of int
        Numbers of the candidates that share work in one task; a group of one shares nothing.
    n_splits : int
        Number of splits, the same for all rows and for a fraction of them.
    n_rows : int
        Rows of the search, training and validation together.
    seed : int, default 0
    parameters : sequence of dict
        Parameters of each candidate, by its number.
    cost : function of (members, n_splits, fraction)
        Predicted time of fitting some candidates on this many splits in one task, in any unit.
    splits_share : bool, default False
        Whether the splits of a task share work, which another round then has to repeat.
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
        """The numbers of all candidates, ascending."""
        return sorted(candidate for group in self.groups for candidate in group)

    @property
    def splits(self) -> tuple[int, ...]:
        """The numbers of all splits, ascending."""
        return tuple(range(self.n_splits))


@dataclass(frozen=True)
class Stop:
    """When a candidate was given up, and why.

    Attributes
    ----------
    n_splits : int
        Number of splits on which it was tried.
    fraction : float
        The fraction of the rows that these splits had.
    behind : float or None
        How far its mean score was below the best on the same splits; None where a fit failed.
    """

    n_splits: int
    fraction: float
    behind: float | None


class Strategy(ABC):
    """Decides which candidates are tried on which splits, as their rows arrive.

    Its requests depend on its scope and on the scores of the cells that it asked for, but not on
    the order in which rows arrive. So a resumed run, or one with other workers, asks for the
    same cells.

    Parameters
    ----------
    scope : Scope

    Attributes
    ----------
    rows : dict of Cell to row
        The rows that it was told.
    requested_cells : dict of Cell to None
        The cells that ``ask`` returned, in order; cells from ``ahead`` are not included.
    stopped : dict of int to Stop
        The candidates that were given up, by their numbers.
    decides : bool
        Whether its requests depend on rows.
    draws : bool
        Whether it draws candidates as rows arrive.
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
        """The strategy for the options of a command, a ``StrategyOptions``."""
        return cls(scope)

    @classmethod
    def fractions(cls, n_candidates: int, n_rows: int, n_splits: int) -> Sequence[float]:
        """The fractions of the rows, below 1, for which it may ask.

        Parameters
        ----------
        n_candidates, n_rows, n_splits : int
            Numbers of candidates, rows and splits of the search.
        """
        return ()

    @abstractmethod
    def ask(self) -> Sequence[Request] | None:
        """The next requests, the most urgent first.

        Returns
        -------
        sequence of Request or None
            Empty while it waits for rows by which it decides; None once the search is over.
        """

    def tell(self, rows: Iterable[Row]) -> None:
        """Take in rows, in any order; the ``score`` of a failed fit is None."""
        for row in rows:
            self.rows[row["candidate"], row["split"], row["share"]] = row

    def ahead(self) -> Sequence[Request]:
        """Requests that will probably follow, for workers that would idle until the last rows."""
        return ()

    def score(self, candidate: int, split: int, fraction: float = WHOLE) -> float | None:
        """The score of a candidate on a split, larger is better; None if the fit failed."""
        score: float | None = self.rows[candidate, split, fraction]["score"]
        return score


class RoundStrategy(Strategy):
    """A strategy in rounds: the next one is decided once all rows of a round have arrived.

    Examples
    --------
    All candidates on the first split, then the best one on the others:

    >>> class BestOfFirstSplit(RoundStrategy):
    ...     def rounds(self):
    ...         candidates = self.scope.candidates
    ...         yield [Request(tuple(candidates), (0,))]
    ...         best = max(candidates, key=lambda candidate: self.score(candidate, 0))
    ...         yield [Request((best,), self.scope.splits[1:])]
    >>> strategy = BestOfFirstSplit(Scope([[0], [1]], n_splits=3, n_rows=90))
    >>> strategy.ask()
    [Request(candidates=(0, 1), splits=(0,), fraction=1.0)]
    >>> row = {"split": 0, "share": 1.0}
    >>> strategy.tell([row | {"candidate": 0, "score": 0.7}, row | {"candidate": 1, "score": 0.9}])
    >>> strategy.ask()
    [Request(candidates=(1,), splits=(1, 2), fraction=1.0)]
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self._rounds = self.rounds()
        self._missing = set[Cell]()

    @abstractmethod
    def rounds(self) -> Iterator[Sequence[Request]]:
        """The requests of each round; the generator resumes once their rows have arrived."""

    def ask(self) -> Sequence[Request] | None:
        """See ``Strategy.ask``; empty until all rows of the round have arrived."""
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
