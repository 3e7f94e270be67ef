"""``--cluster local``: worker processes on the cores of this machine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from cluster_setup import on_this_machine
from cluster_setup.errors import ClusterError
from cluster_setup.on_this_machine.devices import available_cores
from cluster_setup.options import ClusterOptions

if TYPE_CHECKING:
    from distributed import Client


BYTES_OF_A_WORKER = 2**27  # before it has any data


def refuse(options: ClusterOptions) -> None:
    """Raise ClusterError for more workers than fit into this machine's memory while idle."""
    import psutil

    most = psutil.virtual_memory().total // BYTES_OF_A_WORKER
    if options.workers is not None and options.workers > most:
        raise ClusterError(
            f"--workers must be at most {most} with --cluster local, what this machine's memory "
            f"holds, got {options.workers}; leave it out for one for each core"
        )


def open_client(options: ClusterOptions) -> AbstractContextManager[Client]:
    """Open a client of worker processes on loopback, one for each core by default."""
    from distributed import LocalCluster

    threads = options.threads_per_worker
    return on_this_machine.open_client(
        options,
        LocalCluster,
        n_workers=options.workers or max(1, available_cores() // threads),
        threads_per_worker=threads,
    )
