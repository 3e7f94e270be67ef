"""Describe the workers of a cluster, and wait for them."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cluster_setup import waits
from cluster_setup.errors import ClusterError
from cluster_setup.on_this_machine.devices import available_cores, visible_gpus

if TYPE_CHECKING:
    from distributed import Client

TIMES_TO_ASK = 5
# What tells a job of a queue, and a task of it, from the others on its host.
JOB = ("SLURM_JOB_ID", "PBS_JOBID", "JOB_ID", "SLURM_PROCID")


def describe_workers(client: Client) -> list[dict[str, Any]]:
    """Return address, host, process, cores, threads, GPU and Dask version of every worker.

    Of a GPU its name and its memory in bytes.

    Waits for at least one.

    Raises
    ------
    ClusterError
        The workers cannot import this program, or none answers.
    """
    try:
        for n_left in reversed(range(TIMES_TO_ASK)):
            try:
                waits.wait_for_workers(client, 1, waits.SECONDS_FOR_A_WORKER)
                if descriptions := waits.run_on_workers(client, _describe):
                    break
            except OSError:  # a worker died while it was asked; its successor may answer
                if not n_left:
                    raise
        else:
            raise TimeoutError("none answered")
    except ClusterError:
        raise
    except Exception as error:  # whatever the workers raised
        raise ClusterError(
            f"--cluster must have workers that can import this program, "
            f"those at {client.scheduler.address} cannot ({type(error).__name__}: {error}); "
            "install it in their environment"
        ) from None
    return [
        {"address": address, **description} for address, description in sorted(descriptions.items())
    ]


def _describe(dask_worker: Any) -> dict[str, Any]:
    import dask

    gpus = visible_gpus()
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "cores": available_cores(),
        "threads": dask_worker.state.nthreads,
        "job": "/".join(os.environ[name] for name in JOB if name in os.environ) or None,
        "gpu": gpus[0].name if gpus else None,
        "gpu_memory": gpus[0].memory if gpus else None,
        "dask": dask.__version__,
    }


def memory_of_workers(client: Client, workers: Sequence[Mapping[str, Any]]) -> list[int]:
    """List the bytes that each worker may use: of its GPU, else Dask's limit, else its share."""
    import psutil

    worker_infos = client.scheduler_info(n_workers=-1)["workers"]
    limits = {address: info["memory_limit"] for address, info in worker_infos.items()}
    n_on_host = Counter(worker["host"] for worker in workers)
    return [
        worker["gpu_memory"]
        or limits.get(worker["address"])
        or psutil.virtual_memory().total // n_on_host[worker["host"]]
        for worker in workers
    ]


def peak_memory(dask_worker: Any, since: int = 0) -> dict[str, int]:
    """Return the most bytes that a worker's process had in use, and its GPU where it has one.

    Of the samples that Dask's monitor takes twice a second and keeps for an hour; ``since`` is
    the number of those that do not count. A GPU's are NVML's, of all programs that use it, where
    this process is one of them.
    """
    history = dask_worker.monitor.range_query(since)
    columns = {"peak_memory": "memory"}
    torch = sys.modules.get("torch")
    if "cupy" in sys.modules or (torch is not None and torch.cuda.is_initialized()):
        columns["peak_gpu_memory"] = "gpu_memory_used"
    samples = {
        name: list(filter(None, history.get(column, ()))) for name, column in columns.items()
    }
    return {name: int(max(values)) for name, values in samples.items() if values}


def samples_of_memory(dask_worker: Any) -> int:
    """Return how many samples the monitor of a worker has taken."""
    return int(dask_worker.monitor.count)


def peak_memory_since(sampled: Mapping[str, int], dask_worker: Any) -> dict[str, int]:
    """Return ``peak_memory`` since a worker, by its address, had taken so many samples."""
    return peak_memory(dask_worker, max(0, sampled.get(dask_worker.address, 0) - 1))


@dataclass(frozen=True)
class WorkerForecast:
    """A forecast of whether workers may still join a cluster that has none, or too few.

    Attributes
    ----------
    wanted : int
        Workers that were asked for; 0 where nobody asks (a running scheduler).
    coming : bool
        Jobs are in the queue, or will be again: to wait is right, however long.
    reason : str or None
        Why none will come any more, in one line.
    """

    wanted: int = 0
    coming: bool = False
    reason: str | None = None


@contextmanager
def slot_left(client: Client) -> Iterator[None]:
    """Within a task of the client's own cluster, leave its thread to other tasks meanwhile.

    Else those that are waited for would never begin where it is the only one.
    """
    from distributed import get_worker, rejoin, secede

    try:
        is_own = get_worker().scheduler.address == client.scheduler.address
    except ValueError:  # this is no task
        is_own = False
    if is_own:
        try:
            secede()
        except (KeyError, AttributeError):  # it has left it already, or has none
            is_own = False
    try:
        yield
    finally:
        if is_own:
            rejoin()


def forecast_workers(client: Client) -> WorkerForecast:
    """Return whether workers may still come to the cluster of ``client``."""
    watchdog = getattr(client.cluster, "watchdog", None)
    if watchdog is None:
        return WorkerForecast()
    return WorkerForecast(watchdog.n_wanted, watchdog.coming, watchdog.given_up)


@dataclass(frozen=True)
class Presence:
    """Who is there to work now.

    Attributes
    ----------
    workers : int
    wanted : int
        Workers that were asked for; 0 where nobody asks.
    waiting : str
        How many jobs wait in a queue and why, in words; empty where none does.
    """

    workers: int = 0
    wanted: int = 0
    waiting: str = ""

    def __str__(self) -> str:
        of_wanted = f" of {self.wanted}" if self.workers < self.wanted else ""
        n = max(self.workers, self.wanted)
        waiting = f", {self.waiting}" if self.waiting else ""
        return f"{self.workers}{of_wanted} worker{'s' * (n != 1)}{waiting}"


def workers_present(client: Client) -> Presence:
    """Return how many workers the cluster of ``client`` has now, and what waits in its queue."""
    n_workers = len(client.scheduler_info(n_workers=-1)["workers"])
    watchdog = getattr(client.cluster, "watchdog", None)
    if watchdog is None:
        return Presence(n_workers)
    return Presence(n_workers, watchdog.n_wanted, watchdog.waiting())


def threads_per_task(workers: list[dict[str, Any]]) -> int:
    """Return how many threads each task may use so that tasks that share cores fill them.

    Workers of one host share its cores, unless each is a job with cores of its own.
    """
    tasks_of = Counter[tuple[str, str | None]]()
    for worker in workers:
        tasks_of[worker["host"], worker.get("job")] += worker["threads"]
    return max(
        1, min(worker["cores"] // tasks_of[worker["host"], worker.get("job")] for worker in workers)
    )


def how_to_watch(client: Client) -> list[str]:
    """Return lines that say where the dashboard is and, on a remote host, how to reach it."""
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
