"""``--cluster threads``: a Dask cluster within this process, which needs no time to start.

Its workers are threads, which share imports and data. They cannot outlive the program, nor a lack
of memory: this is for runs that are over before processes would have started.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from cluster_setup import shutdown
from cluster_setup.on_this_machine import start_cluster, with_time_limits
from cluster_setup.on_this_machine.devices import available_cores
from cluster_setup.options import ClusterOptions
from cluster_setup.settings import LOOPBACK, NO_LOGS, dask_settings, scheduler_dashboard

if TYPE_CHECKING:
    from distributed import Client

SECONDS_TO_LEAVE = 1


@contextmanager
def open_client(options: ClusterOptions) -> Iterator[Client]:
    """Open a client of workers in this process, one for each core by default.

    It opens no port, except that of a dashboard if one is asked for.
    """
    import dask
    from distributed import Client, LocalCluster

    # Dask would take the host of the pages from the scheduler's address, which has none here.
    host = (options.dashboard or "").rpartition(":")[0] or LOOPBACK
    link = dask.config.get("distributed.dashboard.link").replace("{host}", host)
    threads = options.threads_per_worker
    start = partial(
        with_time_limits(LocalCluster),
        processes=False,
        n_workers=options.workers or max(1, available_cores() // threads),
        threads_per_worker=threads,
        scheduler_kwargs=scheduler_dashboard(options.dashboard or "off"),
        worker_dashboard_address=None,
        silence_logs=NO_LOGS,
    )
    # Without a dashboard its pages, and bokeh, are not imported; pages of workers never are.
    settings = dask_settings(options.dashboard or "off")
    settings |= {"distributed.worker.http.routes": [], "distributed.dashboard.link": link}
    with (
        dask.config.set(settings),
        start_cluster(options.kind, start) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.sync(_close_ports, cluster, also_of_scheduler=options.dashboard in (None, "off"))
        try:
            yield client
        except BaseException:
            client.sync(_leave_workers, cluster)
            raise


async def _leave_workers(cluster: Any) -> None:
    """Close the workers without waiting for their tasks, as a thread cannot be interrupted."""
    for worker in list(cluster.workers.values()):
        # Those of this worker alone, as other clusters of this process go on.
        shutdown.leave_threads(worker.executors["default"]._threads)
        await worker.close(timeout=SECONDS_TO_LEAVE, executor_wait=False, nanny=False)


async def _close_ports(cluster: Any, also_of_scheduler: bool) -> None:
    """Close the ports that Dask opens for pages even if none are asked for."""
    servers = [*cluster.workers.values(), *([cluster.scheduler] if also_of_scheduler else [])]
    for server in servers:
        server.http_server.stop()
