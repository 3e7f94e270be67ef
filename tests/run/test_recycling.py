"""Worker processes are replaced between tasks: when, and that nothing else changes by it."""

from __future__ import annotations

import os
import time
from collections import Counter

import numpy as np
import psutil
import pytest
from distributed import Client, Nanny, Scheduler, SpecCluster
from sklearn.svm import SVC

from cluster_setup import ClusterOptions, open_cluster
from pipelines.errors import InputError
from pipelines.run.cluster import opened, recycling_of
from pipelines.run.recycling import NEVER, ProcessHistory, Recycling
from pipelines.run.runners import OnCluster
from tests.run.test_runners import Number

MEGABYTE = 2**20
kept: list[np.ndarray] = []  # by a worker process that leaks


def numbers(n):
    return [Number(value) for value in range(n)]


def history_of(rule, *memory):
    history = ProcessHistory(rule)
    for held in memory:
        history.add(held)
    return history


@pytest.mark.parametrize(("n_tasks", "n_done"), [(1, 1), (2, 1), (3, 2), (50, 49)])
def test_a_process_is_due_when_its_last_task_has_begun(n_tasks, n_done):
    rule = Recycling(n_tasks)
    assert history_of(rule, *[None] * n_done).is_due
    assert n_done == 1 or not history_of(rule, *[None] * (n_done - 1)).is_due


def test_a_process_is_due_when_its_memory_has_grown_since_its_tenth_task():
    rule = Recycling(memory=int)
    at_first = range(50, 600, 55)  # up to 545, then what it needs is there
    assert not history_of(rule, *at_first).is_due
    steady = history_of(rule, *at_first, *[545] * 100, 654)
    assert not steady.is_due  # 20 %, and no more
    steady.add(655)
    assert steady.is_due
    assert (steady.settled, steady.memory, steady.n_tasks) == (545, 655, 112)
    steady.add(500)  # it was in use
    assert not steady.is_due


def test_memory_that_is_unknown_or_has_grown_little_is_no_reason():
    assert not history_of(Recycling(memory=int), *[None] * 50).is_due
    assert not history_of(Recycling(memory=int), *[100] * 50, None).is_due
    later = history_of(Recycling(memory=int), *[None] * 12, 100, 120)
    assert not later.is_due
    later.add(121)
    assert later.is_due
    assert not history_of(Recycling(memory=int, least_growth=50), *[100] * 10, 150).is_due
    assert history_of(Recycling(memory=int, least_growth=50), *[100] * 10, 151).is_due


def score(shared, task):
    X, y = shared
    time.sleep(0.05)
    fitted = SVC(C=1 + task.value, gamma=0.01).fit(X[::2], y[::2])
    return os.getpid(), fitted.decision_function(X[1::2]).tobytes()


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 20))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def without_errors(outcomes):
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    results = {outcome.task.value: outcome.result for outcome in outcomes}
    assert len(results) == len(outcomes)
    return results


@pytest.mark.parametrize("n_workers", [1, 3])
def test_results_are_those_of_workers_that_stay(n_workers, data, one_worker):
    tasks = numbers(8 + 10 * n_workers)
    undisturbed = without_errors(list(OnCluster(one_worker).outcomes(score, data, tasks)))
    with open_cluster("local", n_workers) as client:
        runner = OnCluster(client, Recycling(n_tasks=5))
        results = without_errors(list(runner.outcomes(score, data, tasks)))
        recycled = runner.recycler.recycled
        assert client.run_on_scheduler(tasks_lost) == 0
    assert {value: scores for value, (_, scores) in results.items()} == {
        value: scores for value, (_, scores) in undisturbed.items()
    }
    n_of_each = Counter(process for process, _ in results.values())
    assert recycled
    if n_workers == 1:  # among others a successor may come when the tasks have gone to these
        assert len(recycled) >= 2
        assert len(n_of_each) > 2
    assert all(
        replacement["n_tasks"] >= 4 and replacement["memory"] is None for replacement in recycled
    )
    assert len({replacement["worker"] for replacement in recycled}) == len(recycled)


def tasks_lost(dask_scheduler):
    """How many tasks workers had when they ended."""
    events = (event for _, event in dask_scheduler.get_events("all") if isinstance(event, dict))
    return sum(len(event.get("processing-tasks", ())) for event in events)


def where_it_ran(shared, task):
    time.sleep(0.05)
    return os.getpid(), float(shared[task.value])


