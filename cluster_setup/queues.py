"""``--cluster pbs`` and ``--cluster sge``: each worker a job of PBS or Grid Engine."""

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


def _ask_pbs(ids: Sequence[str]) -> list[str]:
    return ["qstat", *ids]


def _read_pbs(said: str) -> dict[str, JobState]:
    """``Job id  Name  User  Time Use  S  Queue``: queued, held and waiting jobs wait."""
    found = {}
    for words in map(str.split, said.splitlines()):
        if len(words) >= 6 and words[0][0].isdigit() and words[-2] not in "CFX":
            # dask-jobqueue knows a job by its number alone.
            number = words[0].split(".")[0]
            found[number] = JobState(waits=words[-2] in "QHWT", reason=f"state {words[-2]}")
    return found


def _pbs_arguments(profile: Profile, gpu: bool, logs: Path) -> dict[str, Any]:
    from dask.utils import parse_bytes

    megabytes = -(-parse_bytes(profile.memory) // 2**20)
    select = f"select=1:ncpus={profile.cores}:mem={megabytes}mb"
    return {
        "queue": (None if gpu else profile.cpu_partition) or profile.partition,
        "account": profile.account,
        "resource_spec": f"{select}:{profile.gres}" if gpu else select,
        # Not to be run again by PBS itself: the one that took its place would meet it.
        "job_extra_directives": ["-r n", "-j oe", f"-o {logs}/", *profile.directives],
    }


def _ask_sge(ids: Sequence[str]) -> list[str]:
    return ["qstat"]  # lists the user's own; it cannot be asked for some


def _read_sge(said: str) -> dict[str, JobState]:
    """``job-ID  prior  name  user  state ...``: ``qw`` waits, an ``E`` never starts."""
    found = {}
    for words in map(str.split, said.splitlines()):
        if len(words) >= 5 and words[0].isdigit() and "E" not in words[4]:
            found[words[0]] = JobState(waits="q" in words[4], reason=f"state {words[4]}")
    return found


def _sge_arguments(profile: Profile, gpu: bool, logs: Path) -> dict[str, Any]:
    gpus = [f"-l {profile.gres}"] if gpu else []
    return {
        "queue": (None if gpu else profile.cpu_partition) or profile.partition,
        "project": profile.account,
        "job_extra_directives": ["-r n", f"-o {logs}/", *gpus, *profile.directives],
    }


QUEUES = {
    "pbs": Queue("pbs", "PBSCluster", "qsub", "qdel", _ask_pbs, _read_pbs, _pbs_arguments),
    "sge": Queue("sge", "SGECluster", "qsub", "qdel", _ask_sge, _read_sge, _sge_arguments),
}


@contextmanager
def open_client(options: ClusterOptions) -> Iterator[Client]:
    """A client whose workers are jobs of the queue; they are cancelled at the end."""
    with jobs.open_client(options, QUEUES[options.kind]) as client:
        yield client


def job_script(options: ClusterOptions) -> str:
    """The job script of one worker, as text."""
    return jobs.job_script(options, QUEUES[options.kind])
