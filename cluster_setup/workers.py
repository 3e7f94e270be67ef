"""What the workers of a cluster are, and how to watch them."""

from __future__ import annotations

import getpass
import os
import socket
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cluster_setup.cuda import visible_gpus
from cluster_setup.errors import ClusterError
from cluster_setup.local import available_cores

if TYPE_CHECKING:
    from distributed import Client


def describe_workers(client: Client) -> list[dict[str, Any]]:
    """Address, host, process, cores, threads, GPU and Dask version of every worker.

    Raises
    ------
    ClusterError
        The workers cannot import this program.
    """
    try:
        found = client.run(_describe)
    except Exception as error:  # whatever the workers raised
        raise ClusterError(
            f"--cluster must have workers that can import this program, "
            f"those at {client.scheduler.address} cannot ({type(error).__name__}: {error}); "
            "install it in their environment"
        ) from None
    return [{"address": address, **about} for address, about in sorted(found.items())]


def _describe(dask_worker: Any) -> dict[str, Any]:
    import dask

    gpus = visible_gpus()
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "cores": available_cores(),
        "threads": dask_worker.state.nthreads,
        "gpu": gpus[0] if gpus else None,
        "dask": dask.__version__,
    }


def threads_per_task(workers: list[dict[str, Any]]) -> int:
    """Threads each task may use so that the tasks of a host fill its cores, at least 1."""
    tasks_of = Counter[str]()
    for worker in workers:
        tasks_of[worker["host"]] += worker["threads"]
    return max(1, min(worker["cores"] // tasks_of[worker["host"]] for worker in workers))


def how_to_watch(client: Client) -> list[str]:
    """Lines that say where the dashboard is and, on a remote host, how to reach it."""
    link = client.dashboard_link
    if not link:
        return ["dashboard  none (bokeh is not installed where the scheduler runs)"]
    lines = [f"dashboard  {link}"]
    address = urlsplit(link)
    remote = address.hostname not in ("127.0.0.1", "localhost")
    if remote or "SSH_CONNECTION" in os.environ:
        lines.append(
            f"           from your own computer: ssh -N -L {address.port}:{address.hostname}:"
            f"{address.port} {getpass.getuser()}@{socket.getfqdn()}"
            f"  then http://localhost:{address.port}/status"
        )
    return lines
