"""Four workers behind a real Slurm, lost in every way; they come back for the next test."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from cluster_setup import open_cluster

from .conftest import (
    SECONDS_TO_WAIT,
    jobs_in_queue,
    scontrol,
    wait_until,
    worker_processes,
    write_profile,
)
from .naps import all_done, begun


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("four") / "shared"


@pytest.fixture(scope="module")
def four(slurm, shared):
    """Four workers, each with a GPU; whoever disturbs them waits until they are back."""
    file = write_profile(shared.parent, directives=["--gres=gpu:1"])
    with open_cluster("slurm", 4, profile=file) as client:
        yield client
    assert jobs_in_queue() == []
    assert list(shared.iterdir()) == []


def test_each_worker_sees_a_gpu_of_its_own(four, shared):
    def which():
        return os.environ["SLURMD_NODENAME"], os.environ["CUDA_VISIBLE_DEVICES"]

    four.wait_for_workers(4, timeout=SECONDS_TO_WAIT)
    seen = four.run(which)
    folder = next(shared.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "key.pem").stat().st_mode & 0o777 == 0o600
    assert len(set(seen.values())) == 4
    assert {number for _, number in seen.values()} == {"0", "1"}


def test_one_worker_process_killed_is_started_again_by_its_job(four):
    outcomes, rest = begun(four, 40, 0.3)
    before = jobs_in_queue()
    os.kill(next(iter(four.run(os.getpid).values())), signal.SIGKILL)
    outcomes += rest
    assert all_done(outcomes, 40)
    assert jobs_in_queue() == before
    wait_until(lambda: len(four.scheduler_info()["workers"]) == 4)


@pytest.mark.parametrize("how", ["scancel", "SIGKILL", "node down"])
def test_workers_lost_in_mid_run_cost_no_result_and_come_back(four, shared, how):
    outcomes, rest = begun(four, 60, 0.3)
    before = jobs_in_queue()
    if how == "scancel":
        subprocess.run(["scancel", *before[:2]], check=True)
    elif how == "SIGKILL":
        for process in worker_processes(shared):  # nannies and all: no job is left
            process.kill()
    else:  # Slurm's own nodes report back, and are up again by the next test
        node = next(iter(four.run(os.getenv, "SLURMD_NODENAME").values()))
        scontrol(f"nodename={node}", "state=down", "reason=test")
    outcomes += rest
    assert all_done(outcomes, 60)
    wait_until(lambda: len(four.scheduler_info()["workers"]) == 4)
    assert len(set(jobs_in_queue()) - set(before)) >= 1 + (how != "node down")
