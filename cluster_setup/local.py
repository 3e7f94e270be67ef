"""``--cluster local``: worker processes on the cores of this machine."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributed import Client

LOOPBACK = "127.0.0.1"
DASHBOARD_PORT = 8787
INTERRUPT_PRELOAD = "cluster_setup.ignore_interrupt"


def available_cores() -> int:
    """Cores this process may use (its affinity mask, where there is one)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def dashboard_address() -> str:
    """Loopback on Dask's usual port, or on any free one when that is taken."""
    with socket.socket() as probe:
        taken = probe.connect_ex((LOOPBACK, DASHBOARD_PORT)) == 0
    return f"{LOOPBACK}:{0 if taken else DASHBOARD_PORT}"


@contextmanager
def open_client(kind: str, workers: int | None, threads_per_worker: int) -> Iterator[Client]:
    """A client of worker processes on loopback, one for each core by default."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers or max(1, available_cores() // threads_per_worker),
            threads_per_worker=threads_per_worker,
            host=LOOPBACK,
            dashboard_address=dashboard_address(),
            # A worker that dies is restarted and shown in the summary: no need to alarm.
            silence_logs=logging.CRITICAL,
            preload=[INTERRUPT_PRELOAD],
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
