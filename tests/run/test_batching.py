"""Tasks that share a task: how they are put together, and that none is lost by it."""

from __future__ import annotations

import math
import os
import signal
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from cluster_setup import open_cluster
from pipelines.run import runners as batching
from pipelines.run.recycling import Recycling
from pipelines.run.runners import RETRIES, OnCluster, batch_tasks, run_batch


@dataclass(frozen=True)
class Number:
    value: int
    cost: float = 1.0
    is_urgent: bool = False

    @property
    def name(self):
        return f"number-{self.value}"


@pytest.fixture
def few_tasks(monkeypatch):
    """As if a few dozen tasks were many."""
    monkeypatch.setattr(batching, "BATCHES_PER_WORKER", 2)


def test_each_of_few_tasks_is_a_batch():
    tasks = [Number(value) for value in range(2 * batching.BATCHES_PER_WORKER)]
    assert batch_tasks(tasks, 2, ()) == [(task,) for task in tasks]
    assert len(batch_tasks(tasks, 0, ())) > 1  # the only worker is being replaced


@pytest.mark.parametrize("n_workers", [1, 64])
def test_a_batch_is_a_small_part_of_what_is_left_for_a_worker(n_workers):
    tasks = [Number(value, cost=100_000.0 - value) for value in range(100_000)]
    batches = batch_tasks(tasks, n_workers, ())
    assert [task for batch in batches for task in batch] == tasks
    assert len(batches) < 20 * batching.BATCHES_PER_WORKER * n_workers
    cost_left = sum(task.cost for task in tasks)
    for batch in batches:
        cost = sum(task.cost for task in batch)
        assert len(batch) == 1 or cost <= cost_left / n_workers / batching.BATCHES_PER_WORKER
        cost_left -= cost
    assert all(len(batch) == 1 for batch in batches[-n_workers:])


@pytest.mark.parametrize("cost", [0.0, 1.0])
def test_what_is_large_or_urgent_has_its_own(few_tasks, cost):
    tasks = [
        Number(0, cost=1000 * cost),
        *(Number(value, cost) for value in range(1, 50)),
        Number(50, cost, is_urgent=True),
    ]
    batches = batch_tasks(tasks, 2, {"number-9"})
    assert [task for batch in batches for task in batch] == tasks
    alone = {batch[0].value for batch in batches if len(batch) == 1}
    assert {9, 50} <= alone
    assert (0 in alone) == bool(cost)
    assert len(batches) < 30


def fail_at_first(shared, task):
    tries = Path(shared) / str(task.value)
    with open(tries, "a") as file:
        file.write("x")
    if task.value % 10 == 3 and (task.value == 3 or len(tries.read_text()) == 1):
        raise OSError("try again")
    return task.value


def test_a_task_that_raises_is_tried_again_by_itself(few_tasks, tmp_path, one_worker):
    tasks = [Number(value) for value in range(60)]
    outcomes = {
        outcome.task.value: outcome
        for outcome in OnCluster(one_worker).outcomes(fail_at_first, str(tmp_path), tasks)
    }
    assert outcomes.pop(3).error == "OSError: try again"
    assert {value: outcome.result for value, outcome in outcomes.items()} == {
        value: value for value in range(60) if value != 3
    }
    tries = {value: len((tmp_path / str(value)).read_text()) for value in range(60)}
    assert tries.pop(3) == 1 + RETRIES + 1
    assert all(count == 1 + (value % 10 == 3) for value, count in tries.items())


def die_on_three(shared, task):
    if task.value == 3:
        time.sleep(0.5)  # a nanny does not restart a worker that dies while it starts
        os.kill(os.getpid(), signal.SIGKILL)
    return shared + task.value


@pytest.mark.slow
def test_a_task_that_kills_its_worker_fails_alone(few_tasks):
    tasks = [Number(value) for value in range(40)]
    with open_cluster("local", 2) as client:
        outcomes = {
            outcome.task.value: outcome
            for outcome in OnCluster(client).outcomes(die_on_three, 5, tasks)
        }
    assert "its worker died" in outcomes.pop(3).error
    assert {value: outcome.result for value, outcome in outcomes.items()} == {
        value: 5 + value for value in range(40) if value != 3
    }


def value_of(shared, task):
    return shared + task.value


def test_a_batch_that_has_taken_long_ends(monkeypatch):
    tasks = tuple(Number(value) for value in range(4))
    for seconds, values in ((math.inf, [0, 1, 2, 3]), (-1.0, [0])):
        monkeypatch.setattr(batching, "SECONDS_OF_A_BATCH", seconds)
        assert [entry["result"] for entry in run_batch(value_of, 0, tasks)] == values


def test_tasks_of_batches_that_ended_are_handed_out_anew(few_tasks, one_worker, monkeypatch):
    monkeypatch.setattr(batching, "run_batch", first_alone)
    tasks = [Number(value, cost=100.0 - value) for value in range(60)]
    outcomes = list(OnCluster(one_worker).outcomes(value_of, 0, tasks))
    assert sorted(outcome.result for outcome in outcomes) == list(range(60))


def first_alone(work, shared, tasks, *arguments, **named):
    """As if the first task of a batch had taken all its time."""
    return run_batch(work, shared, tasks[:1], *arguments, **named)


def test_outcomes_of_a_batch_say_that_others_follow(few_tasks, one_worker):
    tasks = [Number(value) for value in range(40)]
    outcomes = list(OnCluster(one_worker).outcomes(value_of, 0, tasks))
    assert any(outcome.has_next for outcome in outcomes)
    assert not outcomes[-1].has_next
    batch = {task: batch for batch in batch_tasks(tasks, 1, ()) for task in batch}
    for outcome, after in pairwise(outcomes):
        assert not outcome.has_next or batch[outcome.task] == batch[after.task]


def test_processes_that_end_after_some_tasks_do_one_at_a_time(few_tasks, one_worker):
    tasks = [Number(value) for value in range(40)]
    runner = OnCluster(one_worker, Recycling(n_tasks=100))
    assert not any(outcome.has_next for outcome in runner.outcomes(value_of, 0, tasks))
