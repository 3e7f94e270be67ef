from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from distributed import get_worker

from cluster_setup import open_cluster
from pipelines.run import runners as batching
from pipelines.run.runners import RETRIES, InProcess, OnCluster, Outcome


@dataclass(frozen=True)
class Number:
    value: int
    cost: float = 1.0

    @property
    def name(self):
        return f"number-{self.value}"


NUMBERS = [Number(value, cost=value % 7) for value in range(30)]


def add(shared, task, report=None):
    return shared + task.value


def fail_on_three(shared, task, report=None):
    if task.value == 3:
        raise ZeroDivisionError("three\nand more")
    return task.value


def note_order(shared, task):
    with open(shared, "a") as file:
        file.write(f"{task.value}\n")
    return task.value


def count_tries(shared, task):
    tries = Path(shared) / str(task.value)
    with open(tries, "a") as file:
        file.write("x")
    if len(tries.read_text()) <= task.cost:
        raise OSError("try again")
    return task.value


def die_on_three(shared, task):
    if task.value == 3:
        time.sleep(0.5)  # a nanny does not restart a worker that dies while it starts
        os.kill(os.getpid(), signal.SIGKILL)
    return shared + task.value


def size_of_shared(shared, task):
    time.sleep(0.05)
    return shared.nbytes, get_worker().address


@dataclass(frozen=True)
class Urgent(Number):
    """A task that goes before all that waits."""

    is_urgent: bool = True


def slow(shared, task, report=None):
    time.sleep(0.05)
    return task.value * int(shared[0])


def slow_and_noted(shared, task, report=None):
    time.sleep(0.05)
    return note_order(shared, task)


@pytest.fixture(params=["in process", "on a cluster"])
def runner(request):
    if request.param == "in process":
        yield InProcess(2)
    else:
        yield OnCluster(request.getfixturevalue("four_workers"))


def test_every_task_has_one_outcome(runner):
    outcomes = list(runner.outcomes(add, 100, NUMBERS))
    assert sorted(outcome.task.value for outcome in outcomes) == list(range(30))
    assert all(outcome.result == 100 + outcome.task.value for outcome in outcomes)
    assert all(outcome.seconds >= 0 and outcome.started > 1e9 for outcome in outcomes)


def test_a_consumer_may_stop_early(runner):
    outcomes = runner.outcomes(add, 1, NUMBERS)
    next(outcomes)
    outcomes.close()
    assert len(list(runner.outcomes(add, 1, NUMBERS))) == 30


class Feeder:
    """Gives the next task when one is done, and notes what it was told."""

    def __init__(self, tasks):
        self.tasks, self.n_left = tasks, list[int]()

    def __call__(self, n_left):
        self.n_left.append(n_left)
        return [self.tasks.pop(0)] if self.tasks else []


def outcomes_of(runner, work, shared, feed):
    events = runner.outcomes_and_events(work, shared, NUMBERS[:2], feed)
    return [event for event in events if isinstance(event, Outcome)]


def test_further_tasks_are_run_as_others_end(runner):
    feed = Feeder(NUMBERS[2:])
    outcomes = outcomes_of(runner, fail_on_three, 0, feed)
    assert {outcome.task.value: outcome.result for outcome in outcomes} == {
        value: None if value == 3 else value for value in range(30)
    }
    assert feed.n_left[-1] == 0
    assert max(feed.n_left) <= 3


def test_further_tasks_come_where_there_is_none_at_first(runner):
    events = runner.outcomes_and_events(add, 100, (), Feeder(NUMBERS[:4]))
    assert [event.result for event in events if isinstance(event, Outcome)] == list(range(100, 104))


