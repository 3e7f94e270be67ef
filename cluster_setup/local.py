"""``--cluster local``: worker processes on the cores of this machine."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from cluster_setup import security
from cluster_setup.keeper import kept
from cluster_setup.limits import in_time
from cluster_setup.options import ClusterOptions

if TYPE_CHECKING:
    from distributed import Client

LOOPBACK = "127.0.0.1"
DASHBOARD_PORT = 8787


def available_cores() -> int:
    """Cores this process may use: its affinity mask, less what its job did not ask for."""
    bound = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if bound else os.cpu_count() or 1
    # Not every queue binds its jobs to the cores they asked for.
    asked = (os.environ.get(name, "") for name in ("SLURM_CPUS_PER_TASK", "NSLOTS", "NCPUS"))
    return min([cores, *(int(number) for number in asked if number.isdigit() and int(number))])


def scheduler_dashboard(asked: str | None) -> dict[str, Any]:
    """Where a scheduler's dashboard listens, as options of ``Scheduler``.

    By default loopback on Dask's usual port, or on any free one when that is taken.
    """
    if asked == "off":  # a scheduler has a port for pages anyway; open_cluster leaves it empty
        return {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
    if asked is None:
        with socket.socket() as probe:
            taken = probe.connect_ex((LOOPBACK, DASHBOARD_PORT)) == 0
        asked = "0" if taken else str(DASHBOARD_PORT)
    return {"dashboard_address": asked if ":" in asked else f"{LOOPBACK}:{asked}"}


def on_loopback(options: ClusterOptions) -> dict[str, Any]:
    """What makes a cluster of this machine deaf to its other users."""
    if not options.tls:
        options.say(security.NO_TLS)
        return {"protocol": "tcp://"}
    return {"protocol": "tls://", "security": security.in_memory()}


@contextmanager
def open_client(options: ClusterOptions) -> Iterator[Client]:
    """A client of worker processes on loopback, one for each core by default."""
    from distributed import Client, LocalCluster

    threads = options.threads_per_worker
    start = partial(
        in_time(LocalCluster),
        n_workers=options.workers or max(1, available_cores() // threads),
        threads_per_worker=threads,
        host=LOOPBACK,
        **on_loopback(options),
        scheduler_kwargs=scheduler_dashboard(options.dashboard),
        # A worker that dies is restarted and shown in the summary: no need to alarm.
        silence_logs=logging.CRITICAL,
    )
    with kept("local", start) as cluster, Client(cluster, set_as_default=False) as client:
        yield client
