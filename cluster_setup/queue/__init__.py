"""What all queues share: one job runs one worker on one GPU, from submission to its end."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from cluster_setup import security
from cluster_setup.errors import ClusterError
from cluster_setup.options import ClusterOptions
from cluster_setup.profiles import load_profile
from cluster_setup.queue.jobs import Queue, cluster_class, job_arguments, wants_gpu
from cluster_setup.queue.watchdog import Watchdog
from cluster_setup.settings import NO_LOGS, scheduler_dashboard
from cluster_setup.shutdown import close_or_kill

if TYPE_CHECKING:
    from distributed import Client

# Workers of a preemptible partition are killed often, and seldom by what they compute.
ALLOWED_FAILURES = 10
SECONDS_BETWEEN_LINES = 60


@contextmanager
def open_client(queue: Queue, options: ClusterOptions) -> Iterator[Client]:
    """Open a client whose workers are jobs of ``queue``; yield it when the first has come.

    The others join as the queue lets them; every job is cancelled at the end.

    Raises
    ------
    ClusterError
        The profile is wrong, the queue's commands are not here, it refuses the
        job, or jobs end before their worker registers.
    """
    import dask
    from distributed import Client

    profile = load_profile(options.profile, queue.kind)
    gpu = wants_gpu(options, profile)
    if shutil.which(queue.submit) is None:
        raise ClusterError(
            f"--cluster {queue.kind} needs the command {queue.submit}, which is not here; "
            "start on a login node, or use --cluster local"
        )
    if not options.tls:
        options.echo(security.NO_TLS)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": ALLOWED_FAILURES}),
        security.private_folder(profile.shared_path) as folder,
        security.in_folder(folder) if options.tls else nullcontext() as keys,
        ExitStack() as ending,
    ):
        try:
            cluster = cluster_class(queue)(
                security=keys,
                protocol="tls://" if keys else "tcp://",
                scheduler_options=scheduler_dashboard(options.dashboard),
                silence_logs=NO_LOGS,
                **job_arguments(queue, profile, gpu, folder),
            )
        except (RuntimeError, ValueError) as error:  # no such interface, no free port
            reason = " ".join(str(error.__cause__ or error).split())
            raise ClusterError(
                f"--cluster {queue.kind} cannot start its scheduler: {reason}; "
                "interface in the profile must be one of this machine and of the nodes"
            ) from None
        ending.callback(close_or_kill, cluster)
        watchdog = Watchdog(cluster, queue, options, profile, folder)
        cluster.watchdog = watchdog  # where workers.outlook finds it
        # All jobs at once, and before anything that may take time.
        ending.callback(lambda: queue.cancel_all(watchdog.jobs))
        ending.callback(watchdog.stop)
        client = ending.enter_context(Client(cluster, set_as_default=False))
        line, last = "", time.monotonic()
        while not cluster.scheduler_info["workers"]:
            if watchdog.given_up:
                raise ClusterError(watchdog.given_up)
            waiting = watchdog.waiting()
            if waiting != line or (waiting and time.monotonic() - last > SECONDS_BETWEEN_LINES):
                line, last = waiting, time.monotonic()
                if waiting:
                    options.echo(f"queue      {waiting}")
            time.sleep(0.1)
        yield client
