"""What one job is: one worker, with one thread, on one GPU or none."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import Any

from cluster_setup.errors import ClusterError
from cluster_setup.options import ClusterOptions
from cluster_setup.profiles import Profile, load_profile
from cluster_setup.queue.batch_system import Queue
from cluster_setup.queue.watchdog import watched
from cluster_setup.security import key_files, named_keys
from cluster_setup.settings import LOOPBACK, OF_WORKERS, as_environment

# A worker's web pages are for the node itself.
NO_WEB_PAGES = ("--no-dashboard", "--dashboard-address", f"{LOOPBACK}:0")


def job_script(queue: Queue, options: ClusterOptions) -> str:
    """The job script of one worker, as text; nothing is made or submitted."""
    profile = load_profile(options.profile, queue.kind)
    folder = profile.shared_path / "RUN"
    arguments = job_arguments(queue, profile, wants_gpu(options, profile), folder)
    protocol, keys = "tcp://", None
    if options.tls:
        protocol, keys = "tls://", named_keys(*key_files(folder))
    job = cluster_class(queue).job_cls(
        f"{protocol}SCHEDULER", name="WORKER", protocol=protocol, security=keys, **arguments
    )
    return str(job.job_script())


def wants_gpu(options: ClusterOptions, profile: Profile) -> bool:
    """Whether jobs ask for a GPU: as told, else when the profile has one."""
    if options.device == "gpu" and profile.gres is None:
        raise ClusterError(
            f"--device gpu needs gres in the profile, {profile.name} has none; "
            "add it, or use --device cpu"
        )
    return options.device != "cpu" and profile.gres is not None


def job_arguments(queue: Queue, profile: Profile, gpu: bool, folder: Path) -> dict[str, Any]:
    """What dask-jobqueue is told of one job: one process, one thread, one GPU or none."""
    command = "dask cuda worker" if gpu else "distributed.cli.dask_worker"
    return {
        "worker_command": command,
        "python": profile.python or shlex.quote(sys.executable),
        # dask-jobqueue gives each worker cores / processes threads: a worker has one thread.
        "cores": 1,
        "processes": 1,
        "memory": profile.memory,
        "walltime": profile.walltime,
        "interface": profile.interface,
        "death_timeout": profile.death_timeout,
        "local_directory": profile.local_directory,
        "job_name": "pleasingly",
        "worker_extra_args": list(NO_WEB_PAGES),
        "job_script_prologue": [*_environment(profile), *profile.prologue],
        "job_directives_skip": list(profile.skip_directives),
        **queue.arguments(profile, gpu, folder),
    }


def worker_flags(profile: Profile, gpu: bool) -> list[str]:
    """The worker's own flags, where it is not dask-jobqueue that writes them."""
    given = {
        "--nthreads": 1,
        "--memory-limit": profile.memory,
        "--death-timeout": profile.death_timeout,
        "--interface": profile.interface,
        "--local-directory": profile.local_directory,
    }
    flags = [word for flag, value in given.items() if value for word in (flag, str(value))]
    return [*flags, *NO_WEB_PAGES]


def _environment(profile: Profile) -> list[str]:
    """What a worker is told by its environment, since ``dask cuda worker`` lacks the options.

    It leaves before the queue ends its job, and not all workers leave at once.
    """
    walltime = profile.walltime_seconds
    slack = min(600, max(5, walltime // 20))
    lifetime = "distributed.worker.lifetime"
    settings = {
        f"{lifetime}.duration": f"{walltime - 2 * slack}s",
        f"{lifetime}.stagger": f"{slack}s",
        **OF_WORKERS,
    }
    return [f"export {name}={value}" for name, value in as_environment(settings).items()]


def cluster_class(queue: Queue) -> Any:
    """The class of dask-jobqueue, which notes jobs, refusals and registrations."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue
    except ImportError:
        raise ClusterError(
            f"--cluster {queue.kind} needs dask-jobqueue, which is not installed here; "
            "run pip install -c constraints.txt '.[hpc]'"
        ) from None
    # Its import makes Ctrl-C end the program at once, and with exit status 0.
    if signal.getsignal(signal.SIGINT) is not on_interrupt:
        signal.signal(signal.SIGINT, on_interrupt)
    return watched(getattr(dask_jobqueue, queue.cluster_class))
