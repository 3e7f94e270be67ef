"""``--cluster pbs``: each worker is a job of PBS, by dask-jobqueue."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from cluster_setup import queue
from cluster_setup.profiles import Profile
from cluster_setup.queue import jobs
from cluster_setup.queue.jobs import JobState, Obstacle, Queue

HELD = Obstacle("a job is held", ("directives",), "qrls")


def _parse_states(output: str) -> dict[str, JobState]:
    """States by job, from lines of ``Job id  Name  User  Time Use  S  Queue``."""
    states = {}
    for words in map(str.split, output.splitlines()):
        if len(words) >= 6 and words[0][0].isdigit() and words[-2] not in "CFX":
            # dask-jobqueue knows a job by its number alone.
            number, state = words[0].split(".")[0], words[-2]
            obstacle = HELD if state == "H" else None
            states[number] = JobState(state in "QHWT", f"state {state}", obstacle)
    return states


def _job_options(profile: Profile, gpu: bool, logs: Path) -> dict[str, Any]:
    select = f"select=1:ncpus={profile.cores}:mem={profile.mebibytes}mb"
    return {
        "queue": profile.partition_for(gpu),
        "account": profile.account,
        "resource_spec": f"{select}:{profile.gres}" if gpu else select,
        # A job that PBS itself ran again would meet the one that the watchdog has submitted.
        "job_extra_directives": ["-r n", "-j oe", f"-o {logs}/", *profile.directives],
    }


QUEUE = Queue(
    "pbs", "PBSCluster", "qsub", "qdel", lambda ids: ["qstat", *ids], _parse_states, _job_options
)
open_client = partial(queue.open_client, QUEUE)
job_script = partial(jobs.job_script, QUEUE)
