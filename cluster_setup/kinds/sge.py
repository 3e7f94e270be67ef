"""``--cluster sge``: each worker is a job of Grid Engine, by dask-jobqueue."""

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
    """States by job, from lines of ``job-ID  prior  name  user  state ...``.

    A job with ``q`` waits, one with ``h`` is held, and one with ``E`` has ended.
    """
    states = {}
    for words in map(str.split, output.splitlines()):
        if len(words) >= 5 and words[0].isdigit() and "E" not in words[4]:
            obstacle = HELD if "h" in words[4] else None
            states[words[0]] = JobState("q" in words[4], f"state {words[4]}", obstacle)
    return states


def _job_options(profile: Profile, gpu: bool, logs: Path) -> dict[str, Any]:
    gpus = [f"-l {profile.gres}"] if gpu else []
    return {
        "queue": profile.partition_for(gpu),
        "project": profile.account,
        "job_extra_directives": ["-r n", f"-o {logs}/", *gpus, *profile.directives],
    }


# qstat lists all jobs of the user; it does not select some.
QUEUE = Queue(
    "sge", "SGECluster", "qsub", "qdel", lambda ids: ["qstat"], _parse_states, _job_options
)
open_client = partial(queue.open_client, QUEUE)
job_script = partial(jobs.job_script, QUEUE)
