"""A batch system and its jobs: a job is one worker, with one thread, and with one GPU or none."""

from __future__ import annotations

import asyncio
import itertools
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import ByteSize

from cluster_setup.errors import ClusterError
from cluster_setup.installation import install_line
from cluster_setup.options import ClusterOptions
from cluster_setup.profiles import Profile, load_profile
from cluster_setup.profiles.values import for_node, seconds_of, walltime_text
from cluster_setup.security import named_keys
from cluster_setup.settings import (
    LOOPBACK,
    OF_WORKERS,
    as_environment,
    open_protocol,
    takers_of_rmm,
)

# The web pages of a worker are for its node only, if they are there at all.
NO_WEB_PAGES = ("--no-dashboard", "--dashboard-address", f"{LOOPBACK}:0")
SECONDS_TO_ANSWER = 60
JOBS_NAMED = 5
NONE_IS_KNOWN = ("invalid job id", "unknown job", "has finished")


@dataclass(frozen=True)
class Obstacle:
    """Why a job will not start by itself, however long it waits, and the way out.

    Attributes
    ----------
    why : str
    keys : tuple of str
        Keys of the profile to change.
    command : str
        A command of the queue that starts the job; empty if none will do.
    is_certain : bool
        False if the job may start yet, once other jobs have ended.
    """

    why: str
    keys: tuple[str, ...]
    command: str = ""
    is_certain: bool = True

    def way_out(self, jobs: Sequence[str], profile: Profile, gpu: bool) -> str:
        """What the user can do for these jobs, in words, with the values in the profile."""
        parts = []
        if self.command:
            ellipsis = " ..." if len(jobs) > JOBS_NAMED else ""
            parts.append(f"{self.command} {' '.join(jobs[:JOBS_NAMED])}{ellipsis}")
        keys = []
        for key in self.keys:
            if key == "gres" and not gpu:
                continue
            if key == "partition" and profile.cpu_partition and not gpu:
                key = "cpu_partition"
            value = getattr(profile, key)
            if isinstance(value, ByteSize):
                value = value.human_readable()
            keys.append(f"{key} ({value})" if value and key != "directives" else key)
        *first, last = keys
        parts.append(f"change {', '.join(first)}{' or ' * bool(first)}{last} in the profile")
        return ", or ".join(parts)


@dataclass(frozen=True)
class JobState:
    """Whether a job waits in the queue, the reason, and what keeps it from starting, if known."""

    waits: bool
    reason: str = ""
    obstacle: Obstacle | None = None


