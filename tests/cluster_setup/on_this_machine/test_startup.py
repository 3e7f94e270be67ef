"""A cluster of this machine starts whole or not at all."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from cluster_setup import ClusterError, open_cluster
from cluster_setup.on_this_machine import STARTS, start_cluster
from cluster_setup.shutdown import HANDLED
from pipelines.run.signals import interrupted_once

from .nannies import next_is_killed

pytestmark = pytest.mark.usefixtures("spawned_workers")


def test_workers_that_die_while_they_start_are_started_again():
    start = Mock(side_effect=[RuntimeError("Nanny failed to start."), whole := Mock()])
    with start_cluster("local", start) as cluster:
        assert cluster is whole
        assert not whole.close.called
    assert start.call_count == 2
    assert whole.close.call_count == 1


def test_workers_that_never_start_are_one_line():
    error = RuntimeError("Cluster failed to start")
    error.__cause__ = MemoryError("no\nmore")
    start = Mock(side_effect=error)
    with pytest.raises(ClusterError) as caught, start_cluster("local", start):
        pass
    assert start.call_count == STARTS
    assert str(caught.value) == (
        "--cluster local could not start its workers: they ended before they connected, 3 times "
        "in a row (no more); is there enough memory for --workers?"
    )


@pytest.fixture
def default_signals():
    """Python's own handlers, whatever a library, a shell or nohup has put in their place."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in HANDLED}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("number", HANDLED, ids=lambda number: number.name)
def test_an_interrupt_while_a_cluster_starts_closes_the_whole_of_it(number):
    closed = []

    class Slow:
        def __init__(self):
            signal.raise_signal(number)  # as Ctrl-C in the midst of it
            self.whole = True

        def close(self, timeout):
            closed.append(self.whole)

    with pytest.raises(KeyboardInterrupt), interrupted_once(), start_cluster("local", Slow):
        pytest.fail("it was not interrupted")
    assert closed == [True]


@pytest.mark.usefixtures("default_signals")
def test_an_interrupted_start_that_fails_is_not_tried_again():
    def fails():
        signal.raise_signal(signal.SIGINT)
        raise RuntimeError("Cluster failed to start")

    start = Mock(side_effect=fails)
    with pytest.raises(KeyboardInterrupt), start_cluster("local", start):
        pytest.fail("it was not interrupted")
    assert start.call_count == 1


# Its outermost lines open a cluster, and a class of its own goes to the workers.
SCRIPT = """
from cluster_setup import open_cluster
print("begins")

class Doubled:
    def __init__(self, x):
        self.x = 2 * x

with open_cluster("local", 2, dashboard="off") as client:
    print(sum(one.x for one in client.gather(client.map(Doubled, range(4)))))
"""


@pytest.mark.parametrize(
    "typed", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["file", "stdin"]
)
def test_a_script_without_a_main_guard_runs_once(tmp_path, typed):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py") if typed else "-"],
        input=None if typed else SCRIPT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert (done.stdout.split(), done.stderr) == (["begins", "12"], "")


SPAWNS = """
import multiprocessing
import sys
from cluster_setup import open_cluster

def nothing():
    pass

if "--multiprocessing-fork" in sys.orig_argv:
    with open_cluster("local", 1):
        pass
process = multiprocessing.get_context("spawn").Process(target=nothing)
process.start()
process.join()
"""


def test_a_process_that_imports_the_script_opens_no_cluster(tmp_path):
    (tmp_path / "script.py").write_text(SPAWNS)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]


HANGS = """
import sys, time
if "--multiprocessing-fork" in sys.orig_argv:
    time.sleep(600)
"""


@pytest.mark.slow
def test_sigterm_ends_a_start_that_hangs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(HANGS)
    (tmp_path / "script.py").write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.getcwd()}", "PYTHONUNBUFFERED": "1"},
    )
    parent = psutil.Process(process.pid)
    while not (
        workers := [child for child in parent.children() if "spawn_main" in str(child.cmdline())]
    ):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.wait()  # for ever, if the start went on
    psutil.wait_procs(workers)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc, as Linux has it")
def test_no_worker_hears_ctrl_c_from_its_birth_on():
    with open_cluster("local", 1) as client:
        (nanny,) = client.cluster.workers.values()
        first = nanny.pid
        assert _is_deaf(first)
        client.sync(next_is_killed, nanny)
        while nanny.pid in (None, first):
            time.sleep(0.001)
        assert _is_deaf(nanny.pid)
    assert not _is_deaf(os.getpid())


def _is_deaf(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    blocked = re.search(r"SigBlk:\s*([0-9a-f]+)", status)
    assert blocked
    return bool(int(blocked[1], 16) >> signal.SIGINT - 1 & 1)
