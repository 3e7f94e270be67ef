"""A unit whose folds are told before it is done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipelines.data import load_dataset, make_folds
from pipelines.data.placement import FoldedData
from pipelines.run.news import News
from pipelines.run.outcomes import Outcome
from pipelines.svm.parts import Parts
from pipelines.svm.backends import Settings
from pipelines.svm.units import Row, Unit, fit_unit

UNIT = Unit((0.1,), (1.0, 10.0), (0, 1, 2), cost=6.0)
PLACES = ["C", "gamma", "fold"]


def rows_of(*folds: int) -> list[Row]:
    return [{"C": C, "gamma": 0.1, "fold": fold} for fold in folds for C in (1.0, 10.0)]


def test_a_fold_that_is_told_is_a_unit_of_its_own() -> None:
    parts = Parts([UNIT])
    ((news, rows),) = parts.of(News(UNIT.name, 0.3, rows_of(1), "here", 100.0, 20.0))
    assert (news.part, news.started, news.seconds) == ("svm-gamma=0.1 fold=1 2 C", 100.0, 20.0)
    assert rows == rows_of(1)
    done = Outcome(UNIT, None, None, "here", 90.0, 60.0)
    outcome, rest = parts.rest(done, rows_of(0, 1, 2))
    assert rest == rows_of(0, 2)
    assert (outcome.part, outcome.started, outcome.seconds) == (
        "svm-gamma=0.1 2 folds 2 C", 120.0, 30.0,
    )  # fmt: skip
    assert outcome.unit == UNIT


def test_folds_told_at_once_share_the_time() -> None:
    told = list(Parts([UNIT]).of(News(UNIT.name, 0.6, rows_of(2, 0), "here", 100.0, 20.0)))
    assert [(news.part.split()[1], news.started, news.seconds) for news, _ in told] == [
        ("fold=2", 100.0, 10.0), ("fold=0", 110.0, 10.0),
    ]  # fmt: skip


def test_a_unit_that_is_begun_anew_gives_no_row_twice() -> None:
    parts = Parts([UNIT])
    list(parts.of(News(UNIT.name, 0.6, rows_of(0, 1))))
    ((_, again),) = parts.of(News(UNIT.name, 0.3, rows_of(0)))
    assert again == []
    ((_, new),) = parts.of(News(UNIT.name, 0.9, rows_of(1, 2)))
    assert new == rows_of(2)
    outcome, rest = parts.rest(Outcome(UNIT), rows_of(0, 1, 2))
    assert (outcome.part, rest) == ("", [])


def test_a_unit_that_told_nothing_is_left_as_it_is() -> None:
    done = Outcome(UNIT, None, None, "here", 90.0, 60.0)
    assert Parts([UNIT]).rest(done, rows_of(0, 1, 2)) == (done, rows_of(0, 1, 2))


def test_a_resumed_unit_has_the_folds_that_are_left() -> None:
    done = {(C, 0.1, fold) for C in (1.0, 10.0) for fold in (0, 2)} | {(1.0, 0.1, 1)}
    left = UNIT.without(done)
    assert left is not None
    assert (left.folds, left.Cs, left.cost) == ((1,), (1.0, 10.0), 2.0)
    assert UNIT.without(done | {(10.0, 0.1, 1)}) is None


@pytest.fixture(scope="module")
def digits() -> FoldedData:
    data = load_dataset("digits", limit=500)
    folds = make_folds(data.y_train, 3, 0)
    return FoldedData(data.X_train, data.y_train, data.X_test, data.y_test, folds, data.scaling)


def less_times(rows: list[Row]) -> list[Row]:
    return [{key: row[key] for key in row if not key.endswith("_seconds")} for row in rows]


@pytest.mark.parametrize("solver", ["path", "sklearn"])
def test_all_folds_but_the_last_are_told_and_are_the_same_rows(
    digits: FoldedData, solver: str
) -> None:
    unit, told, shares = Unit((1e-3, 1e-2), (1.0, 100.0), (0, 1, 2)), [], []

    def tell(share: float, rows: Any = ()) -> None:
        shares.append(share)
        told.extend(rows)

    whole = fit_unit(digits, unit, solver, Settings(), tell)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert {row["fold"] for row in told} < {0, 1, 2}
    assert len(told) == 8
    by_place = {tuple(row[name] for name in PLACES): row for row in whole}
    assert all(by_place[tuple(row[name] for name in PLACES)] == row for row in told)
    for fold in range(3):
        alone = fit_unit(digits, unit.part(fold), solver, Settings())
        assert less_times(alone) == less_times([row for row in whole if row["fold"] == fold])
    assert np.isfinite([row["fit_seconds"] for row in whole]).all()
