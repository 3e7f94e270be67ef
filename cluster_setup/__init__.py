"""Where tasks run: one kind of cluster a file, all of them in one table.

``open_cluster`` is the whole interface. This package knows nothing of
``pipelines``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING

from cluster_setup.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["KINDS", "ClusterError", "open_cluster", "resolve_kind"]

# A new kind is one file with a function ``open_client`` and one line here.
KINDS = {
    "local": "cluster_setup.local",
    "cuda": "cluster_setup.cuda",
}
ADDRESSES = ("tcp://", "tls://", "ucx://", "ws://", "wss://")
# Kinds that have their place in the table but no file yet.
PLANNED = ("slurm", "pbs", "sge", "mpi")

SETTINGS = {
    # A worker holds no unit in reserve: what is left at the end is spread evenly.
    "distributed.scheduler.worker-saturation": 1.0,
    # Replicas of the scattered data are wanted on every worker to the end.
    "distributed.scheduler.active-memory-manager.start": False,
}


def is_address(kind: str) -> bool:
    """Whether ``kind`` is the address of a running scheduler, not a name."""
    return kind.startswith(ADDRESSES)


def resolve_kind(kind: str) -> str:
    """The kind that ``kind`` stands for on this machine.

    Parameters
    ----------
    kind : str
        A name in ``KINDS``, a scheduler's address, or ``"auto"``: ``"cuda"``
        when NVML sees a GPU and dask-cuda is installed, else ``"local"``.

    Raises
    ------
    ClusterError
        The kind is unknown.
    """
    if kind == "auto":
        from cluster_setup import cuda

        return "cuda" if cuda.visible_gpus() and cuda.is_installed() else "local"
    if kind in KINDS or is_address(kind):
        return kind
    names = ["auto", *KINDS]
    if kind in PLANNED:
        way_out = f"{kind} is not in this version"
    else:
        close = get_close_matches(kind, names, n=1)
        way_out = f"did you mean {close[0]}?" if close else "for instance tcp://127.0.0.1:8786"
    raise ClusterError(
        f"--cluster must be one of {', '.join(names)} or a scheduler's address, "
        f"got {kind!r}; {way_out}"
    )


@contextmanager
def open_cluster(
    kind: str = "auto", workers: int | None = None, *, threads_per_worker: int = 1
) -> Iterator[Client]:
    """Open a cluster and give a client of it; close what was opened at the end.

    Parameters
    ----------
    kind : str
        ``"auto"``, a name in ``KINDS``, or the address of a running scheduler
        (``tcp://host:8786``), which is left running.
    workers : int, optional
        Number of workers; by default one for each GPU (``cuda``) or core
        (``local``). A running scheduler keeps the workers it has; ``workers``
        is then the number to wait for.
    threads_per_worker : int
        Tasks that one worker runs at a time (``local``).

    Yields
    ------
    distributed.Client
        Its ``cluster`` attribute is None for a running scheduler.

    Raises
    ------
    ClusterError
        The kind is unknown, what it needs is missing, or nothing answers.
    """
    import dask
    import distributed  # noqa: F401  its defaults must be in the configuration before ours

    if workers is not None and workers < 1:
        raise ClusterError(f"--workers must be at least 1, got {workers}; leave it out for all")
    kind = resolve_kind(kind)
    module = importlib.import_module(KINDS.get(kind, "cluster_setup.address"))
    with (
        dask.config.set(SETTINGS),
        module.open_client(kind, workers, threads_per_worker) as client,
    ):
        yield client
