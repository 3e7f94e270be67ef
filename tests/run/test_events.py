from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

from pipelines.run import events
from pipelines.run.events import ProgressEvent, ProgressReporter
from pipelines.run.runners import InProcess, OnCluster


@dataclass(frozen=True)
class Slow:
    name: str
    cost: float = 1.0


def report_three_times(shared, task, report):
    for turn in (1, 2, 3):
        time.sleep(shared)
        report(turn / 3, [{"turn": turn}])
    return task.name


def plain(shared, task):
    return task.name


@pytest.fixture(params=["threads of this process", "workers"])
def runner(request):
    if request.param == "workers":
        return OnCluster(request.getfixturevalue("one_worker"))
    return InProcess(2)


@pytest.mark.slow
def test_a_task_at_work_tells_of_itself(runner):
    tasks = [Slow("a"), Slow("b")]
    event = list(runner.outcomes_and_events(report_three_times, 1.1, tasks))
    outcomes = [entry for entry in event if not isinstance(entry, ProgressEvent)]
    assert sorted(outcome.result for outcome in outcomes) == ["a", "b"]
    for task in tasks:
        of_task = [
            entry for entry in event if isinstance(entry, ProgressEvent) and entry.task == task.name
        ]
        assert [entry.share for entry in of_task[:2]] == pytest.approx([1 / 3, 2 / 3])
        assert [list(entry.rows) for entry in of_task[:2]] == [[{"turn": 1}], [{"turn": 2}]]
        assert of_task[0].worker == outcomes[0].worker
        assert of_task[0].seconds >= 1.0
        assert of_task[1].started == pytest.approx(of_task[0].started + of_task[0].seconds)


def test_a_short_task_tells_nothing(runner):
    event = list(runner.outcomes_and_events(report_three_times, 0.0, [Slow("a")]))
    assert [type(entry).__name__ for entry in event] == ["Outcome"]


def test_a_work_that_is_not_asked_for_news_takes_no_more_than_before(runner):
    assert [outcome.result for outcome in runner.outcomes(plain, 0.0, [Slow("a")])] == ["a"]


def test_news_are_a_second_apart_and_lose_no_row(monkeypatch):
    now, sent = [0.0], list[dict[str, Any]]()
    monkeypatch.setattr(events.time, "monotonic", lambda: now[0])
    report = ProgressReporter("a", "here", sent.append)
    report(0.1, [{"n": 1}])
    assert sent == []
    now[0] = 1.5
    report(0.2, [{"n": 2}])
    assert [(message["share"], message["rows"]) for message in sent] == [
        (0.2, [{"n": 1}, {"n": 2}])
    ]
    now[0] = 3.0
    report(0.205)  # not even a hundredth further
    assert len(sent) == 1
    report(0.22)
    assert sent[1] == {"task": "a", "share": 0.22}
    now[0] = 9.0
    report(0.1, [{"n": 3}])  # of two threads the slower one comes last
    assert sent[2]["share"] == 0.22


def test_the_end_of_compiling_is_told_at_once_and_so_is_its_next_start():
    sent = list[Any]()
    reporter = ProgressReporter("a", "here", sent.append)
    for n in (1, 2, 3, 0, 4, 0):
        reporter.compiling(n)
    assert [message["compiled"] for message in sent] == [1, 0, 4, 0]
