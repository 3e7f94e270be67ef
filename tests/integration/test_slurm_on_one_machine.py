"""What was brought up is gone when ``down`` returns."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import psutil
import pytest

from tests import slurm_on_one_machine

from .conftest import wait_until


def test_nothing_is_left_of_a_slurm_with_jobs():
    reason = slurm_on_one_machine.missing()
    if reason:
        pytest.skip(f"no Slurm here: {reason}")
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    slurm_on_one_machine.up(folder)
    ours = os.environ | slurm_on_one_machine.environment(folder)

    def output_of(*command):
        return subprocess.run(command, env=ours, capture_output=True, text=True, check=True).stdout

    try:
        for _ in range(2):
            output_of(
                "sbatch",
                "--ntasks=1",
                "--output=/dev/null",
                "--wrap",
                f"bash -c 'sleep 999; true' {folder}",
            )
        wait_until(
            lambda: output_of("squeue", "--noheader", "--format=%T").split() == 2 * ["RUNNING"]
        )
        daemons = [int(file.read_text()) for file in folder.glob("*.pid")]
        started = [child for pid in daemons for child in psutil.Process(pid).children()]
        assert len(daemons) == 6
    finally:
        slurm_on_one_machine.down(folder)
    for process in [*map(psutil.Process, filter(psutil.pid_exists, daemons)), *started]:
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    jobs = [job for job in psutil.process_iter() if str(folder) in " ".join(words_of(job))]
    assert jobs == []
    assert not folder.exists()


def words_of(process):
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
