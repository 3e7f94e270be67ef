"""A cluster of this machine gets back the workers that Dask gives up."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import dask
import psutil
import pytest
from distributed.core import Status

from cluster_setup import ClusterError, open_cluster
from cluster_setup.keeper import STARTS, kept

ROOT = Path(__file__).parents[2]


def test_a_worker_whose_nanny_is_dropped_comes_back() -> None:
    # So short that Dask drops the nanny before the successor of its worker has registered.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}),
        open_cluster("local", 2) as client,
    ):
        before = client.run(os.getpid)
        os.kill(min(before.values()), signal.SIGKILL)
        client.sync(_one_is_dropped, client.cluster)
        client.wait_for_workers(2, timeout=60)
        after = client.run(os.getpid)
    assert len(after) == 2
    assert len(set(before.values()) & set(after.values())) == 1


async def _one_is_dropped(cluster: Any) -> None:
    while len(cluster.scheduler_info["workers"]) == 2:
        await asyncio.sleep(0.01)


def test_a_worker_killed_again_and_again_while_it_starts_can_be_closed() -> None:
    # What each of them leaves behind takes what the nanny should hear of the next.
    with open_cluster("local", 1) as client:
        (nanny,) = client.cluster.workers.values()
        for _ in range(6):
            client.sync(_next_is_killed, nanny)
        client.wait_for_workers(1, timeout=60)
        client.sync(_nanny_knows, nanny)


async def _next_is_killed(nanny: Any) -> None:
    while (pid := nanny.pid) is None:
        await asyncio.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    while nanny.pid == pid:
        await asyncio.sleep(0.001)


async def _nanny_knows(nanny: Any) -> None:
    while nanny.process is None or nanny.process.status is not Status.running:
        await asyncio.sleep(0.05)


def test_workers_that_die_while_they_start_are_started_again() -> None:
    start = Mock(side_effect=[RuntimeError("Nanny failed to start."), started := Mock()])
    with kept("local", start) as cluster:
        assert cluster is started
        assert not started.close.called
    assert start.call_count == 2
    assert started.close.call_count == 1


def test_a_worker_that_is_slow_to_die_takes_nothing_from_a_run() -> None:
    started = Mock(_created=[])
    started.close.side_effect = TimeoutError  # as a nanny's, on a machine that is busy
    with kept("local", lambda: started):
        pass
    with pytest.raises(KeyboardInterrupt), kept("local", lambda: started):
        raise KeyboardInterrupt


CANNOT_CLOSE = """
import os
from distributed.core import Status
from cluster_setup import keeper, limits, open_cluster

if __name__ == "__main__":
    limits.SECONDS_TO_CLOSE = 1
    keeper._tell = lambda nanny, workers: None
    with open_cluster("local", 1) as client:
        (nanny,) = client.cluster.workers.values()
        print(nanny.pid)
        nanny.process.status = Status.starting  # it waits to hear that its worker runs
        nanny.process.running.clear()
    print("done")
"""


def test_a_cluster_that_cannot_be_closed_does_not_keep_a_program_from_ending(
    tmp_path: Path,
) -> None:
    (tmp_path / "program.py").write_text(CANNOT_CLOSE)
    ended = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    pid, said = ended.stdout.split()
    assert said == "done"
    assert not psutil.pid_exists(int(pid))


CANNOT_START = """
import os, shutil, tempfile
from cluster_setup import ClusterError, limits, open_cluster

if __name__ == "__main__":
    limits.SECONDS_TO_START, limits.SECONDS_TO_CLOSE = 10, 1
    os.chdir(gone := tempfile.mkdtemp())
    shutil.rmtree(gone)  # no process can be started from a folder that is not there
    try:
        with open_cluster("local", 1):
            pass
    except ClusterError as error:
        print(error)
"""


def test_a_cluster_that_cannot_start_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(CANNOT_START)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True,
        env=environment,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    (said,) = ended.stdout.splitlines()
    assert said.startswith("--cluster local needs workers that start, but they ended before they")


def test_workers_that_never_start_are_one_line() -> None:
    error = RuntimeError("Cluster failed to start")
    error.__cause__ = MemoryError("no\nmore")
    start = Mock(side_effect=error)
    with pytest.raises(ClusterError) as caught, kept("local", start):
        pass
    assert start.call_count == STARTS
    assert str(caught.value) == (
        "--cluster local needs workers that start, but they ended before they registered, 3 times "
        "in a row (no more); is there memory enough for --workers?"
    )


@pytest.fixture
def pythons_own_handler() -> Iterator[None]:
    """Whatever a library or a shell has put in its place."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("pythons_own_handler")
def test_an_interrupt_while_a_cluster_starts_closes_the_whole_of_it() -> None:
    closed = []

    class Slow:
        def __init__(self) -> None:
            signal.raise_signal(signal.SIGINT)  # as Ctrl-C in the midst of it
            self.whole = True

        def close(self, timeout: float) -> None:
            closed.append(self.whole)

    with pytest.raises(KeyboardInterrupt), kept("local", Slow):
        pytest.fail("it was not interrupted")
    assert closed == [True]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc, as Linux has it")
def test_no_worker_hears_ctrl_c_from_its_birth_on() -> None:
    with open_cluster("local", 1) as client:
        (nanny,) = client.cluster.workers.values()
        first = nanny.pid
        assert _is_deaf(first)
        client.sync(_next_is_killed, nanny)
        while nanny.pid in (None, first):
            time.sleep(0.001)
        assert _is_deaf(nanny.pid)
    assert not _is_deaf(os.getpid())


def _is_deaf(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    blocked = re.search(r"SigBlk:\s*([0-9a-f]+)", status)
    assert blocked
    return bool(int(blocked[1], 16) >> signal.SIGINT - 1 & 1)
