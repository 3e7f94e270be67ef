"""What Dask would wait for for ever ends in time."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
from distributed import Scheduler

from cluster_setup import open_cluster
from cluster_setup.on_this_machine import start_cluster

ROOT = Path(__file__).parents[2]


def test_a_worker_that_is_slow_to_die_takes_nothing_from_a_run():
    cluster = Mock(_created=[])
    cluster.close.side_effect = TimeoutError  # as a nanny's, on a machine that is busy
    with start_cluster("local", lambda: cluster):
        pass
    with pytest.raises(KeyboardInterrupt), start_cluster("local", lambda: cluster):
        raise KeyboardInterrupt


def schedulers_alive():
    gc.collect()
    # By its type: some objects of torch warn when they are asked for their class.
    return sum(issubclass(type(held), Scheduler) for held in gc.get_objects())


@pytest.mark.parametrize("dashboard", ["off", "0"])
def test_a_cluster_that_is_closed_leaves_no_scheduler(dashboard):
    before = schedulers_alive()
    for _ in range(3):
        with open_cluster("threads", 1, dashboard=dashboard) as client:
            assert client.submit(sum, (1, 2)).result() == 3
            assert schedulers_alive() == before + 1
        del client
    assert schedulers_alive() == before


CANNOT_CLOSE = """
import os
from distributed.core import Status
from cluster_setup import on_this_machine, open_cluster, shutdown

if __name__ == "__main__":
    shutdown.SECONDS_TO_CLOSE = 1
    on_this_machine._mark_running = lambda nanny, scheduler: None
    with open_cluster("local", 1) as client:
        (nanny,) = client.cluster.workers.values()
        print(nanny.pid)
        nanny.process.status = Status.starting  # it waits to hear that its worker runs
        nanny.process.running.clear()
    print("done")
"""


@pytest.mark.slow
def test_a_cluster_that_cannot_be_closed_does_not_keep_a_program_from_ending(
    tmp_path,
):
    (tmp_path / "program.py").write_text(CANNOT_CLOSE)
    ended = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    pid, word = ended.stdout.split()
    assert word == "done"
    assert not psutil.pid_exists(int(pid))


CANNOT_START = """
import os, shutil, tempfile
from cluster_setup import ClusterError, on_this_machine, open_cluster, shutdown

if __name__ == "__main__":
    on_this_machine.SECONDS_TO_START, shutdown.SECONDS_TO_CLOSE, on_this_machine.STARTS = 5, 1, 1
    os.chdir(gone := tempfile.mkdtemp())
    shutil.rmtree(gone)  # no process can be started from a folder that is not there
    try:
        with open_cluster("local", 1):
            pass
    except ClusterError as error:
        print(error)
"""


def test_a_cluster_that_cannot_start_is_one_line(tmp_path):
    (tmp_path / "program.py").write_text(CANNOT_START)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert ended.returncode == 0, ended.stderr
    (message,) = ended.stdout.splitlines()
    assert message.startswith("--cluster local could not start its workers: they ended before they")
