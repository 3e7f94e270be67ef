"""What all queues share: one job = one GPU = one worker, from the job script to its end."""

from __future__ import annotations

import logging
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster_setup import security
from cluster_setup.errors import ClusterError
from cluster_setup.job_queue import Queue
from cluster_setup.limits import close_in_time
from cluster_setup.local import LOOPBACK, scheduler_dashboard
from cluster_setup.options import ClusterOptions
from cluster_setup.profile import Profile, load_profile
from cluster_setup.settings import OF_WORKERS, as_environment
from cluster_setup.watchdog import Watchdog, watched

if TYPE_CHECKING:
    from distributed import Client, Security

# Workers of a preemptible partition are killed often, and seldom by what they compute.
ALLOWED_FAILURES = 10
SECONDS_BETWEEN_LINES = 60
# A worker's web pages are for the node itself.
NO_WEB_PAGES = ("--no-dashboard", "--dashboard-address", f"{LOOPBACK}:0")


@contextmanager
def open_client(options: ClusterOptions, queue: Queue) -> Iterator[Client]:
    """A client whose workers are jobs of ``queue``, given when the first has come.

    The others join as the queue lets them; every job is cancelled at the end.

    Raises
    ------
    ClusterError
        The profile is wrong, the queue's commands are not here, it refuses the
        job, or jobs end before their worker registers.
    """
    import dask

    profile = load_profile(options.profile, queue.kind)
    gpu = wants_gpu(options, profile)
    _require(queue)
    if not options.tls:
        options.say(security.NO_TLS)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": ALLOWED_FAILURES}),
        security.private_folder(profile.shared_path) as folder,
        security.in_folder(folder) if options.tls else nullcontext() as keys,
        _open_cluster(queue, profile, gpu, folder, keys, options.dashboard) as cluster,
        _jobs(cluster, queue, options, profile, folder) as watchdog,
        _client(cluster, watchdog) as client,
    ):
        _wait_for_the_first(cluster, watchdog, options)
        yield client


def job_script(options: ClusterOptions, queue: Queue) -> str:
    """The job script of one worker, as text; nothing is made or submitted."""
    profile = load_profile(options.profile, queue.kind)
    folder = profile.shared_path / "RUN"
    arguments = job_arguments(queue, profile, wants_gpu(options, profile), folder)
    protocol, keys = "tcp://", None
    if options.tls:
        protocol, keys = "tls://", _named_keys(folder)
    job = watched(_cluster_class(queue)).job_cls(
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


def _cluster_class(queue: Queue) -> Any:
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
    return getattr(dask_jobqueue, queue.cluster_class)


def _require(queue: Queue) -> None:
    if shutil.which(queue.submit) is None:
        raise ClusterError(
            f"--cluster {queue.kind} needs the command {queue.submit}, which is not here; "
            "start on a login node, or use --cluster local"
        )


def _named_keys(folder: Path) -> Security:
    from distributed import Security

    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    return Security(tls_ca_file=certificate, tls_worker_cert=certificate, tls_worker_key=key)


@contextmanager
def _open_cluster(
    queue: Queue,
    profile: Profile,
    gpu: bool,
    folder: Path,
    keys: Security | None,
    dashboard: str | None,
) -> Iterator[Any]:
    """The scheduler, in this process, without a job yet."""
    try:
        cluster = watched(_cluster_class(queue))(
            security=keys,
            protocol="tls://" if keys else "tcp://",
            scheduler_options=scheduler_dashboard(dashboard),
            silence_logs=logging.CRITICAL,
            **job_arguments(queue, profile, gpu, folder),
        )
    except (RuntimeError, ValueError) as error:  # no such interface, no free port
        reason = " ".join(str(error.__cause__ or error).split())
        raise ClusterError(
            f"--cluster {queue.kind} cannot start its scheduler: {reason}; "
            "interface in the profile must be one of this machine and of the nodes"
        ) from None
    try:
        yield cluster
    finally:
        close_in_time(cluster)


@contextmanager
def _jobs(
    cluster: Any, queue: Queue, options: ClusterOptions, profile: Profile, folder: Path
) -> Iterator[Watchdog]:
    """Submit jobs and keep them coming; cancel all of them at the end, whatever ends it."""
    wanted = None if options.adaptive else options.workers or profile.workers
    if options.adaptive:
        cluster.adapt(minimum_jobs=options.adaptive[0], maximum_jobs=options.adaptive[1])
    else:
        cluster.scale(wanted)
    watchdog = Watchdog(cluster, queue, wanted, folder, profile.check_every, options.say)
    watchdog.n_wanted = options.adaptive[1] if options.adaptive else wanted or 0
    cluster.watchdog = watchdog  # where workers.outlook finds it
    try:
        yield watchdog
    finally:
        watchdog.stop()
        # All at once and before anything that may take time.
        queue.cancel_all(watchdog.jobs)


@contextmanager
def _client(cluster: Any, watchdog: Watchdog) -> Iterator[Client]:
    from distributed import Client

    with Client(cluster, set_as_default=False) as client:
        yield client


def _wait_for_the_first(cluster: Any, watchdog: Watchdog, options: ClusterOptions) -> None:
    said, last = "", time.monotonic()
    while not cluster.scheduler_info["workers"]:
        if watchdog.given_up:
            raise ClusterError(watchdog.given_up)
        waiting = watchdog.waiting()
        if waiting != said or (waiting and time.monotonic() - last > SECONDS_BETWEEN_LINES):
            said, last = waiting, time.monotonic()
            if waiting:
                options.say(f"queue      {waiting}")
        time.sleep(0.1)
