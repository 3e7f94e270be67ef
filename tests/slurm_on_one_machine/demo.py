"""``make slurm-demo``: a run behind a real Slurm that loses a job on the way, from up to down."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cluster_setup.errors import ClusterError
from tests.slurm_on_one_machine import MISSING, down, environment, missing, up

PROFILE = """\
base: generic-slurm
gres:                 # jobs without a GPU: there is none
walltime: "00:10:00"
cores: 1
memory: 1 GiB
interface: lo
check_every: 2
"""
# A solver that shares nothing between fits, so that there is something to watch.
RUN = ["-m", "pipelines.svm_grid", "--cluster", "slurm", "--workers", "4", "--solver", "sklearn"]
TASKS_BEFORE_THE_LOSS = 40


def main() -> int:
    """Bring Slurm up, run, disturb, take Slurm down; give the exit status of the run."""
    try:
        _install_what_is_missing()
        with tempfile.TemporaryDirectory(prefix="slurm-") as place:
            up()
            try:
                os.environ.update(environment())
                return _run(Path(place) / "one-machine.yaml")
            finally:
                down()
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 2


def _install_what_is_missing() -> None:
    reason = missing()
    if reason is None:
        return
    if "not installed" not in reason or os.geteuid() != 0 or not os.path.exists("/usr/bin/apt-get"):
        raise ClusterError(f"slurm-demo cannot start: {reason}")
    print(f"$ {MISSING}", flush=True)
    subprocess.run([*MISSING.split(), "--yes", "--quiet=2"], check=True)


def _run(profile: Path) -> int:
    profile.write_text(PROFILE)
    command = [*RUN, "--profile", str(profile)]
    print(f"$ python {' '.join(command)}", flush=True)
    run = subprocess.Popen([sys.executable, *command])
    try:
        _wait_for_jobs(4, run)
        _show("squeue")
        _wait_for_tasks(TASKS_BEFORE_THE_LOSS, run, since=time.time())
        jobs = _jobs()
        if jobs:
            _show("scancel", jobs[0])
            _wait_for_jobs(4, run, other_than=jobs[0])
            _show("squeue")
        status = run.wait()
    except BaseException:
        run.terminate()
        run.wait()
        raise
    _show("squeue")
    return status


def _wait_for_jobs(count: int, run: subprocess.Popen[bytes], other_than: str | None = None) -> None:
    while run.poll() is None:
        jobs = _jobs()
        if len(jobs) >= count and other_than not in jobs:
            return
        time.sleep(0.2)


def _wait_for_tasks(count: int, run: subprocess.Popen[bytes], since: float) -> None:
    while run.poll() is None:
        for journal in Path("results").glob("svm_grid-*/journal.jsonl"):
            new = journal.stat().st_mtime > since
            if new and journal.read_text().count("\n") >= count:
                return
        time.sleep(0.2)


def _jobs() -> list[str]:
    asked = ["squeue", "--noheader", "--states=RUNNING", "--format=%i"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.split()


def _show(*command: str) -> None:
    print(f"$ {' '.join(command)}", flush=True)
    subprocess.run(command)


if __name__ == "__main__":
    sys.exit(main())
