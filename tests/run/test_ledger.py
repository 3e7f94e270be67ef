from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from pipelines.run.ledger import ledger
from pipelines.run.news import News
from pipelines.run.outcomes import Outcome

UNITS: list[Any] = [SimpleNamespace(name="a", cost=1.0), SimpleNamespace(name="b", cost=2.0)]
RUNNER: Any = SimpleNamespace(n_workers=2)


def test_a_unit_is_written_down_as_it_arrives() -> None:
    journal = Mock()
    with ledger(journal, RUNNER, UNITS, True, {}) as books:
        books.enter(Outcome(UNITS[0], "r", None, "here", 5.0, 0.25), [{"fold": 0}])
        journal.append.assert_called_once_with(
            {"unit": "a", "worker": "here", "started": 5.0, "seconds": 0.25, "rows": [{"fold": 0}]}
        )


def test_rows_of_a_unit_at_work_are_written_down_by_the_name_of_their_part() -> None:
    journal, facts = Mock(), dict[str, Any]()
    with ledger(journal, RUNNER, UNITS, True, facts) as books:
        books.follow(News("a", 0.2))
        books.follow(News("a", 0.5, [{"fold": 0}], "here", 5.0, 0.25, "part"), [{"fold": 0}])
        journal.append.assert_called_once_with(
            {"unit": "part", "worker": "here", "started": 5.0, "seconds": 0.25,
             "rows": [{"fold": 0}]}
        )  # fmt: skip
        books.enter(Outcome(UNITS[0], part="rest"), [{"fold": 1}])
        assert journal.append.call_args.args[0]["unit"] == "rest"
        books.enter(Outcome(UNITS[1], part=""), [])  # its parts were all there was
    assert journal.append.call_count == 2


def test_the_workers_busy_share(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 110.0])
    monkeypatch.setattr("pipelines.run.ledger.time.perf_counter", lambda: next(clock))
    facts: dict[str, Any] = {}
    with ledger(Mock(), RUNNER, UNITS, True, facts) as books:
        for unit in UNITS:
            books.enter(Outcome(unit, seconds=7.0), [])
    assert facts == {"busy_share": 0.7}  # 14 of 2 workers x 10 seconds


def test_nothing_to_do_says_nothing_of_the_share() -> None:
    facts: dict[str, Any] = {}
    with ledger(Mock(), RUNNER, [], True, facts):
        pass
    assert facts == {}
