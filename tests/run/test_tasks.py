from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, get_worker

from cluster_setup import open_cluster
from pipelines.run.tasks import RETRIES, InProcess, OnCluster, Runner


@dataclass(frozen=True)
class Number:
    value: int
    cost: float = 1.0

    @property
    def name(self) -> str:
        return f"number-{self.value}"


NUMBERS = [Number(value, cost=value % 7) for value in range(30)]


def add(shared: int, task: Number) -> int:
    return shared + task.value


def fail_on_three(shared: int, task: Number) -> int:
    if task.value == 3:
        raise ZeroDivisionError("three\nand more")
    return task.value


def note_order(shared: str, task: Number) -> int:
    with open(shared, "a") as file:
        file.write(f"{task.value}\n")
    return task.value


def count_tries(shared: str, task: Number) -> int:
    tries = Path(shared) / str(task.value)
    with open(tries, "a") as file:
        file.write("x")
    if len(tries.read_text()) <= task.cost:
        raise OSError("try again")
    return task.value


def die_on_three(shared: int, task: Number) -> int:
    if task.value == 3:
        time.sleep(0.5)  # a nanny does not restart a worker that dies while it starts
        os.kill(os.getpid(), signal.SIGKILL)
    return shared + task.value


def size_of_shared(shared: np.ndarray, task: Number) -> tuple[int, str]:
    time.sleep(0.05)
    return shared.nbytes, get_worker().address


@dataclass(frozen=True)
class Sum:
    """A task that needs the results of others."""

    name: str
    needs: tuple[str, ...]
    cost: float = 0.5


def add_or_sum(shared: int, task: Number | Sum, needed: list[int | None] | None = None) -> Any:
    if isinstance(task, Number):
        return add(shared, task)
    assert needed is not None
    return [shared, *needed]


def fail_on_three_or_sum(
    shared: int, task: Number | Sum, needed: list[int | None] | None = None
) -> Any:
    if isinstance(task, Number):
        return fail_on_three(shared, task)
    if task.name == "bad":
        raise ZeroDivisionError("bad itself")
    return needed


def die_on_three_or_sum(
    shared: int, task: Number | Sum, needed: list[int | None] | None = None
) -> Any:
    return die_on_three(shared, task) if isinstance(task, Number) else needed


def slow_or_sum(shared: Any, task: Number | Sum, needed: list[Any] | None = None) -> Any:
    time.sleep(0.05)
    return task.value * int(shared[0]) if isinstance(task, Number) else needed


SUMS = [Sum("first", ("number-2", "number-1")), Sum("second", ("number-3", "number-4"))]


@pytest.fixture(params=["in process", "on a cluster"])
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    if request.param == "in process":
        yield InProcess(2)
    else:
        yield OnCluster(request.getfixturevalue("four_workers"))


def test_every_task_has_one_outcome(runner: Runner) -> None:
    outcomes = list(runner.outcomes(add, 100, NUMBERS))
    assert sorted(outcome.task.value for outcome in outcomes) == list(range(30))
    assert all(outcome.result == 100 + outcome.task.value for outcome in outcomes)
    assert all(outcome.seconds >= 0 and outcome.started > 1e9 for outcome in outcomes)


def test_a_consumer_may_stop_early(runner: Runner) -> None:
    outcomes = runner.outcomes(add, 1, NUMBERS)
    next(outcomes)
    outcomes.close()
    assert len(list(runner.outcomes(add, 1, NUMBERS))) == 30


def by_name(outcomes: Iterator[Any]) -> dict[str, Any]:
    return {outcome.task.name: outcome for outcome in outcomes}


def test_a_task_is_given_the_results_it_needs_in_their_order(runner: Runner) -> None:
    found = by_name(runner.outcomes(add_or_sum, 100, [*SUMS, *NUMBERS]))
    assert len(found) == 32
    assert found["first"].result == [100, 102, 101]
    assert found["second"].result == [100, 103, 104]


def test_what_was_done_before_is_given_and_not_done_again(runner: Runner) -> None:
    known = {"number-2": 7, "number-3": None}
    found = by_name(runner.outcomes(add_or_sum, 100, [*SUMS, Number(1), Number(4)], known))
    assert set(found) == {"first", "second", "number-1", "number-4"}
    assert found["first"].result == [100, 7, 101]
    assert found["second"].result == [100, None, 104]


def test_a_task_does_without_what_failed(runner: Runner) -> None:
    bad = Sum("bad", ("number-5",))
    worse = Sum("worse", ("number-3", "bad"))
    found = by_name(runner.outcomes(fail_on_three_or_sum, 0, [worse, bad, *SUMS, *NUMBERS]))
    assert found["number-3"].error == "ZeroDivisionError: three"
    assert found["first"].result == [2, 1]
    assert found["second"].result == [None, 4]
    assert found["bad"].error == "ZeroDivisionError: bad itself"
    assert found["worse"].result == [None, None]
    assert len(found) == 34


def test_a_need_that_nobody_meets_is_an_error(runner: Runner) -> None:
    with pytest.raises(ValueError, match="number-9"):
        list(runner.outcomes(add_or_sum, 0, [Sum("lone", ("number-9",))]))


@pytest.mark.slow
def test_a_task_does_without_what_killed_its_worker() -> None:
    with open_cluster("local", 2) as client:
        found = by_name(OnCluster(client).outcomes(die_on_three_or_sum, 5, [*SUMS, *NUMBERS[:9]]))
    assert found["number-3"].error == "its worker died 4 times"  # Dask allows three
    assert found["first"].result == [7, 6]
    assert found["second"].result == [None, 9]


