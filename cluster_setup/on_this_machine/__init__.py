"""A cluster whose workers are processes of this machine, on its loopback address alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from cluster_setup import security
from cluster_setup.on_this_machine.startup import started, with_time_limits
from cluster_setup.options import ClusterOptions
from cluster_setup.settings import LOOPBACK, scheduler_dashboard

if TYPE_CHECKING:
    from distributed import Client

SECONDS_BETWEEN_CHECKS = 2


@contextmanager
def open_client(options: ClusterOptions, cluster_class: Any, **more: Any) -> Iterator[Client]:
    """Open a client of worker processes on loopback, which are restarted when they die.

    Parameters
    ----------
    options : ClusterOptions
    cluster_class : LocalCluster or a subclass
    **more
        Further arguments of ``cluster_class``.
    """
    from distributed import Client

    if options.tls:
        connection = {"protocol": "tls://", "security": security.in_memory()}
    else:
        options.echo(security.NO_TLS)
        connection = {"protocol": "tcp://"}
    start = partial(
        with_time_limits(cluster_class),
        host=LOOPBACK,
        **connection,
        scheduler_kwargs=scheduler_dashboard(options.dashboard),
        # A worker that dies is restarted and shown in the summary: no need to alarm.
        silence_logs=logging.CRITICAL,
        **more,
    )
    with started(options.kind, start) as cluster:
        restart_lost_workers(cluster)
        with Client(cluster, set_as_default=False) as client:
            yield client


def restart_lost_workers(cluster: Any) -> None:
    """Check every two seconds, until ``cluster`` is closed, for workers that Dask gave up.

    Dask's nanny restarts a worker that dies, but gives up when its successor dies before it has
    registered; and a ``LocalCluster`` drops a nanny whose worker takes long to come back. Neither
    asks for another, and a nanny may never learn that the worker it started is there.
    """
    from distributed.core import Status
    from tornado.ioloop import PeriodicCallback

    async def check() -> None:
        if cluster.status == Status.closed:
            timer.stop()
            return
        for nanny in list(cluster._created):  # with those that the cluster has dropped
            _mark_running(nanny, cluster.scheduler)
        for name, nanny in dict(cluster.workers).items():
            if nanny.status in (Status.failed, Status.closed):
                del cluster.workers[name]
        if cluster.status == Status.running and set(cluster.worker_spec) - set(cluster.workers):
            # As cluster.scale does it, which would print a traceback where a start fails.
            with suppress(RuntimeError, OSError):
                await cluster._correct_state()

    timer = PeriodicCallback(check, SECONDS_BETWEEN_CHECKS * 1000)
    cluster.loop.add_callback(timer.start)


def _mark_running(nanny: Any, scheduler: Any) -> None:
    """Let a nanny know that its worker runs, where the scheduler knows and it does not.

    A worker that dies while it starts leaves behind, in its nanny, a wait that takes the
    message of its successor's start and drops it. Who then closes the nanny would wait for
    that message for ever (``WorkerProcess._wait_until_connected``, distributed 2026.7).
    """
    from distributed.core import Status

    process = nanny.process
    if process is None or process.status != Status.starting:
        return
    for worker in scheduler.workers.values():
        if worker.nanny == nanny.address:
            process.worker_address, process.worker_dir = worker.address, worker.local_directory
            process.status = Status.running
            process.running.set()
