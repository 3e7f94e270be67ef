"""``--cluster slurm``: each worker a job of Slurm, by dask-jobqueue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster_setup import jobs
from cluster_setup.job_queue import JobState, Queue
from cluster_setup.options import ClusterOptions
from cluster_setup.profile import Profile

if TYPE_CHECKING:
    from distributed import Client

# Jobs in these states wait for nodes, or will again.
WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
ALIVE = {"RUNNING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}


def _ask(ids: Sequence[str]) -> list[str]:
    return ["squeue", "--noheader", f"--jobs={','.join(ids)}", "--format=%i|%T|%r"]


def _read(said: str) -> dict[str, JobState]:
    found = {}
    for line in said.splitlines():
        job, state, reason = line.strip().split("|", 2)
        if state in WAITING:
            found[job] = JobState(waits=True, reason=reason)
        elif state in ALIVE:
            found[job] = JobState(waits=False)
    return found


def _arguments(profile: Profile, gpu: bool, logs: Path) -> dict[str, Any]:
    # A job that Slurm itself runs again would meet the one that took its place.
    directives = ["--no-requeue", f"--output={logs}/%j.log"]
    if gpu:
        directives.append(f"--gres={profile.gres}")
    return {
        "queue": (None if gpu else profile.cpu_partition) or profile.partition,
        "account": profile.account,
        "job_cpu": profile.cores,
        "job_extra_directives": [*directives, *profile.directives],
    }


SLURM = Queue("slurm", "SLURMCluster", "sbatch", "scancel", _ask, _read, _arguments)


@contextmanager
def open_client(options: ClusterOptions) -> Iterator[Client]:
    """A client whose workers are jobs of Slurm; they are cancelled at the end."""
    with jobs.open_client(options, SLURM) as client:
        yield client


def job_script(options: ClusterOptions) -> str:
    """The job script of one worker, as text."""
    return jobs.job_script(options, SLURM)
