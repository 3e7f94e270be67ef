from __future__ import annotations

import sys
from collections import deque
from unittest.mock import Mock

import pytest
from distributed.system_monitor import SystemMonitor

from cluster_setup import ClusterError
from cluster_setup.workers import (
    _describe,
    describe_workers,
    how_to_watch,
    peak_memory,
    peak_memory_since,
    samples_of_memory,
    threads_per_task,
)
from tests.cluster_setup.nvml_stand_in import Card


def test_workers_that_die_while_they_are_asked_are_asked_again():
    answers = [OSError("the worker died"), {}, {"tcp://127.0.0.1:1": {"host": "h"}}]
    client = Mock()

    def sync(function, *arguments, **how):
        answer = answers.pop(0) if function is client._run and answers else {}
        if isinstance(answer, OSError):
            raise answer
        return answer

    client.sync = sync
    assert describe_workers(client) == [{"address": "tcp://127.0.0.1:1", "host": "h"}]
    # No worker is no worker with a GPU.
    with pytest.raises(ClusterError, match="none answered"):
        describe_workers(client)


def test_workers_that_do_not_answer_are_named():
    client = Mock()
    seen = {"tcp://h:1": {"last_seen": 100.0}, "tcp://h:2": {"last_seen": 60.0}}
    client.scheduler_info.return_value = {"workers": seen}

    def sync(function, *arguments, callback_timeout, **how):
        if function is client._run:
            raise TimeoutError

    client.sync = sync
    with pytest.raises(
        ClusterError, match=r"workers that answer, of those at .* tcp://h:2 did not"
    ):
        describe_workers(client)


def test_workers_describe_themselves(four_workers):
    workers = describe_workers(four_workers)
    assert len({worker["pid"] for worker in workers}) == 4
    assert {worker["dask"] for worker in workers} == {"2026.7.1"}
    assert all(worker["address"].startswith("tls://127.0.0.1:") for worker in workers)


def test_a_worker_has_the_memory_of_its_gpu_or_of_its_slice(machine, monkeypatch):
    parts = [Card(f"A100 MIG {n}", f"MIG-{n}", 5 * n) for n in (1, 2)]
    machine(Card("GB10", "GPU-0", 0), Card("A100", "GPU-1", 40, slices=parts))
    for visible, name, gibibytes in (("0", "GB10", None), ("MIG-2", "A100 MIG 2", 10)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        about = _describe(Mock())
        assert about["gpu"] == name
        assert about["gpu_memory"] == (gibibytes and gibibytes * 2**30)


def test_the_most_memory_is_that_of_the_samples_since(monkeypatch):
    monitor = SystemMonitor(maxlen=3)
    quantities = {"memory": [9, 5, 7], "gpu_memory_used": [None, 2, 1]}
    for name, values in quantities.items():
        monitor.quantities[name] = deque(values)
    monitor.quantities = {name: monitor.quantities[name] for name in ("cpu", *quantities)}
    monitor.quantities["cpu"].extend([0.0, 0.0])
    monitor.count = 10
    worker = Mock(monitor=monitor, address="tcp://a")
    assert peak_memory(worker) == {"peak_memory": 9}  # of another program's GPU
    monkeypatch.setitem(sys.modules, "cupy", Mock())
    assert peak_memory(worker) == {"peak_memory": 9, "peak_gpu_memory": 2}
    assert peak_memory(worker, 8) == {"peak_memory": 7, "peak_gpu_memory": 2}
    assert peak_memory(worker, 9) == {"peak_memory": 7, "peak_gpu_memory": 1}
    taken = {"tcp://a": samples_of_memory(worker)}
    assert peak_memory_since(taken, worker) == {"peak_memory": 7, "peak_gpu_memory": 1}
    del monitor.quantities["gpu_memory_used"]
    assert peak_memory(worker, 9) == {"peak_memory": 7}


def test_the_way_to_the_dashboard_is_said(one_worker, monkeypatch):
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    assert how_to_watch(one_worker) == [f"dashboard  {one_worker.dashboard_link}"]
    monkeypatch.setenv("SSH_CONNECTION", "1.2.3.4 5 6.7.8.9 22")
    line = how_to_watch(one_worker)[1]
    port = one_worker.dashboard_link.split(":")[2].split("/")[0]
    assert f"ssh -N -L {port}:127.0.0.1:{port} " in line
    assert line.endswith(f"http://localhost:{port}/status")


@pytest.mark.parametrize(("jobs", "threads"), [((None, None), 4), (("7", "8"), 8)])
def test_jobs_on_one_host_have_cores_of_their_own(jobs, threads):
    workers = [{"host": "node1", "job": job, "cores": 8, "threads": 1} for job in jobs]
    assert threads_per_task(workers) == threads
