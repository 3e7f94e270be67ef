"""Waits for a scheduler and its workers, all with a time limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster_setup.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client

SECONDS_TO_ANSWER = 10  # for a scheduler to accept a client
SECONDS_FOR_WORKERS = 60  # for the workers of a running scheduler to register
SECONDS_FOR_A_WORKER = 60  # for one to come back if all have died
SECONDS_TO_IMPORT = 300  # for workers to describe themselves, for which they import this program


def wait_for_workers(client: Client, n_workers: int, seconds: float) -> None:
    """Wait until a cluster has ``n_workers`` workers, for at most ``seconds``.

    Dask's own method waits for ever for the answer of a scheduler that hangs.

    Raises
    ------
    TimeoutError
        It has fewer workers, or its scheduler does not answer.
    """
    limit = seconds + SECONDS_TO_ANSWER
    wait = client._wait_for_workers
    client.sync(wait, n_workers, timeout=seconds, callback_timeout=limit)


def run_on_workers(client: Client, function: Callable[..., Any]) -> dict[str, Any]:
    """Run a function on each worker; returns the results by the address of the worker.

    Raises
    ------
    ClusterError
        A worker does not answer; ``Client.run`` would wait for it for ever.
    """
    limit = SECONDS_TO_IMPORT
    try:
        results: dict[str, Any] = client.sync(client._run, function, callback_timeout=limit)
    except TimeoutError:
        silent = ", ".join(silent_workers(client)) or "one or more"
        raise ClusterError(
            f"--cluster must have workers that answer, of those at {client.scheduler.address} "
            f"{silent} did not in {limit} s; end those that hang"
        ) from None
    return results


def silent_workers(client: Client) -> list[str]:
    """The addresses of workers whose last heartbeat is half a minute older than the latest."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    latest = max((worker["last_seen"] for worker in workers.values()), default=0.0)
    return [name for name, worker in workers.items() if latest - worker["last_seen"] > 30]
