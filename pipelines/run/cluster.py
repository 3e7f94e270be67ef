"""The cluster of a run: which one, what its workers are, and open for as long as it is needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from cluster_setup import ClusterOptions, join, open_cluster, render, resolve_kind
from cluster_setup.on_this_machine.devices import available_cores, cuda_lack, gpu_memory_held
from cluster_setup.workers import describe_workers, slot_left, threads_per_task
from pipelines.console import Echo
from pipelines.errors import InputError, opt
from pipelines.run.cluster_options import PlaceOptions
from pipelines.run.errors import stop_if_lost
from pipelines.run.groups import RunOptions
from pipelines.run.recycling import LEAST_GROWTH, NEVER, Recycling
from pipelines.run.tasks import OnCluster
from pipelines.run_folder.folder import unused

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class Workers:
    """The workers that a run has, or would have.

    Attributes
    ----------
    kind : str
        Of the cluster.
    n : int
    threads : int
        That each task may use.
    device : {"cpu", "gpu"}
    """

    kind: str
    n: int
    threads: int
    device: str

    @classmethod
    def expected(cls, kind: str, n: int | None, device: str) -> Workers:
        """Those that a cluster is expected to have, before it is open."""
        n = n or available_cores()
        on_gpu = kind == "cuda" or device == "gpu"
        return cls(kind, n, max(1, available_cores() // n), "gpu" if on_gpu else "cpu")

    @property
    def is_here(self) -> bool:
        """Whether they are of this machine."""
        return self.kind in ("threads", "local", "cuda")

    @property
    def unlike_this_process(self) -> str:
        """Why nothing that this process measures holds for them; empty where it does."""
        if not self.is_here:
            return f"the workers of {self.kind} are other machines; a smaller run, and --pilot, can"
        return "they run on a GPU; a smaller run, and --pilot, can" if self.device == "gpu" else ""

    @property
    def memory(self) -> int | None:
        """Bytes that are free on their machine; None where it is another one."""
        if not self.is_here:
            return None
        import psutil

        free: int = psutil.virtual_memory().available
        return free

    def __str__(self) -> str:
        if self.kind == "threads" or self.n == 1:
            n = self.n * self.threads
            return f"{n} thread" + "s" * (n != 1)
        of_threads = f" of {self.threads} threads" if self.threads > 1 else ""
        return f"{self.n:,} workers{of_threads}"


@dataclass(frozen=True)
class Cluster:
    """An open cluster.

    Attributes
    ----------
    kind : str
        A name in ``cluster_setup.KINDS``, or a scheduler's address.
    client : distributed.Client
    workers : list of dict
        What ``describe_workers`` says of each.
    device : {"cpu", "gpu"}
        Where they compute.
    recycling : Recycling
        When their processes are replaced.
    """

    kind: str
    client: Client
    workers: list[dict[str, Any]]
    device: str
    recycling: Recycling = NEVER

    @cached_property
    def runner(self) -> OnCluster:
        """Runs tasks on it; one for the whole run, as the scattered data are kept with it."""
        return OnCluster(self.client, self.recycling)

    @property
    def threads(self) -> int:
        """Threads that each task may use."""
        return threads_per_task(self.workers)

    @property
    def all_workers(self) -> Workers:
        """Its workers, those that still wait in a queue among them."""
        return Workers(self.kind, self.runner.n_workers, self.threads, self.device)


def choose_cluster(options: RunOptions, echo: Echo) -> ClusterOptions:
    """Return the cluster the options mean; to be called before anything that happens once.

    Where the program was started on several ranks, one alone comes back from here, unless
    it is a dry run.

    Raises
    ------
    ClusterError
        There is no such kind, or the program was not started as it needs.
    """
    names = ("workers", "device", "profile", "adaptive", "rmm_pool", "dashboard")  # of both
    shared_options = {name: getattr(options, name) for name in names}
    cluster_options = ClusterOptions(
        options.cluster, tls=not options.no_tls, echo=echo, **shared_options
    )
    render(cluster_options)  # whatever is wrong with the options is said before data are read
    if not options.dry_run:
        join(cluster_options)
    return replace(
        cluster_options, kind=resolve_kind(cluster_options.kind, cluster_options.profile)
    )


def planned_kind(options: PlaceOptions, kind: str, runs_in_process: Callable[[], bool]) -> str:
    """Return the kind of cluster once the run is planned: what is over soon waits for no processes.

    ``auto`` then takes threads of this one, unless more is asked of the cluster than to compute.
    """
    is_free_choice = (
        options.cluster == "auto"
        and kind == "local"
        and options.workers is None
        and options.dashboard in (None, "off")
        and not options.performance_report
        and not isinstance(getattr(options, "tasks_per_worker", None), int)
    )
    return "threads" if is_free_choice and runs_in_process() else kind


def refuse_unshared(client: Client, folder: Path, name: str) -> None:
    """Refuse a folder that a worker does not see: all have to write there, or read what one wrote.

    Parameters
    ----------
    name : what it is, as the first words of the error
    """
    with NamedTemporaryFile(prefix=".seen-by-all-", dir=folder.resolve()) as probe:
        views = client.run(os.path.isfile, probe.name)
    blind = [address for address, is_visible in views.items() if not is_visible]
    if blind:
        raise InputError(
            f"{name} must be a folder that all workers reach, got {folder.resolve()}, which "
            f"{len(blind)} of {len(views)} do not see ({blind[0]}); name one on a shared file "
            "system"
        )


@contextmanager
def opened(
    options: ClusterOptions,
    folder: Path,
    performance_report: bool,
    tasks_per_worker: int | str = "never",
) -> Iterator[Cluster]:
    """Open the cluster of a run whose folder that is, and close it at the end.

    Parameters
    ----------
    performance_report : keep Dask's own page of the session in the folder, with all it needs inside
    tasks_per_worker : as ``RecyclingOptions`` has it

    Raises
    ------
    InputError, ClusterError
        It cannot be had, or its workers have no GPU where one was asked for, or one that the
        packages there cannot use; or their processes cannot be replaced, and should be.
    RunStopped
        Its scheduler ended.
    """
    with open_cluster(options) as client, slot_left(client):
        address = client.scheduler.address
        try:
            with describe_cluster(
                client, options, folder, performance_report, tasks_per_worker
            ) as cluster:
                yield cluster
        except InputError:
            raise
        except Exception:  # whatever Dask makes of a scheduler that is gone
            stop_if_lost(client, address)
            raise


@contextmanager
def describe_cluster(
    client: Client,
    options: ClusterOptions,
    folder: Path,
    performance_report: bool,
    tasks_per_worker: int | str,
) -> Iterator[Cluster]:
    """Yield a cluster with what its workers are; see ``opened``."""
    with ExitStack() as page:
        if performance_report:
            import distributed

            path = str(unused(folder / "performance.html"))
            page.enter_context(client.as_current())
            page.enter_context(distributed.performance_report(path, mode="inline"))
        workers = describe_workers(client)
        have_gpus = all(worker["gpu"] for worker in workers)
        if options.device == "gpu" and not have_gpus:
            raise InputError(
                f"{opt('device', 'gpu')} needs workers with a GPU, and at least one has none; use "
                f"{opt('device', 'cpu')}, or {opt('cluster', 'cuda')} on a machine with a GPU"
            )
        device = options.device if options.device != "auto" else "gpu" if have_gpus else "cpu"
        lack_of_workers = client.run(cuda_lack) if device == "gpu" else {}
        for address, lack in sorted(
            (address, lack) for address, lack in lack_of_workers.items() if lack
        ):
            raise InputError(
                f"{opt('device', 'gpu')} cannot use the workers' GPUs: {lack.why}, at {address}; "
                + lack.or_else(f"use {opt('device', 'cpu')}")
            )
        recycling = recycling_of(tasks_per_worker, client, options, workers, device)
        yield Cluster(options.kind, client, workers, device, recycling)


def recycling_of(
    tasks_per_worker: int | str,
    client: Client,
    config: ClusterOptions,
    workers: Sequence[Mapping[str, Any]],
    device: str,
) -> Recycling:
    """When the processes of workers are replaced.

    Raises
    ------
    InputError
        They should be after a number of tasks, and nothing starts others in their place.
    """
    is_counted = isinstance(tasks_per_worker, int)
    if not is_counted and (tasks_per_worker == "never" or device == "cpu"):
        return NEVER
    if not all(
        worker_info["nanny"]
        for worker_info in client.scheduler_info(n_workers=-1)["workers"].values()
    ):
        if is_counted:
            raise InputError(
                f"{opt('tasks_per_worker')} needs workers with a nanny, which starts another "
                f"process in the place of one, got {tasks_per_worker} and workers of {config.kind} "
                "without; start them without --no-nanny, or leave it out"
            )
        config.echo("recycling  off, whatever memory workers keep: they have no nanny")
        return NEVER
    if is_counted:
        return Recycling(n_tasks=int(tasks_per_worker))
    least = LEAST_GROWTH * min(worker["gpu_memory"] or 0 for worker in workers)
    return Recycling(memory=gpu_memory_held, least_growth=int(least))
