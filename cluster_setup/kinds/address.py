"""``--cluster tcp://host:port``: a scheduler that somebody else started."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cluster_setup.errors import ClusterError
from cluster_setup.options import ClusterOptions

if TYPE_CHECKING:
    from distributed import Client

SECONDS_TO_ANSWER = 10
SECONDS_FOR_WORKERS = 60


@contextmanager
def open_client(options: ClusterOptions) -> Iterator[Client]:
    """Open a client of the scheduler at address ``kind``, which is left running.

    For ``tls://`` the certificate is the one that Dask's configuration names
    (``distributed.comm.tls``).
    """
    from distributed import Client
    from distributed.comm import get_address_host_port

    address, workers = options.kind, options.workers or 1
    try:
        # Asked first, because a Client that fails leaves a thread that keeps trying.
        socket.create_connection(get_address_host_port(address), SECONDS_TO_ANSWER).close()
        connected = Client(address, timeout=SECONDS_TO_ANSWER, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ClusterError(
            f"--cluster must be the address of a running scheduler, got {address}: {reason}; "
            "start one with 'dask scheduler', or use --cluster local"
        ) from None
    with connected as client:
        try:
            client.wait_for_workers(workers, timeout=SECONDS_FOR_WORKERS)
        except TimeoutError:
            found = len(client.scheduler_info(n_workers=-1)["workers"])
            raise ClusterError(
                f"--cluster {address} must have {workers} worker(s), has {found} after "
                f"{SECONDS_FOR_WORKERS} s; start some with 'dask worker {address}'"
            ) from None
        yield client
