"""The cluster of a run: choose it, open it for as long as it is needed, describe its workers."""

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
        The kind of cluster, or the address of a scheduler.
    n : int
        Number of workers.
    threads : int
        Number of threads that each task may use.
    device : {"cpu", "gpu"}
        Where the workers compute.
    """

    kind: str
    n: int
    threads: int
    device: str

    @classmethod
    def expected(cls, kind: str, n: int | None, device: str) -> Workers:
        """The workers that a cluster is expected to have, before it is open.

        Without a number ``n``, one for each core of this machine.
        """
        n = n or available_cores()
        on_gpu = kind == "cuda" or device == "gpu"
        return cls(kind, n, max(1, available_cores() // n), "gpu" if on_gpu else "cpu")

    @property
    def is_here(self) -> bool:
        """Whether the workers run on this machine."""
        return self.kind in ("threads", "local", "cuda")

    @property
    def unlike_this_process(self) -> str:
        """Why times measured in this process do not hold for the workers; empty if they do."""
        if not self.is_here:
            return f"the workers of {self.kind} are other machines; a smaller run, and --pilot, can"
        return "they run on a GPU; a smaller run, and --pilot, can" if self.device == "gpu" else ""

    @property
    def memory(self) -> int | None:
        """Bytes of free memory on this machine; None if the workers run on others."""
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
        The description of each worker by ``describe_workers``.
    device : {"cpu", "gpu"}
        Where the workers compute.
    recycling : Recycling
        When worker processes are replaced.
    """

    kind: str
    client: Client
    workers: list[dict[str, Any]]
    device: str
    recycling: Recycling = NEVER

    @cached_property
    def runner(self) -> OnCluster:
        """Runs tasks on the cluster; one for the whole run, as it keeps the scattered data."""
        return OnCluster(self.client, self.recycling)

    @property
    def threads(self) -> int:
        """Number of threads that each task may use."""
        return threads_per_task(self.workers)

    @property
    def all_workers(self) -> Workers:
        """All workers, including those whose jobs still wait in a queue."""
        return Workers(self.kind, self.runner.n_workers, self.threads, self.device)


def choose_cluster(options: RunOptions, echo: Echo) -> ClusterOptions:
    """The cluster that the options mean; to be called before anything that happens only once.

    If MPI started the program on several ranks, only the rank that runs the program returns from
    here; in a dry run all do.

    Parameters
    ----------
    options : RunOptions
    echo : function of one line of text

    Returns
    -------
    ClusterOptions, with ``"auto"`` replaced by a kind

    Raises
    ------
    ClusterError
        The kind is unknown, or the program was not started as the kind requires.
    """
    names = ("workers", "device", "profile", "adaptive", "rmm_pool", "dashboard")  # of both classes
    shared_options = {name: getattr(options, name) for name in names}
    cluster_options = ClusterOptions(
        options.cluster, tls=not options.no_tls, echo=echo, **shared_options
    )
    render(cluster_options)  # raises what is wrong with the options before data are read
    if not options.dry_run:
        join(cluster_options)
    return replace(
        cluster_options, kind=resolve_kind(cluster_options.kind, cluster_options.profile)
    )


def planned_kind(options: PlaceOptions, kind: str, runs_in_process: Callable[[], bool]) -> str:
    """The kind of cluster to open once the run is planned.

    With ``auto`` a short run takes threads of this process: it would be over before worker
    processes had started. Not if an option asks more of the cluster than to compute.

    Parameters
    ----------
    options : PlaceOptions
    kind : str
        What ``auto`` stands for on this machine, else the kind that was asked for.
    runs_in_process : function without arguments
        Whether the fits end sooner than worker processes would start; not called where the
        options leave no choice.
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
    """Raise InputError unless all workers see a folder in which they write, or read shared files.

    Parameters
    ----------
    client : distributed.Client
    folder : Path
    name : str
        What the folder is, as the first words of the message.
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
    """Open the cluster of a run, and close it at the end.

    Parameters
    ----------
    options : ClusterOptions
    folder : Path
        The folder of the run.
    performance_report : bool
        Whether Dask's performance report of the session is kept in the folder, as one page
        without further files.
    tasks_per_worker : int or str, default "never"
        As in ``RecyclingOptions``.

    Yields
    ------
    Cluster

    Raises
    ------
    InputError, ClusterError
        The cluster cannot be opened; or its workers lack the GPU that was asked for, or packages
        that can use it; or their processes should be replaced and cannot be.
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
        except Exception:  # Dask raises errors of several types where a scheduler is gone
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
    """A cluster with the description of its workers; see ``opened`` for parameters and errors."""
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
    """When worker processes are replaced: as the option says, if the workers have nannies.

    Parameters
    ----------
    tasks_per_worker : int or str
        As in ``RecyclingOptions``.
    client : distributed.Client
    config : ClusterOptions
        For messages.
    workers : sequence of mappings
        From ``describe_workers``.
    device : {"cpu", "gpu"}

    Returns
    -------
    Recycling

    Raises
    ------
    InputError
        A number of tasks was asked for, and no nanny would start another process.
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