@dataclass(frozen=True)
class Queue:
    """A batch system: its commands to list and to cancel jobs.

    Attributes
    ----------
    kind : str
        As in ``KINDS``.
    cluster_class : str
        Its class in ``dask_jobqueue``.
    submit, cancel : str
        Commands.
    states_command : function of job ids
        The command that prints the states of jobs.
    parse_states : function of the command's output
        Returns the state by job id, of the jobs that have not ended.
    job_options : function of the profile, whether with a GPU, and the folder for logs
        Returns the arguments of this queue's job class in dask-jobqueue that not all classes take.
    """

    kind: str
    cluster_class: str
    submit: str
    cancel: str
    states_command: Callable[[Sequence[str]], list[str]]
    parse_states: Callable[[str], dict[str, JobState]]
    job_options: Callable[[Profile, bool, Path], Mapping[str, Any]]

    async def states(self, jobs: Sequence[str]) -> dict[str, JobState] | None:
        """The states of those ``jobs`` that have not ended; None if the queue does not answer."""
        if not jobs:
            return {}
        with suppress(OSError, TimeoutError, ValueError, IndexError):
            process = await asyncio.create_subprocess_exec(
                *self.states_command(jobs),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                out, err = await asyncio.wait_for(process.communicate(), SECONDS_TO_ANSWER)
            except TimeoutError:
                process.kill()
                raise
            # qstat and squeue also fail if they do not know any of the jobs any more.
            error = err.decode(errors="replace").lower()
            if process.returncode == 0 or any(words in error for words in NONE_IS_KNOWN):
                return self.parse_states(out.decode(errors="replace"))
        return None

    def cancel_all(self, jobs: Sequence[str]) -> None:
        """Cancel jobs with one command; it does not matter if some have ended."""
        if jobs:
            with suppress(OSError, subprocess.SubprocessError):
                subprocess.run([self.cancel, *jobs], capture_output=True, timeout=SECONDS_TO_ANSWER)


def job_script(queue: Queue, options: ClusterOptions) -> str:
    """The job script of one worker, as text; nothing is written or submitted."""
    profile = load_profile(options.profile, queue.kind)
    folder = profile.shared_path / "RUN"
    gpu = wants_gpu(options, profile)
    arguments = job_arguments(queue, profile, gpu, folder, options.rmm_pool)
    protocol, keys = open_protocol(), None
    if options.tls:
        protocol, keys = "tls://", named_keys(folder)
    job = cluster_class(queue).job_cls(
        f"{protocol}SCHEDULER", name="WORKER", protocol=protocol, security=keys, **arguments
    )
    return str(job.job_script())


def wants_gpu(options: ClusterOptions, profile: Profile) -> bool:
    """Whether jobs ask for a GPU: as ``device`` says; with "auto", if the profile has one.

    Raises
    ------
    ClusterError
        A GPU, or a pool on it, is asked for, and jobs have none.
    """
    if options.device == "gpu" and profile.gres is None:
        raise ClusterError(
            "--device gpu needs gres in the profile, "
            f"{options.profile or f'generic-{profile.queue}'} has none; add it, or use --device cpu"
        )
    gpu = options.device != "cpu" and profile.gres is not None
    if options.rmm_pool and not gpu:
        raise ClusterError(
            f"--rmm-pool needs workers with a GPU, got {options.rmm_pool} for jobs without one; "
            "leave it out, or take --device gpu and a profile with gres"
        )
    return gpu


def job_arguments(
    queue: Queue, profile: Profile, gpu: bool, folder: Path, rmm_pool: str | None
) -> dict[str, Any]:
    """The arguments of dask-jobqueue's job for a worker of one process and one thread.

    Parameters
    ----------
    queue : Queue
    profile : Profile
    gpu : bool
        Whether the job has a GPU.
    folder : Path
        The folder for logs.
    rmm_pool : str or None
        As in ``ClusterOptions``; None for that of the profile.
    """
    # A worker leaves before the queue ends its job, and not all workers leave at once. Both are set
    # by environment variables, as dask cuda worker has no options for them.
    walltime = seconds_of(profile.walltime)
    python = [for_node(word, "python") for word in profile.python or ()]
    local = profile.local_directory
    slack = min(600, max(5, walltime // 20))
    settings = {
        "distributed.worker.lifetime.duration": f"{walltime - 2 * slack}s",
        "distributed.worker.lifetime.stagger": f"{slack}s",
        **OF_WORKERS,
    }
    exports = [
        f"export {name}={shlex.quote(value)}" for name, value in as_environment(settings).items()
    ]
    extra = [*NO_WEB_PAGES]
    if gpu and (pool := rmm_pool or profile.rmm_pool):
        extra += [
            "--rmm-pool-size",
            pool,
            "--rmm-track-allocations",
            "--set-rmm-allocator-for-libs",
            ",".join(takers_of_rmm()),
        ]
    return {
        "worker_command": "dask cuda worker" if gpu else "distributed.cli.dask_worker",
        "python": " ".join(python) or shlex.quote(sys.executable),
        # dask-jobqueue gives a worker cores / processes threads, which makes one here.
        "cores": 1,
        "processes": 1,
        "memory": profile.memory,
        "walltime": walltime_text(walltime),
        "interface": profile.interface,
        "death_timeout": profile.death_timeout,
        "local_directory": local and for_node(local, "local_directory"),
        "job_name": "pleasingly",
        "worker_extra_args": extra,
        "job_script_prologue": [*exports, *profile.prologue],
        "job_directives_skip": list(profile.skip_directives),
        **queue.job_options(profile, gpu, folder),
    }


def cluster_class(queue: Queue) -> Any:
    """The class of dask-jobqueue for ``queue``, extended to note refusals and registrations."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue
    except ImportError:
        raise ClusterError(
            f"--cluster {queue.kind} needs dask-jobqueue, which is not installed here; "
            f"run {install_line('hpc')}"
        ) from None
    # The import sets a handler with which Ctrl-C ends the program at once, with exit status 0.
    if signal.getsignal(signal.SIGINT) is not on_interrupt:
        signal.signal(signal.SIGINT, on_interrupt)
    return _noting_class(getattr(dask_jobqueue, queue.cluster_class))


@cache
def _noting_class(base: Any) -> Any:
    """A subclass of a cluster class of dask-jobqueue that notes refusals and registrations."""
    from distributed.deploy.spec import ProcessInterface

    class NotingJob(base.job_cls):
        refused: str | None = None

        def __init__(self, *arguments: Any, security: Any = None, **options: Any) -> None:
            if security:  # its paths become part of a shell command
                words = security.get_tls_config_for_role("worker")
                words = {key: shlex.quote(word) for key, word in words.items() if word}
                security = SimpleNamespace(get_tls_config_for_role=lambda role: words)
            super().__init__(*arguments, security=security, **options)

        @property
        def worker_process_memory(self) -> str:
            """The memory limit of a worker, rounded down, as a job gets no more."""
            unit, name = (2**30, "GiB") if self.worker_memory >= 2**30 else (2**20, "MiB")
            return f"{self.worker_memory * 100 // unit / 100:.2f}{name}"

        async def start(self) -> None:
            try:
                await super().start()
            except (RuntimeError, OSError, ValueError) as error:
                text = str(error)  # dask-jobqueue's, with the queue's own words in it
                self.refused = " ".join((text.partition("stderr:")[2] or text).split())
                await ProcessInterface.start(self)  # for Dask it has started and can be closed

        async def close(self) -> None:
            await super().close()
            await ProcessInterface.close(self)

    class NotingCluster(base):
        job_cls = NotingJob

        def __init__(self, **options: Any) -> None:
            self.registered: set[str] = set()
            self._numbers = itertools.count()
            super().__init__(**options)

        def _new_worker_name(self, worker_number: int) -> str:
            # No name is used twice: Dask closes the job of a lost worker by name, perhaps after
            # another job has taken its place.
            return f"worker-{next(self._numbers)}"

        def _update_worker_status(self, op: str, msg: Any) -> None:
            if op == "add":
                self.registered |= {worker["name"] for worker in msg["workers"].values()}
            super()._update_worker_status(op, msg)

    return NotingCluster
