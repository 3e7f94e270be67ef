"""A cluster whose workers are processes of this machine, on its loopback address alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from cluster_setup import security
from cluster_setup.on_this_machine.keeper import kept
from cluster_setup.on_this_machine.starting import in_time
from cluster_setup.options import ClusterOptions
from cluster_setup.settings import LOOPBACK, scheduler_dashboard

if TYPE_CHECKING:
    from distributed import Client


@contextmanager
def open_client(options: ClusterOptions, cluster_class: Any, **more: Any) -> Iterator[Client]:
    """A client of worker processes on loopback, which come back when they die.

    Parameters
    ----------
    options : ClusterOptions
    cluster_class : LocalCluster or a subclass
    **more
        What it is told beside what all are.
    """
    from distributed import Client

    if options.tls:
        who = {"protocol": "tls://", "security": security.in_memory()}
    else:
        options.say(security.NO_TLS)
        who = {"protocol": "tcp://"}
    start = partial(
        in_time(cluster_class),
        host=LOOPBACK,
        **who,
        scheduler_kwargs=scheduler_dashboard(options.dashboard),
        # A worker that dies is restarted and shown in the summary: no need to alarm.
        silence_logs=logging.CRITICAL,
        **more,
    )
    with kept(options.kind, start) as cluster, Client(cluster, set_as_default=False) as client:
        yield client
