"""Faults on a real Slurm: jobs cancelled, their workers killed, the launcher ended and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil

from tests import slurm_on_one_machine
from tests.chaos.checks import must_be_readable, must_equal, must_keep, n_done
from tests.chaos.program import SECONDS_TO_VANISH, Broken, Program
from tests.integration.conftest import write_profile

FAULTS = ("job cancelled", "worker killed", "SIGKILL", "SIGTERM", "SIGHUP")
MOST_FAULTS = 3


def missing():
    """Why there can be no Slurm here; empty where there can."""
    return slurm_on_one_machine.missing() or ""


def disturb(workload, truth, folder, rng, number):
    """Carry out a run on two jobs that come to harm; give what was done to it.

    Raises
    ------
    Broken
        A record is lost, a job outlives its run, or the run does not end as the one that
        nobody disturbed.
    """
    faults = [FAULTS[number % len(FAULTS)], *rng.choice(FAULTS, rng.integers(0, MOST_FAULTS))]
    after = np.sort(rng.integers(0, workload.n_tasks, len(faults)))
    with tempfile.TemporaryDirectory() as beside:
        slurm = Path(tempfile.mkdtemp(prefix="slurm-"))
        slurm_on_one_machine.up(slurm)
        try:
            where = [
                "--cluster",
                "slurm",
                "--profile",
                write_profile(Path(beside)),
                "--workers",
                "2",
            ]
            variables = slurm_on_one_machine.environment(slurm)
            done = _carry_out(
                workload, folder, where, variables, list(zip(faults, after, strict=True))
            )
            _must_leave_no_job(variables)
        finally:
            slurm_on_one_machine.down(slurm)
    must_equal(workload, folder, truth)
    return done


def _carry_out(
    workload,
    folder,
    where,
    variables,
    faults,
):
    program, done, before = Program(workload.begin(folder, where), folder, variables), [], b""
    for fault, after in faults:
        if not program.wait_until(
            lambda after=after: n_done(folder) >= after and _jobs(variables, "RUNNING")
        ):
            break
        _strike(program, fault, variables)
        done.append(f"{fault} after {after} tasks")
        if fault.startswith("SIG"):
            program.wait()
            if program.process.returncode == 0:  # it came too late
                break
            program.must_vanish()
            before = must_keep(before, folder)
            must_be_readable(folder)
            begun = (folder / "run.json").exists()
            again = workload.resume(folder, where) if begun else workload.begin(folder, where)
            program = Program(again, folder, variables)
    if program.wait() != 0:
        raise Broken(f"exit status {program.process.returncode}: {program.complained}")
    program.must_vanish()
    must_keep(before, folder)
    return done


def _strike(program, fault, variables):
    if fault.startswith("SIG"):
        program.process.send_signal(signal.Signals[fault])
    elif fault == "job cancelled":
        subprocess.run(
            ["scancel", _jobs(variables, "RUNNING")[0]], env=os.environ | variables, check=False
        )
    else:
        with suppress(psutil.NoSuchProcess, IndexError):  # it may have ended by itself
            _workers_in_jobs(program)[0].kill()


def _workers_in_jobs(program):
    """Worker processes of the run that are not the launcher's own children."""
    workers = []
    for process in program.processes():
        with suppress(psutil.Error):
            if "SLURM_JOB_ID" in process.environ() and "spawn_main" in " ".join(process.cmdline()):
                workers.append(process)
    return workers


def _jobs(variables, *states):
    """Ids of the jobs in these states."""
    command = ["squeue", "--noheader", "--format=%i", f"--states={','.join(states)}"]
    listing = subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, check=True
    )
    return listing.stdout.split()


def _must_leave_no_job(variables):
    until = time.monotonic() + SECONDS_TO_VANISH
    while jobs := _jobs(variables, "PENDING", "RUNNING", "SUSPENDED", "CONFIGURING"):
        if time.monotonic() > until:
            raise Broken(f"{len(jobs)} jobs outlived their run")
        time.sleep(0.5)