def test_workers_killed_from_outside_cost_no_result_that_others_need() -> None:
    shared = np.ones(1000)
    everything = Sum("all", tuple(number.name for number in NUMBERS))
    with open_cluster("local", 2) as client:
        pids = list(client.run(os.getpid).values())
        outcomes = OnCluster(client).outcomes(slow_or_sum, shared, [everything, *NUMBERS])
        found = [next(outcomes)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        found += list(outcomes)
    assert by_name(iter(found))["all"].result == list(range(30))


@pytest.mark.parametrize("where", ["in process", "on a cluster"])
def test_costly_tasks_begin_first(where: str, tmp_path: Path, one_worker: Client) -> None:
    runner = InProcess(1) if where == "in process" else OnCluster(one_worker)
    log = tmp_path / "order"
    tasks = [Number(value, cost=value) for value in (3, 9, 1, 7, 5, 2)]
    list(runner.outcomes(note_order, str(log), tasks))
    assert log.read_text().split() == ["9", "7", "5", "3", "2", "1"]


def wait_for_the_file(shared: str, task: Number | Sum, needed: object = None) -> str:
    while not Path(shared).exists():
        time.sleep(0.02)
    return task.name


def where_tasks_are(dask_scheduler: Any) -> tuple[int, int]:
    """On workers, and waiting at the scheduler; those of tasks alone."""
    tasks = [task for key, task in dask_scheduler.tasks.items() if "number" in str(key)]
    states = [task.state for task in tasks]
    return states.count("processing"), states.count("queued")


# Dask by itself hands out at once a few, and all of one name if any of them needs others.
@pytest.mark.parametrize(
    "tasks",
    [NUMBERS, NUMBERS[:2], [*NUMBERS[:8], Sum("number-sum", ("number-2", "number-1"))]],
    ids=["many", "few", "some needed by another"],
)
def test_tasks_wait_at_the_scheduler(
    tasks: list[Number | Sum], tmp_path: Path, one_worker: Client
) -> None:
    # Pushed to workers at once they would be in their memory, and could not be evenly spread.
    threads, gate, places = sum(one_worker.nthreads().values()), tmp_path / "gate", (0, 0)
    n_numbers = sum(isinstance(task, Number) for task in tasks)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(
            lambda: list(OnCluster(one_worker).outcomes(wait_for_the_file, str(gate), tasks))
        )
        while (places[0] < threads or sum(places) < n_numbers) and not found.done():
            time.sleep(0.05)
            places = one_worker.run_on_scheduler(where_tasks_are)
        gate.touch()
        assert len(found.result()) == len(tasks)
    assert places == (threads, n_numbers - threads)


def test_a_task_that_raises_is_tried_again(tmp_path: Path, one_worker: Client) -> None:
    tasks = [Number(1, cost=RETRIES), Number(2, cost=RETRIES + 1)]
    outcomes = {
        o.task.value: o for o in OnCluster(one_worker).outcomes(count_tries, str(tmp_path), tasks)
    }
    assert outcomes[1].result == 1
    assert outcomes[2].error == "OSError: try again"
    assert (tmp_path / "2").read_text() == "x" * (RETRIES + 1)


@pytest.mark.parametrize("n_workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_task_that_kills_its_worker_fails_alone(n_workers: int) -> None:
    with open_cluster("local", n_workers) as client:
        outcomes = {o.task.value: o for o in OnCluster(client).outcomes(die_on_three, 5, NUMBERS)}
    assert outcomes.pop(3).error == "its worker died 4 times"  # Dask allows three
    assert {value: o.result for value, o in outcomes.items()} == {
        value: 5 + value for value in range(30) if value != 3
    }


def test_shared_data_reach_each_worker_once(four_workers: Client) -> None:
    """Bytes read from sockets by each worker process, all of Dask's own talk included."""
    shared = np.random.default_rng(0).random(2_000_000)  # 16 MB
    four_workers.run(_count_bytes_read)
    before = four_workers.run(_bytes_read)
    tasks = [Number(value) for value in range(100)]
    outcomes = list(OnCluster(four_workers).outcomes(size_of_shared, shared, tasks))
    after = four_workers.run(_bytes_read)
    received = {address: after[address] - before[address] for address in after}
    assert {outcome.result[1] for outcome in outcomes} == set(received)
    for count in received.values():
        assert shared.nbytes <= count <= 1.1 * shared.nbytes


def _count_bytes_read() -> None:
    from tornado.iostream import IOStream, SSLIOStream

    if hasattr(IOStream, "bytes_read_by_test"):
        return
    lock = threading.Lock()
    IOStream.bytes_read_by_test = 0

    def counting(read: Callable[[IOStream, bytearray], int | None]) -> Callable:
        def counted(self: IOStream, buffer: bytearray) -> int | None:
            n_bytes = read(self, buffer)
            with lock:
                IOStream.bytes_read_by_test += n_bytes or 0
            return n_bytes

        return counted

    for kind in (SSLIOStream, IOStream):  # in the clear, and under TLS: each has its own
        kind.read_from_fd = counting(kind.read_from_fd)


def _bytes_read() -> int:
    from tornado.iostream import IOStream

    return IOStream.bytes_read_by_test
