"""A real Slurm for the tests of this folder, and profiles that fit it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
import yaml

from tests import slurm_on_one_machine

SECONDS_TO_WAIT = 300  # before a test is given up, on a busy machine


@pytest.fixture(scope="module")
def slurm():
    """Slurm on this machine for the tests of a file: all commands of them and their children."""
    reason = slurm_on_one_machine.missing()
    if reason:
        pytest.skip(f"no Slurm here: {reason}")
    if find_spec("dask_jobqueue") is None:
        pytest.skip("no Slurm workers: dask-jobqueue is not installed")
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    slurm_on_one_machine.up(folder)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in slurm_on_one_machine.environment(folder).items():
            patch.setenv(name, value)
        yield
        slurm_on_one_machine.down(folder)


@pytest.fixture
def shared(tmp_path):
    """Where keys and logs of the jobs go."""
    return tmp_path / "shared"


@pytest.fixture
def profile(tmp_path, shared, slurm):
    """Writes a profile for this Slurm, with the keys given; fails if a job outlives the test."""

    def write(**changes):
        return write_profile(tmp_path, **changes)

    yield write
    remaining = jobs_in_queue()
    subprocess.run(["scancel", "--full", *remaining], check=False)
    wait_until(lambda: not jobs_in_queue())
    assert remaining == [], "jobs outlived their run"


def write_profile(folder, **changes):
    """A profile for this Slurm, with the keys given; the name of its file."""
    values = {
        "queue": "slurm",
        "walltime": "00:10:00",
        "cores": 1,
        "memory": "1 GiB",
        "interface": "lo",
        "shared_folder": str(folder / "shared"),
        "check_every": 0.5,
        "death_timeout": 20,
    }
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(values | changes))
    return str(path)


def jobs_in_queue():
    """Ids of jobs that wait, run or will run; those that are ending do not count."""
    states = "--states=PENDING,RUNNING,SUSPENDED,CONFIGURING"
    done = subprocess.run(
        ["squeue", "--noheader", "--format=%i", states], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def scontrol(*words):
    """Let an administrator change something."""
    subprocess.run(["scontrol", "update", *words], check=True)


def wait_until(condition):
    """Return when ``there()`` is true; fail the test if it never is."""
    until = time.monotonic() + SECONDS_TO_WAIT
    while not condition():
        assert time.monotonic() < until, "waited for in vain"
        time.sleep(0.1)


def worker_processes(shared):
    """Every process on this machine that was handed the keys in ``shared``, and its children."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if process.pid != os.getpid() and any(word.startswith(f"{shared}/") for word in words):
                processes += [process, *process.children(recursive=True)]
    return processes
