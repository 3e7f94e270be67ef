"""``--cluster slurm``: each worker a job of Slurm, by dask-jobqueue."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cluster_setup import queue
from cluster_setup.profiles import Profile
from cluster_setup.queue import jobs
from cluster_setup.queue.jobs import JobState, Queue

# Jobs in these states wait for nodes, or will again.
WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
ALIVE = {"RUNNING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}


def _states_command(ids: Sequence[str]) -> list[str]:
    return ["squeue", "--noheader", f"--jobs={','.join(ids)}", "--format=%i|%T|%r"]


def _parse_states(output: str) -> dict[str, JobState]:
    found = {}
    for line in output.splitlines():
        job, state, reason = line.strip().split("|", 2)
        if state in WAITING:
            found[job] = JobState(waits=True, reason=reason)
        elif state in ALIVE:
            found[job] = JobState(waits=False)
    return found


def _job_options(profile: Profile, gpu: bool, logs: Path) -> dict[str, Any]:
    # A job that Slurm itself runs again would meet the one that took its place.
    directives = ["--no-requeue", f"--output={logs}/%j.log"]
    if gpu:
        directives.append(f"--gres={profile.gres}")
    return {
        "queue": profile.partition_for(gpu),
        "account": profile.account,
        "job_cpu": profile.cores,
        "job_extra_directives": [*directives, *profile.directives],
    }


QUEUE = Queue(
    "slurm", "SLURMCluster", "sbatch", "scancel", _states_command, _parse_states, _job_options
)
open_client = partial(queue.open_client, QUEUE)
job_script = partial(jobs.job_script, QUEUE)
