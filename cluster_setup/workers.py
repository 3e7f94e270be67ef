"""The workers of a cluster: what they are, how much memory they use, and which may still come."""

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
# These variables tell a queue's job, and a task within it, from the others on its host.
JOB = ("SLURM_JOB_ID", "PBS_JOBID", "JOB_ID", "SLURM_PROCID")


def describe_workers(client: Client) -> list[dict[str, Any]]:
    """Address, host, process, cores, threads, job, GPU and Dask version of every worker.

    Waits for at least one worker.

    Returns
    -------
    list of dict
        In the order of the addresses. ``gpu`` is a name, ``gpu_memory`` bytes; None without one.

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
            except OSError:  # a worker died during the call; its successor may answer
                if not n_left:
                    raise
        else:
            raise TimeoutError("none answered")
    except ClusterError:
        raise
    except Exception as error:  # any error that a worker raised
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
    """The bytes that each worker may use: its GPU's, else Dask's limit, else a part of its host's.

    Parameters
    ----------
    client : distributed.Client
    workers : sequence of mappings
        From ``describe_workers``.
    """
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
    """The peak memory of a worker's process in bytes, and that of its GPU if it uses one.

    Dask's monitor samples both twice a second and keeps the samples for an hour. The memory of a
    GPU is NVML's, of all programs that use it.

    Parameters
    ----------
    dask_worker : distributed.Worker
    since : int, default 0
        Number of first samples that do not count.

    Returns
    -------
    dict
        ``peak_memory`` and ``peak_gpu_memory``; without those that have no sample.
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
    """The number of samples that the monitor of a worker has taken."""
    return int(dask_worker.monitor.count)


def peak_memory_since(sampled: Mapping[str, int], dask_worker: Any) -> dict[str, int]:
    """``peak_memory`` since the samples of which ``sampled`` has the number, by worker address."""
    return peak_memory(dask_worker, max(0, sampled.get(dask_worker.address, 0) - 1))


@dataclass(frozen=True)
class WorkerForecast:
    """Whether workers may still join a cluster that has none, or too few.

    Attributes
    ----------
    wanted : int
        Number of workers that were asked for; 0 if nobody asks, as with a running scheduler.
    coming : bool
        Whether jobs are in the queue, or will be again, so that it is right to wait.
    reason : str or None
        Why no worker will come any more, in one line.
    """

    wanted: int = 0
    coming: bool = False
    reason: str | None = None


@contextmanager
def slot_left(client: Client) -> Iterator[None]:
    """In a task of the client's own cluster, leave its thread to other tasks during the block.

    Otherwise the tasks that it waits for would never begin if there is no other thread.
    """
    from distributed import get_worker, rejoin, secede

    try:
        is_own = get_worker().scheduler.address == client.scheduler.address
    except ValueError:  # this is no task
        is_own = False
    if is_own:
        try:
            secede()
        except (KeyError, AttributeError):  # it has left its thread already, or has none
            is_own = False
    try:
        yield
    finally:
        if is_own:
            rejoin()


def forecast_workers(client: Client) -> WorkerForecast:
    """Whether workers may still join the cluster of ``client``."""
    watchdog = getattr(client.cluster, "watchdog", None)
    if watchdog is None:
        return WorkerForecast()
    return WorkerForecast(watchdog.n_wanted, watchdog.coming, watchdog.given_up)


@dataclass(frozen=True)
class Presence:
    """The workers that a cluster has now; as a string, in words.

    Attributes
    ----------
    workers : int
        Their number.
    wanted : int
        The number that was asked for; 0 if nobody asks.
    waiting : str
        How many jobs wait in a queue and why, in words; empty if none does.
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
    """The workers that the cluster of ``client`` has now, and the jobs that wait in its queue."""
    n_workers = len(client.scheduler_info(n_workers=-1)["workers"])
    watchdog = getattr(client.cluster, "watchdog", None)
    if watchdog is None:
        return Presence(n_workers)
    return Presence(n_workers, watchdog.n_wanted, watchdog.waiting())


def threads_per_task(workers: list[dict[str, Any]]) -> int:
    """The number of threads with which tasks that share cores use all of them, and no more.

    Workers on one host share its cores, unless each is a job with cores of its own.
    """
    tasks_of = Counter[tuple[str, str | None]]()
    for worker in workers:
        tasks_of[worker["host"], worker.get("job")] += worker["threads"]
    return max(
        1, min(worker["cores"] // tasks_of[worker["host"], worker.get("job")] for worker in workers)
    )


def how_to_watch(client: Client) -> list[str]:
    """Lines on where the dashboard is and, on a remote host, how to reach it."""
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
