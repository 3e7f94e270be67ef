"""``--cluster slurm``: each worker is a job of Slurm, by dask-jobqueue."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cluster_setup import queue
from cluster_setup.profiles import Profile
from cluster_setup.queue import jobs
from cluster_setup.queue.jobs import JobState, Obstacle, Queue

# Jobs in these states wait for nodes, or will do so again.
WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
ALIVE = {"RUNNING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}

LIMIT = "(?:Assoc|QOS)"
PER_JOB = rf"{LIMIT}Max\w*"
# By the reason that squeue gives; the first pattern that matches counts. Any other reason may pass
# by itself: nodes that are down or reserved (ReqNodeNotAvail) come back.
OBSTACLES = [
    (re.compile(pattern), obstacle)
    for pattern, obstacle in (
        (
            "PartitionConfig|BadConstraints|PartitionNodeLimit|Partition(Max|Min)Nodes",
            Obstacle(
                "the partition does not have what a job asks for",
                ("cores", "memory", "gres", "walltime", "partition", "directives"),
            ),
        ),
        (
            "JobHeld|JobHoldMaxRequeue|launch failed requeued held|JobLaunchFailure",
            Obstacle("a job is held", ("directives",), "scontrol release"),
        ),
        (
            "PartitionDown|PartitionInactive",
            Obstacle("its administrators have closed the partition", ("partition",)),
        ),
        (
            rf"PartitionTimeLimit|{PER_JOB}Wall\w*PerJob|(QOS|Association)TimeLimit",
            Obstacle("a job may not be that long", ("walltime", "partition", "directives")),
        ),
        (
            rf"{PER_JOB}MinutesPerJob",
            Obstacle("cores or GPUs times walltime are too much", ("walltime", "cores", "gres")),
        ),
        (
            rf"{PER_JOB}Cpu\w*Per(Job|Node)|QOSMinCpu",
            Obstacle("the cores of a job break a limit", ("cores", "account", "directives")),
        ),
        (
            rf"{PER_JOB}Mem\w*Per(Job|Node)|QOSMinMem|MaxMemPerLimit",
            Obstacle("the memory of a job breaks a limit", ("memory", "account", "directives")),
        ),
        (
            rf"{PER_JOB}GRES\w*Per(Job|Node)|QOSMinGRES",
            Obstacle("the GPUs of a job break a limit", ("gres", "account", "directives")),
        ),
        (
            rf"{LIMIT}Grp\w*(?<!Run)Minutes",
            Obstacle("the account's budget is spent", ("account", "directives")),
        ),
        (
            "InvalidAccount|InvalidQOS|AccountNotAllowed|QOSNotAllowed|(account|QOS) not",
            Obstacle(
                "the account or its QOS may not run here", ("account", "partition", "directives")
            ),
        ),
        (
            "DependencyNeverSatisfied|ReservationDeleted",
            Obstacle("what a job waits for will not come", ("directives",)),
        ),
        (
            rf"{LIMIT}(Max|Grp)|Max\w+PerAccount|(QOS|Association)ResourceLimit|QOSJobLimit",
            Obstacle(
                "a limit on jobs of the user or account together",
                ("cores", "memory", "gres", "account", "directives"),
                is_certain=False,
            ),
        ),
    )
]


def _states_command(ids: Sequence[str]) -> list[str]:
    return ["squeue", "--noheader", f"--jobs={','.join(ids)}", "--format=%i|%T|%r"]


def _parse_states(output: str) -> dict[str, JobState]:
    states = {}
    for line in output.splitlines():
        job, state, reason = line.strip().split("|", 2)
        if state in WAITING:
            matches = (obstacle for pattern, obstacle in OBSTACLES if pattern.search(reason))
            states[job] = JobState(True, reason, next(matches, None))
        elif state in ALIVE:
            states[job] = JobState(waits=False)
    return states


def _job_options(profile: Profile, gpu: bool, logs: Path) -> dict[str, Any]:
    # A job that Slurm itself ran again would meet the one that the watchdog has submitted.
    output = f"{logs}/".replace("%", "%%") + "%j.log"
    if shlex.quote(output) != output:  # in double quotes sbatch takes all but " and \ literally
        output = '"' + output.replace('"', r"\"") + '"'
    directives = ["--no-requeue", f"--output={output}"]
    gigabytes, mebibytes_left = divmod(profile.mebibytes, 1024)
    if gpu:
        directives.append(f"--gres={profile.gres}")
    return {
        "queue": profile.partition_for(gpu),
        "account": profile.account,
        "walltime": profile.walltime,
        "job_cpu": profile.cores,
        "job_mem": f"{gigabytes}G" if not mebibytes_left else f"{profile.mebibytes}M",
        "job_extra_directives": [*directives, *profile.directives],
    }


QUEUE = Queue(
    "slurm", "SLURMCluster", "sbatch", "scancel", _states_command, _parse_states, _job_options
)
open_client = partial(queue.open_client, QUEUE)
job_script = partial(jobs.job_script, QUEUE)
