"""``--cluster tcp://host:port``: a scheduler that was started outside this program."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster_setup import waits
from cluster_setup.errors import ClusterError
from cluster_setup.options import ClusterOptions

if TYPE_CHECKING:
    from distributed import Client

ENCRYPTED = "tls://", "wss://"
TLS = "distributed.comm.tls"  # where Dask's configuration names certificates


@contextmanager
def open_client(options: ClusterOptions) -> Iterator[Client]:
    """Open a client of the scheduler at address ``kind``, which is left running.

    For ``tls://`` the certificate is the one that Dask's configuration names
    (``distributed.comm.tls``).
    """
    from distributed.comm import get_address_host_port

    address, workers = options.kind, options.workers or 1
    if address.startswith(ENCRYPTED):
        _refuse_without_certificate(address)
    try:
        # Tried first, because a Client that cannot connect leaves a thread that keeps trying.
        socket.create_connection(get_address_host_port(address), waits.SECONDS_TO_ANSWER).close()
        connected = _limited_client()(
            address, timeout=waits.SECONDS_TO_ANSWER, set_as_default=False
        )
    except (OSError, ValueError, TypeError) as error:
        reason = (str(error).splitlines() or [f"no answer in {waits.SECONDS_TO_ANSWER} s"])[0]
        raise ClusterError(
            f"--cluster must be the address of a running scheduler, got {address}: {reason}; "
            + _way_out(address, reason)
        ) from None
    with connected as client:
        try:
            waits.wait_for_workers(client, workers, waits.SECONDS_FOR_WORKERS)
        except TimeoutError:
            n_present = len(client.scheduler_info(n_workers=-1)["workers"])
            raise ClusterError(
                f"--cluster {address} must have {workers} worker(s), has {n_present} after "
                f"{waits.SECONDS_FOR_WORKERS} s; start some with 'dask worker {address}'"
            ) from None
        yield client


def _way_out(address: str, reason: str) -> str:
    if address.startswith(ENCRYPTED) and "refused" not in reason:
        return (
            "is it the certificate that its scheduler was started with that Dask's configuration "
            "names? docs/how-to/own-scheduler.md has a whole example"
        )
    tls_hint = "" if "refused" in reason else "write tls:// if it was started with a certificate, "
    return f"{tls_hint}start one with 'dask scheduler', or use --cluster local"


def _refuse_without_certificate(address: str) -> None:
    """Refuse an encrypted address unless Dask's configuration names certificates that exist."""
    import dask

    for name in ("ca-file", "client.cert", "client.key"):
        file = dask.config.get(f"{TLS}.{name}", None)
        if file is None and name == "client.key":  # it may stand in the file of the certificate
            continue
        if file is None or not ("\n" in file or Path(file).is_file()):
            variable = f"DASK_{TLS}.{name}".upper().replace(".", "__").replace("-", "_")
            raise ClusterError(
                f"--cluster {address} needs the certificate that its scheduler was started with; "
                f"{variable} must name a file, got {file or 'nothing'}: "
                "docs/how-to/own-scheduler.md has a whole example"
            )


@cache
def _limited_client() -> Any:
    """A client class that gives up on a server that accepts the connection and does not answer.

    Dask's own client has no time limit on the first message (``comm.core.connect``, 2026.7).
    """
    from distributed import Client

    class LimitedClient(Client):
        async def _ensure_connected(self, timeout: float | None = None) -> None:
            limit = timeout or waits.SECONDS_TO_ANSWER
            await asyncio.wait_for(super()._ensure_connected(timeout), limit)

    LimitedClient.__name__ = Client.__name__
    return LimitedClient
