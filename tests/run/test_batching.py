"""Units that share a task: how they are put together, and that none is lost by it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from distributed import Client

from cluster_setup import open_cluster
from pipelines.run import batching
from pipelines.run.batching import in_tasks
from pipelines.run.tasks import RETRIES, OnCluster


@dataclass(frozen=True)
class Number:
    value: int
    cost: float = 1.0
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"number-{self.value}"


@pytest.fixture
def few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a scheduler served ten tasks."""
    monkeypatch.setattr(batching, "TASKS", 10)
    monkeypatch.setattr(batching, "TASKS_A_WORKER", 1)


def test_few_units_have_a_task_each() -> None:
    units = [Number(value) for value in range(batching.TASKS)]
    assert in_tasks(units, 2, ()) == [(unit,) for unit in units]


def test_a_task_is_a_small_part_of_a_workers_share() -> None:
    units = [Number(value, cost=100_000.0 - value) for value in range(100_000)]
    for n_workers in (1, 64):
        tasks = in_tasks(units, n_workers, ())
        assert [unit for task in tasks for unit in task] == units
        most = max(batching.TASKS, batching.TASKS_A_WORKER * n_workers)
        assert most / 2 < len(tasks) < 2 * most
        share = sum(unit.cost for unit in units) / n_workers
        assert max(sum(unit.cost for unit in task) for task in tasks) <= share / 200


@pytest.mark.parametrize("cost", [0.0, 1.0])
def test_what_is_large_needs_or_is_needed_has_its_own(few_tasks: None, cost: float) -> None:
    units = [
        Number(0, cost=1000 * cost), *(Number(value, cost) for value in range(1, 50)),
        Number(50, cost, needs=("number-7",)),
    ]  # fmt: skip
    tasks = in_tasks(units, 2, {"number-9"})
    assert [unit for task in tasks for unit in task] == units
    alone = {task[0].value for task in tasks if len(task) == 1}
    assert {7, 9, 50} <= alone
    assert (0 in alone) == bool(cost)
    assert len(tasks) < 25


def fail_at_first(shared: str, unit: Number) -> int:
    tries = Path(shared) / str(unit.value)
    with open(tries, "a") as file:
        file.write("x")
    if unit.value % 10 == 3 and (unit.value == 3 or len(tries.read_text()) == 1):
        raise OSError("try again")
    return unit.value


def test_a_unit_that_raises_is_tried_again_by_itself(
    few_tasks: None, tmp_path: Path, one_worker: Client
) -> None:
    units = [Number(value) for value in range(60)]
    found = {one.unit.value: one for one in OnCluster(one_worker).outcomes(
        fail_at_first, str(tmp_path), units)}  # fmt: skip
    assert found.pop(3).error == "OSError: try again"
    assert {value: one.result for value, one in found.items()} == {
        value: value for value in range(60) if value != 3
    }
    tries = {value: len((tmp_path / str(value)).read_text()) for value in range(60)}
    assert tries.pop(3) == 1 + RETRIES + 1
    assert all(count == 1 + (value % 10 == 3) for value, count in tries.items())


def die_on_three(shared: int, unit: Number) -> int:
    if unit.value == 3:
        time.sleep(0.5)  # a nanny does not restart a worker that dies while it starts
        os.kill(os.getpid(), signal.SIGKILL)
    return shared + unit.value


@pytest.mark.slow
def test_a_unit_that_kills_its_worker_fails_alone(few_tasks: None) -> None:
    units = [Number(value) for value in range(40)]
    with open_cluster("local", 2) as client:
        found = {one.unit.value: one for one in OnCluster(client).outcomes(die_on_three, 5, units)}
    assert "its worker died" in found.pop(3).error
    assert {value: one.result for value, one in found.items()} == {
        value: 5 + value for value in range(40) if value != 3
    }