def test_workers_that_are_due_at_once_do_not_leave_at_once():
    with open_cluster("local", 4) as client:
        runner = OnCluster(client, Recycling(n_tasks=4))
        outcomes = list(runner.outcomes(where_it_ran, np.arange(100.0), numbers(60)))
        assert runner._round == 1  # the data were there all the time
    results = without_errors(outcomes)
    assert {value: number for value, (_, number) in results.items()} == dict(
        enumerate(np.arange(60.0))
    )
    spans = [
        (replacement["time"], replacement["time"] + replacement["seconds"])
        for replacement in runner.recycler.recycled
    ]
    assert max(sum(began <= moment < end for began, end in spans) for moment, _ in spans) <= 2


def resident(shared=None, task=None):
    return int(psutil.Process().memory_info().rss)


def leak(shared, task):
    kept.append(np.ones(shared, np.uint8))
    time.sleep(0.05)
    return resident()


def test_a_process_that_leaks_is_replaced():
    step, n = 10 * MEGABYTE, 60
    peaks = {}
    for rule in (NEVER, Recycling(memory=resident)):
        with open_cluster("local", 1) as client:
            before = next(iter(client.run(resident).values()))
            runner = OnCluster(client, rule)
            results = without_errors(list(runner.outcomes(leak, step, numbers(n))))
            peaks[rule] = max(results.values()) - before
        assert bool(runner.recycler.recycled) == rule.is_on
    assert peaks[NEVER] >= 0.9 * n * step
    assert peaks[Recycling(memory=resident)] <= 0.75 * n * step
    for replacement in runner.recycler.recycled:
        settled, last = replacement["memory"]
        assert last > 1.2 * settled
        assert replacement["n_tasks"] > 10


def gpu_of_this_process(shared, task):
    time.sleep(0.05)
    return os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


def test_a_successor_has_the_environment_of_its_predecessor_such_as_its_gpu():
    workers = {
        number: {
            "cls": Nanny,
            "options": {"nthreads": 1, "env": {"CUDA_VISIBLE_DEVICES": str(number)}},
        }
        for number in (0, 1)
    }
    scheduler = {
        "cls": Scheduler,
        "options": {"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    }
    with SpecCluster(workers, scheduler) as cluster, Client(cluster) as client:
        runner = OnCluster(client, Recycling(n_tasks=5))
        results = without_errors(list(runner.outcomes(gpu_of_this_process, 0, numbers(40))))
    processes = set(results.values())
    assert len(processes) > 2
    assert len({process for _, process in processes}) == len(processes)
    assert {gpu for gpu, _ in processes} == {"0", "1"}


def test_a_worker_that_alone_holds_data_of_another_client_stays():
    with open_cluster("local", 1) as client, Client(client.cluster, set_as_default=False) as other:
        theirs = other.scatter(np.arange(10), hash=False)
        runner = OnCluster(client, Recycling(n_tasks=3))
        results = without_errors(list(runner.outcomes(where_it_ran, np.arange(100.0), numbers(12))))
        assert theirs.result().tolist() == list(range(10))
    assert len({process for process, _ in results.values()}) == 1
    assert runner.recycler.recycled == []


def test_workers_without_a_nanny_are_refused_where_they_are_to_be_replaced(
    tmp_path,
):
    options = ClusterOptions("threads", workers=1)
    with pytest.raises(InputError, match="tasks_per_worker needs workers with a nanny"):
        opened(options, tmp_path, False, 5).__enter__()
    lines = []
    options = ClusterOptions("threads", workers=1, echo=lines.append)
    with opened(options, tmp_path, False, "auto") as cluster:
        assert cluster.recycling == NEVER
        assert lines == []  # on CPUs that is so anyway
        for word in ("never", "auto"):
            rule = recycling_of(word, cluster.client, options, cluster.workers, "gpu")
            assert rule == NEVER
    assert lines == ["recycling  off, whatever memory workers keep: they have no nanny"]


def test_on_gpus_it_goes_by_memory_unless_a_number_is_given(one_worker):
    options = ClusterOptions("local")
    workers = [{"gpu_memory": 80 * 2**30}, {"gpu_memory": 40 * 2**30}]
    rule = recycling_of("auto", one_worker, options, workers, "gpu")
    assert rule.n_tasks is None
    assert rule.memory is not None
    assert rule.least_growth == pytest.approx(0.8 * 2**30, rel=1e-6)
    assert recycling_of("auto", one_worker, options, workers, "cpu") == NEVER
    assert recycling_of("never", one_worker, options, workers, "gpu") == NEVER
    assert recycling_of(7, one_worker, options, workers, "gpu") == Recycling(n_tasks=7)
