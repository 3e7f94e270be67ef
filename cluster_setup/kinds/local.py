"""``--cluster local``: worker processes on the cores of this machine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from cluster_setup import on_this_machine
from cluster_setup.on_this_machine.devices import available_cores
from cluster_setup.options import ClusterOptions

if TYPE_CHECKING:
    from distributed import Client


def open_client(options: ClusterOptions) -> AbstractContextManager[Client]:
    """A client of worker processes on loopback, one for each core by default."""
    from distributed import LocalCluster

    threads = options.threads_per_worker
    return on_this_machine.open_client(
        options,
        LocalCluster,
        n_workers=options.workers or max(1, available_cores() // threads),
        threads_per_worker=threads,
    )
