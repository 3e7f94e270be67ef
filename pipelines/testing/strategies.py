"""The contract of strategies: which candidates are tried, whatever the workers do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from pipelines.search.strategies.base import WHOLE, Cell, Row, Scope, Strategy

Score = Callable[[int, int, float], float | None]
N_ROWS, N_SPLITS = 6_000, 5


@dataclass(frozen=True)
class RowOrder:
    """How rows come.

    Attributes
    ----------
    seed : of their order
    ahead : whether workers do what is asked for ahead, too
    known_rows : rows that are there from the first on, as in a run that is resumed
    """

    seed: int
    ahead: bool = False
    known_rows: Sequence[Row] = ()


class StrategyContract:
    """Tests of a strategy that draws no candidates itself; a subclass defines ``make_strategy``.

    It ends; what it asks for is in its scope, of the fractions that it named, and no cell twice; it
    asks for the same, and gives the same up, in whatever order rows come, whether or not what it
    asked for ahead was done, and if all rows are there from the first on; what is not given up has
    all splits of all rows; and so it is if some fits fail, or all.
    """

    @pytest.fixture
    def make_strategy(self) -> Callable[[Scope], Strategy]:
        """A function, or the class, that makes the strategy of a scope."""
        raise NotImplementedError("define the fixture make_strategy in the subclass")

    @pytest.mark.parametrize("n_candidates", [48, 20, 4, 1])
    def test_it_asks_alike_however_rows_come(
        self, make_strategy: Callable[[Scope], Strategy], n_candidates: int
    ) -> None:
        for scope in scopes():
            if len(scope.candidates) == n_candidates:
                check_scope(make_strategy, scope)


def check_scope(make_strategy: Callable[[Scope], Strategy], scope: Scope) -> None:
    """Hold a strategy to the contract on a scope; see ``StrategyContract``.

    Raises
    ------
    AssertionError
    """
    for score in (made_up, some_fail, all_fail, all_equal):
        strategy = carry_out(make_strategy, scope, score, RowOrder(0))
        rows = list(strategy.rows.values())
        earlier_rows = [row for i, row in enumerate(rows) if i % 3]
        for order in (
            RowOrder(1),
            RowOrder(2, ahead=True),
            RowOrder(3, known_rows=rows),
            RowOrder(4, known_rows=earlier_rows),
        ):
            repeated = carry_out(make_strategy, scope, score, order)
            case = f"{order} of {scope} with {score.__name__}"
            assert list(repeated.requested_cells) == list(strategy.requested_cells), (
                f"asked for other cells: {case}"
            )
            assert repeated.stopped == strategy.stopped, f"gave other candidates up: {case}"


def scopes() -> Iterator[Scope]:
    """Scopes that a strategy has to do with: groups, one candidate, few rows, two splits."""
    groups = [list(range(start, start + 6)) for start in range(0, 48, 6)]
    yield Scope(groups, N_SPLITS, N_ROWS, seed=1, parameters=numbered_parameters(48))
    yield Scope(groups, N_SPLITS, N_ROWS, 1, numbered_parameters(48), splits_share=True)
    yield Scope([[i] for i in range(20)], 2, 80, parameters=numbered_parameters(20))
    yield Scope([[3, 1], [0, 2]], 3, N_ROWS, parameters=numbered_parameters(4))
    yield Scope([[0]], N_SPLITS, N_ROWS, parameters=numbered_parameters(1))


def numbered_parameters(n: int) -> list[Mapping[str, float]]:
    """Parameters of so many candidates."""
    return [{"C": float(i % 6), "gamma": float(i // 6)} for i in range(n)]


def made_up(candidate: int, split: int, fraction: float) -> float | None:
    """Scores with an optimum, that differ more on fewer rows."""
    noise = np.random.default_rng([candidate, split, round(1e6 * fraction)]).normal()
    return 0.9 - 0.01 * abs(candidate - 13) + 0.004 * float(noise) / math.sqrt(fraction)


def some_fail(candidate: int, split: int, fraction: float) -> float | None:
    """Scores of fits of which some fail: of a candidate always, of others on few rows alone."""
    fails = candidate % 5 == 3 or (fraction < WHOLE and candidate % 4 == 1 and split == 1)
    return None if fails else made_up(candidate, split, fraction)


def all_fail(candidate: int, split: int, fraction: float) -> float | None:
    """Of fits that all fail there are no scores."""
    return None


def all_equal(candidate: int, split: int, fraction: float) -> float | None:
    """Scores that tell no candidate from another."""
    return 0.5


def engine_row(cell: Cell, score: Score, n_validation: int) -> Row:
    """A row as the engine tells it."""
    candidate, split, fraction = cell
    value = score(*cell)
    row = {"candidate": candidate, "split": split, "share": fraction, "score": value}
    n_errors = None if value is None else round((1 - value) * n_validation)
    row |= {"n_validation": n_validation, "n_errors": n_errors, "error": None}
    return row | ({} if value is None else {"error": 1 - value})


def carry_out(
    make: Callable[[Scope], Strategy], scope: Scope, score: Score, order: RowOrder
) -> Strategy:
    """Ask a strategy and tell it rows, in a random order, until nothing is left.

    Raises
    ------
    AssertionError
        It does not end, or asks for what is not in its scope.
    """
    strategy, generator = make(scope), np.random.default_rng(order.seed)
    fractions = {WHOLE, *strategy.fractions(len(scope.candidates), scope.n_rows, scope.n_splits)}
    assert all(0 < fraction <= WHOLE for fraction in fractions), (
        f"fractions of the rows: {fractions}"
    )
    n_cells = len(fractions) * len(scope.candidates) * scope.n_splits  # all cells that there are
    strategy.tell(order.known_rows)
    requested, waiting = set[Cell](), list[Cell]()
    for _ in range(3 * n_cells + 3):
        requests = strategy.ask()
        if requests is None:
            assert not waiting, "it ended while rows were to come"
            _check_end(strategy)
            return strategy
        cells = [cell for request in requests for cell in request.cells]
        for candidate, split, fraction in cells:
            assert (candidate, split, fraction) not in requested, "it asked for a cell twice"
            assert candidate in scope.candidates, f"candidate {candidate} is none"
            assert split in scope.splits, f"split {split} is none"
            assert fraction in fractions, f"fraction {fraction:g} is none of {fractions}"
            requested.add((candidate, split, fraction))
        waiting += [cell for cell in cells if cell not in strategy.rows]
        ahead = [cell for request in strategy.ahead() for cell in request.cells]
        assert {fraction for _, _, fraction in ahead} <= fractions, "a fraction ahead is none"
        if order.ahead and ahead:
            strategy.tell([engine_row(ahead[0], score, scope.n_rows // scope.n_splits)])
            waiting = [cell for cell in waiting if cell != ahead[0]]
        assert cells or waiting or ahead, "it waits for rows, and none are to come"
        generator.shuffle(waiting)
        n = int(generator.integers(1, 1 + max(1, len(waiting) // 2)))
        told_now, waiting = waiting[:n], waiting[n:]
        rows = [engine_row(cell, score, scope.n_rows // scope.n_splits) for cell in told_now]
        strategy.tell(rows)
    raise AssertionError(f"it did not end: {scope}")


def _check_end(strategy: Strategy) -> None:
    """What is not given up has all rows, and what is given up is of the scope."""
    scope = strategy.scope
    assert set(strategy.stopped) <= set(scope.candidates), "it gave up what is no candidate"
    remaining = [i for i in scope.candidates if i not in strategy.stopped]
    scores = [row["score"] for row in strategy.rows.values()]
    assert remaining or None in scores, "it gave all candidates up, and no fit failed"
    for candidate in remaining:
        for split in scope.splits:
            cell = candidate, split, WHOLE
            assert cell in strategy.requested_cells, f"{cell} was never asked for, and not given up"
            assert cell in strategy.rows, f"{cell} is to come"
