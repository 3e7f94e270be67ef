"""The cluster of a run: which one, what its workers are, and open for as long as it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster_setup import ClusterOptions, join, open_cluster, render, resolve_kind
from cluster_setup.on_this_machine.devices import visible_gpus
from cluster_setup.workers import describe_workers, threads_per_task
from pipelines.console import Echo, echo, quiet_echo
from pipelines.errors import InputError, opt
from pipelines.run.groups import PlaceOptions
from pipelines.run.tasks import OnCluster
from pipelines.run_folder.folder import unused

if TYPE_CHECKING:
    from distributed import Client

NEEDS_GPU = f"{opt('device', 'gpu')} needs"


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
    """

    kind: str
    client: Client
    workers: list[dict[str, Any]]
    device: str

    @cached_property
    def runner(self) -> OnCluster:
        """Runs tasks on it; one for the whole run, as the scattered data are kept with it."""
        return OnCluster(self.client)

    @property
    def threads(self) -> int:
        """Threads that each task may use."""
        return threads_per_task(self.workers)


def choose_cluster(options: PlaceOptions, dry_run: bool) -> str:
    """Return the kind of cluster the options mean; to be called before anything that happens once.

    Where the program was started on several ranks, one alone comes back from here, unless
    it is a dry run.

    Raises
    ------
    ClusterError
        There is no such kind, or the program was not started as it needs.
    """
    kind = resolve_kind(options.cluster, options.profile)
    asked = _asked(options, kind, options.workers)
    render(asked)  # whatever is wrong with the options is said before data are read
    if not dry_run:
        join(asked)
    return kind


def where(options: PlaceOptions, kind: str, runs_in_process: Callable[[], bool]) -> str:
    """Return the kind of cluster once the run is planned: what is over soon waits for no processes.

    ``auto`` then takes threads of this one, unless more is asked of the cluster than to compute.
    """
    left_to_us = (
        options.cluster == "auto"
        and kind == "local"
        and options.workers is None
        and options.dashboard in (None, "off")
        and not options.performance_report
    )
    return "threads" if left_to_us and runs_in_process() else kind


def show_dry_run(options: PlaceOptions, kind: str, more: str = "") -> None:
    """Print where a run would be carried out, with the job script where there is one."""
    script = render(_asked(options, kind, options.workers))
    also = f", {more}" if more else ""
    echo(f"dry run    nothing was run; the cluster would be {kind}{also}")
    if script:
        echo(f"job script of each worker:\n{script}")


def refuse_missing_gpu(options: PlaceOptions, kind: str) -> None:
    """Raise an error if ``--device gpu`` cannot be met, as far as a dry run can tell.

    Raises
    ------
    InputError
        The workers would be processes of this machine, and it has no GPU.
    """
    if options.device == "gpu" and kind in ("local", "threads") and not visible_gpus():
        raise InputError(
            f"{NEEDS_GPU} a GPU, and this machine has none; use {opt('device', 'cpu')}, "
            f"or a {opt('cluster')} that has GPUs"
        )


def refuse_unshared(client: Client, folder: Path, name: str) -> None:
    """Refuse a folder that a worker does not see: all have to write there, or read what one wrote.

    Parameters
    ----------
    name : what it is, as the first words of the error

    Raises
    ------
    InputError
    """
    probe = folder.resolve() / ".seen-by-all"
    probe.touch()
    try:
        found = client.run(_is_file, str(probe))
    finally:
        probe.unlink()
    blind = [address for address, seen in found.items() if not seen]
    if blind:
        raise InputError(
            f"{name} must be a folder that all workers reach, got {probe.parent}, which "
            f"{len(blind)} of {len(found)} do not see ({blind[0]}); name one on a shared file "
            "system"
        )


def _is_file(path: str) -> bool:
    return Path(path).is_file()


def _asked(
    options: PlaceOptions, kind: str, n_workers: int | None, echo: Echo = quiet_echo
) -> ClusterOptions:
    return ClusterOptions(
        kind, n_workers, device=options.device, profile=options.profile,
        adaptive=options.adaptive, tls=not options.no_tls, dashboard=options.dashboard, echo=echo,
    )  # fmt: skip


@contextmanager
def opened(
    options: PlaceOptions, kind: str, n_workers: int | None, folder: Path, echo: Echo
) -> Iterator[Cluster]:
    """Open the cluster of a run whose folder that is, and close it at the end.

    Raises
    ------
    InputError, ClusterError
        It cannot be had, or its workers have no GPU where one was asked for.
    """
    with (
        open_cluster(_asked(options, kind, n_workers, echo)) as client,
        _performance_report(client, folder, options.performance_report),
    ):
        workers = describe_workers(client)
        yield Cluster(kind, client, workers, _device(options.device, workers))


@contextmanager
def _performance_report(client: Client, folder: Path, wanted: bool) -> Iterator[None]:
    """Keep Dask's own page of the session, with all it needs inside."""
    if not wanted:
        yield
        return
    from distributed import performance_report

    page = str(unused(folder / "performance.html"))
    with client.as_current(), performance_report(page, mode="inline"):
        yield


def _device(asked: str, workers: list[dict[str, Any]]) -> str:
    have_gpus = all(worker["gpu"] for worker in workers)
    if asked == "gpu" and not have_gpus:
        raise InputError(
            f"{NEEDS_GPU} workers with a GPU, and at least one has none; "
            f"use {opt('device', 'cpu')}, or {opt('cluster', 'cuda')} on a machine with a GPU"
        )
    if asked == "auto":
        return "gpu" if have_gpus else "cpu"
    return asked
