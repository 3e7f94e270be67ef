"""``--cluster threads``: a Dask cluster within this process, which is there at once.

Its workers are threads, which share what is imported and what is read. None outlives the
program or its memory: for runs that are over before processes would have started.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from cluster_setup.dashboard import scheduler_dashboard
from cluster_setup.on_this_machine.devices import available_cores
from cluster_setup.on_this_machine.limits import in_time
from cluster_setup.on_this_machine.starting import whole
from cluster_setup.options import ClusterOptions

if TYPE_CHECKING:
    from distributed import Client


@contextmanager
def open_client(options: ClusterOptions) -> Iterator[Client]:
    """A client of workers in this process, one for each core by default.

    It opens no port, but for the dashboard's where that is asked for.
    """
    from distributed import Client, LocalCluster

    threads = options.threads_per_worker
    start = partial(
        in_time(LocalCluster),
        processes=False,
        n_workers=options.workers or max(1, available_cores() // threads),
        threads_per_worker=threads,
        scheduler_kwargs=scheduler_dashboard(options.dashboard or "off"),
        worker_dashboard_address=None,
        silence_logs=logging.CRITICAL,
    )
    with whole(options.kind, start) as cluster, Client(cluster, set_as_default=False) as client:
        yield client
