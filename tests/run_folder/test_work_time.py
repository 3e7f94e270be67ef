from __future__ import annotations

import pytest

from pipelines.run_folder.reading import Unit
from pipelines.run_folder.work_time import busy_share, compile_seconds, worker_timelines, workers_of


def unit(worker: str, started: float, seconds: float, compiled: float = 0.0) -> Unit:
    return Unit("svm", worker, started, seconds, (), compiled)


def test_the_share_is_work_of_the_time_from_the_first_unit_to_the_last() -> None:
    units = [unit("a", 100, 4), unit("b", 101, 2), unit("a", 105, 5)]
    assert busy_share(units) == pytest.approx((9 + 2) / 20)
    assert busy_share(units, ["a", "b", "idle"]) == pytest.approx(11 / 30)
    assert busy_share([]) is None


def test_the_share_of_a_run_is_that_of_its_workers_together() -> None:
    units = [unit("a", 0, 4), unit("b", 1, 2), unit("a", 5, 5)]
    rows = worker_timelines(units)
    shares = [row.busy_share for row in rows]
    assert shares == pytest.approx([0.9, 0.2])
    assert busy_share(units) == pytest.approx(sum(shares) / 2)


def test_a_worker_of_one_session_is_not_missed_in_the_other() -> None:
    units = [unit("a", 0, 100), unit("b", 50_000, 80), unit("b", 50_080, 20)]
    assert [row.present_seconds for row in worker_timelines(units)] == [100, 100]
    assert busy_share(units) == pytest.approx(1)


def test_a_gang_is_at_work_on_all_its_workers() -> None:
    units = [unit("a b", 0, 6), unit("a", 6, 2)]
    assert [(row.worker, row.busy_seconds) for row in worker_timelines(units)] == [
        ("a", 8),
        ("b", 6),
    ]
    assert workers_of(units[:1], ["b"]) == ["b"]


def test_workers_that_nobody_knows_are_those_of_the_journal() -> None:
    assert workers_of([unit("a", 0, 1)], ["a", "b"]) == ["a", "b"]
    assert workers_of([unit("x", 0, 1)], ["a", "b"]) == []


def test_workers_compile_at_the_same_time() -> None:
    units = [unit("a", 0, 9, 5.0), unit("b", 0, 9, 6.0), unit("a", 9, 9, 2.0)]
    assert compile_seconds(units) == 7.0