def test_workers_killed_from_outside_cost_no_further_task():
    shared, feed = np.ones(1000), Feeder(NUMBERS[2:])
    with open_cluster("local", 2) as client:
        pids = list(client.run(os.getpid).values())
        events = OnCluster(client).outcomes_and_events(slow, shared, NUMBERS[:2], feed)
        all_events = [next(events)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        all_events += list(events)
    results = [event.result for event in all_events if isinstance(event, Outcome)]
    assert sorted(results) == list(range(30))


def test_an_urgent_task_goes_before_those_that_wait(tmp_path, one_worker):
    log, feed = tmp_path / "order", Feeder([Urgent(99)])
    runner = OnCluster(one_worker)
    events = runner.outcomes_and_events(slow_and_noted, str(log), NUMBERS[:20], feed)
    assert sum(isinstance(event, Outcome) for event in events) == 21
    assert log.read_text().split().index("99") < 15


@pytest.mark.parametrize("where", ["in process", "on a cluster"])
def test_costly_tasks_begin_first(where, tmp_path, one_worker):
    runner = InProcess(1) if where == "in process" else OnCluster(one_worker)
    log = tmp_path / "order"
    tasks = [Number(value, cost=value) for value in (3, 9, 1, 7, 5, 2)]
    list(runner.outcomes(note_order, str(log), tasks))
    assert log.read_text().split() == ["9", "7", "5", "3", "2", "1"]


def wait_for_the_file(shared, task):
    while not Path(shared).exists():
        time.sleep(0.02)
    return task.name


def where_tasks_are(dask_scheduler):
    """On workers, and waiting at the scheduler; those of tasks alone."""
    tasks = [task for key, task in dask_scheduler.tasks.items() if "number" in str(key)]
    states = [task.state for task in tasks]
    return states.count("processing"), states.count("queued")


# Dask by itself hands out at once a few.
@pytest.mark.parametrize("tasks", [NUMBERS, NUMBERS[:2]], ids=["many", "few"])
def test_tasks_wait_at_the_scheduler(tasks, tmp_path, one_worker, monkeypatch):
    monkeypatch.setattr(batching, "BATCHES_PER_WORKER", len(tasks))  # none shares with another
    # Pushed to workers at once they would be in their memory, and could not be evenly spread.
    threads, gate, places = sum(one_worker.nthreads().values()), tmp_path / "gate", (0, 0)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(
            lambda: list(OnCluster(one_worker).outcomes(wait_for_the_file, str(gate), tasks))
        )
        while (places[0] < threads or sum(places) < len(tasks)) and not future.done():
            time.sleep(0.05)
            places = one_worker.run_on_scheduler(where_tasks_are)
        gate.touch()
        assert len(future.result()) == len(tasks)
    assert places == (threads, len(tasks) - threads)


def test_a_task_that_raises_is_tried_again(tmp_path, one_worker):
    tasks = [Number(1, cost=RETRIES), Number(2, cost=RETRIES + 1)]
    outcomes = {
        o.task.value: o for o in OnCluster(one_worker).outcomes(count_tries, str(tmp_path), tasks)
    }
    assert outcomes[1].result == 1
    assert outcomes[2].error == "OSError: try again"
    assert (tmp_path / "2").read_text() == "x" * (RETRIES + 1)


@pytest.mark.parametrize("n_workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_task_that_kills_its_worker_fails_alone(n_workers):
    with open_cluster("local", n_workers) as client:
        outcomes = {o.task.value: o for o in OnCluster(client).outcomes(die_on_three, 5, NUMBERS)}
    assert outcomes.pop(3).error == "its worker died 4 times"  # Dask allows three
    assert {value: o.result for value, o in outcomes.items()} == {
        value: 5 + value for value in range(30) if value != 3
    }


def test_shared_data_reach_each_worker_once(four_workers):
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


def _count_bytes_read():
    from tornado.iostream import IOStream, SSLIOStream

    if hasattr(IOStream, "bytes_read_by_test"):
        return
    lock = threading.Lock()
    IOStream.bytes_read_by_test = 0

    def counting(read):
        def counted(self, buffer):
            n_bytes = read(self, buffer)
            with lock:
                IOStream.bytes_read_by_test += n_bytes or 0
            return n_bytes

        return counted

    for kind in (SSLIOStream, IOStream):  # in the clear, and under TLS: each has its own
        kind.read_from_fd = counting(kind.read_from_fd)


def _bytes_read():
    from tornado.iostream import IOStream

    return IOStream.bytes_read_by_test
