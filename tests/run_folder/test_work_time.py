from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.run_folder.reading import FinishedTask, recorded_tasks
from pipelines.run_folder.work_time import (
    busy_fraction,
    compile_seconds,
    peaks,
    worker_timelines,
    workers_of,
)


def task(worker, started, seconds, compiled=0.0):
    return FinishedTask("svm", worker, started, seconds, (), compiled)


def test_the_share_is_work_of_the_time_from_the_first_task_to_the_last():
    tasks = [task("a", 100, 4), task("b", 101, 2), task("a", 105, 5)]
    assert busy_fraction(tasks) == pytest.approx((9 + 2) / 20)
    assert busy_fraction(tasks, ["a", "b", "idle"]) == pytest.approx(11 / 30)
    assert busy_fraction([]) is None


def test_the_share_of_a_run_is_that_of_its_workers_together():
    tasks = [task("a", 0, 4), task("b", 1, 2), task("a", 5, 5)]
    rows = worker_timelines(tasks)
    shares = [row.busy_fraction for row in rows]
    assert shares == pytest.approx([0.9, 0.2])
    assert busy_fraction(tasks) == pytest.approx(sum(shares) / 2)


def test_a_worker_of_one_session_is_not_missed_in_the_other():
    tasks = [task("a", 0, 100), task("b", 50_000, 80), task("b", 50_080, 20)]
    assert [row.present_seconds for row in worker_timelines(tasks)] == [100, 100]
    assert busy_fraction(tasks) == pytest.approx(1)


def in_session(number, *tasks):
    return [replace(entry, session=number) for entry in tasks]


def test_the_time_in_which_no_worker_was_there_counts_within_a_session():
    tasks = in_session(1, task("a", 0, 6), task("b", 0, 6), task("c", 106, 5), task("d", 106, 5))
    assert busy_fraction(tasks, ["a", "b"]) == pytest.approx(22 / 222)
    resumed = [*tasks[:2], *in_session(2, *tasks[2:])]
    assert busy_fraction(resumed, ["a", "b"]) == pytest.approx(1)
    old = [replace(entry, session=0) for entry in tasks]  # of a version that did not say
    assert busy_fraction(old, ["a", "b"]) == pytest.approx(1)


def test_a_worker_and_the_one_that_replaced_it_are_one():
    tasks = in_session(1, task("a", 0, 50), task("b", 0, 20), task("b", 20, 80), task("c", 60, 40))
    assert busy_fraction(tasks, ["a", "b"]) == pytest.approx(190 / 200)


def test_a_group_is_at_work_on_all_its_workers():
    tasks = [task("a b", 0, 6), task("a", 6, 2)]
    assert [(row.worker, row.busy_seconds) for row in worker_timelines(tasks)] == [
        ("a", 8),
        ("b", 6),
    ]
    assert workers_of(tasks[:1], ["b"]) == ["b"]


def test_workers_that_nobody_knows_are_those_of_the_journal():
    assert workers_of([task("a", 0, 1)], ["a", "b"]) == ["a", "b"]
    assert workers_of([task("x", 0, 1)], ["a", "b"]) == []


def test_workers_compile_at_the_same_time():
    tasks = [task("a", 0, 9, 5.0), task("b", 0, 9, 6.0), task("a", 9, 9, 2.0)]
    assert compile_seconds(tasks) == 7.0


def test_the_most_memory_of_a_worker_is_that_of_its_largest_task():
    lines = [
        {"worker": "a", "peak_memory": 5},
        {"worker": "b"},
        {"worker": "a c", "peak_memory": 3, "peak_gpu_memory": 8},
    ]
    same = {"task": "svm", "started": 0.0, "seconds": 1.0, "rows": []}
    assert peaks(recorded_tasks([same | line for line in lines])) == {
        "a": {"peak_memory": 5, "peak_gpu_memory": 8},
        "b": {},
        "c": {"peak_memory": 3, "peak_gpu_memory": 8},
    }
