"""Tasks that share a task: how they are put together, and that none is lost by it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from distributed import Client

from cluster_setup import open_cluster
from pipelines.run import tasks as batching
from pipelines.run.tasks import RETRIES, OnCluster, in_batches


@dataclass(frozen=True)
class Number:
    value: int
    cost: float = 1.0
    is_urgent: bool = False

    @property
    def name(self) -> str:
        return f"number-{self.value}"


@pytest.fixture
def few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a scheduler served ten tasks."""
    monkeypatch.setattr(batching, "BATCHES", 10)
    monkeypatch.setattr(batching, "BATCHES_PER_WORKER", 1)


def test_each_of_few_tasks_is_a_batch() -> None:
    tasks = [Number(value) for value in range(batching.BATCHES)]
    assert in_batches(tasks, 2, ()) == [(task,) for task in tasks]


def test_a_batch_is_a_small_part_of_a_workers_share() -> None:
    tasks = [Number(value, cost=100_000.0 - value) for value in range(100_000)]
    for n_workers in (1, 64):
        batches = in_batches(tasks, n_workers, ())
        assert [task for batch in batches for task in batch] == tasks
        most = max(batching.BATCHES, batching.BATCHES_PER_WORKER * n_workers)
        assert most / 2 < len(batches) < 2 * most
        share = sum(task.cost for task in tasks) / n_workers
        assert max(sum(task.cost for task in batch) for batch in batches) <= share / 200


@pytest.mark.parametrize("cost", [0.0, 1.0])
def test_what_is_large_or_urgent_has_its_own(few_tasks: None, cost: float) -> None:
    tasks = [
        Number(0, cost=1000 * cost),
        *(Number(value, cost) for value in range(1, 50)),
        Number(50, cost, is_urgent=True),
    ]
    batches = in_batches(tasks, 2, {"number-9"})
    assert [task for batch in batches for task in batch] == tasks
    alone = {batch[0].value for batch in batches if len(batch) == 1}
    assert {9, 50} <= alone
    assert (0 in alone) == bool(cost)
    assert len(batches) < 25


def fail_at_first(shared: str, task: Number) -> int:
    tries = Path(shared) / str(task.value)
    with open(tries, "a") as file:
        file.write("x")
    if task.value % 10 == 3 and (task.value == 3 or len(tries.read_text()) == 1):
        raise OSError("try again")
    return task.value


def test_a_task_that_raises_is_tried_again_by_itself(
    few_tasks: None, tmp_path: Path, one_worker: Client
) -> None:
    tasks = [Number(value) for value in range(60)]
    found = {
        one.task.value: one
        for one in OnCluster(one_worker).outcomes(fail_at_first, str(tmp_path), tasks)
    }
    assert found.pop(3).error == "OSError: try again"
    assert {value: one.result for value, one in found.items()} == {
        value: value for value in range(60) if value != 3
    }
    tries = {value: len((tmp_path / str(value)).read_text()) for value in range(60)}
    assert tries.pop(3) == 1 + RETRIES + 1
    assert all(count == 1 + (value % 10 == 3) for value, count in tries.items())


def die_on_three(shared: int, task: Number) -> int:
    if task.value == 3:
        time.sleep(0.5)  # a nanny does not restart a worker that dies while it starts
        os.kill(os.getpid(), signal.SIGKILL)
    return shared + task.value


@pytest.mark.slow
def test_a_task_that_kills_its_worker_fails_alone(few_tasks: None) -> None:
    tasks = [Number(value) for value in range(40)]
    with open_cluster("local", 2) as client:
        found = {one.task.value: one for one in OnCluster(client).outcomes(die_on_three, 5, tasks)}
    assert "its worker died" in found.pop(3).error
    assert {value: one.result for value, one in found.items()} == {
        value: 5 + value for value in range(40) if value != 3
    }
