"""Every strategy keeps the contract; one that breaks a rule of it is told so."""

from __future__ import annotations

import pytest

from pipelines.search.strategies import DRAWING, STRATEGIES, strategy_class
from pipelines.search.strategies.base import Request, RoundStrategy
from pipelines.search.strategies.grid import Grid
from pipelines.testing import StrategyContract
from pipelines.testing.strategies import check_scope, scopes


class TestStrategies(StrategyContract):
    @pytest.fixture(params=[name for name in STRATEGIES.own_classes if name not in DRAWING])
    def make_strategy(self, request):
        return strategy_class(request.param)


class Outside(Grid):
    def rounds(self):
        yield [Request((99,), self.scope.splits)]


class OfNoShare(Grid):
    def rounds(self):
        yield [Request((0,), self.scope.splits, 0.5)]


class Twice(Grid):
    def rounds(self):
        for _ in range(2):
            yield [Request(tuple(self.scope.candidates), self.scope.splits)]


class Endless(Grid):
    def ask(self):
        return super().ask() or ()


class Half(Grid):
    def rounds(self):
        yield [Request((0,), (0,))]


class ByWhoIsFirst(RoundStrategy):
    """The first row that comes decides the next round."""

    first: int | None = None

    def tell(self, rows):
        rows = list(rows)
        if rows and self.first is None:
            self.first = rows[0]["candidate"]
        super().tell(rows)

    def rounds(self):
        scope = self.scope
        yield [Request(tuple(scope.candidates), (0,))]
        order = sorted(scope.candidates, key=lambda i: i != self.first)
        yield [Request(tuple(order), scope.splits[1:])]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Outside, "candidate 99 is none"),
        (OfNoShare, "fraction 0.5 is none of"),
        (Twice, "asked for a cell twice"),
        (Endless, "waits for rows, and none are to come"),
        (Half, "was never asked for, and not given up"),
        (ByWhoIsFirst, "asked for other cells"),
    ],
)
def test_what_breaks_it_is_told(kind, words):
    with pytest.raises(AssertionError, match=words):
        check_all(kind)


def check_all(kind):
    for scope in scopes():
        check_scope(kind, scope)
