"""How long a scheduler and its workers are waited for, at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster_setup.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client

SECONDS_TO_ANSWER = 10  # a scheduler, to who connects
SECONDS_FOR_WORKERS = 60  # of a running scheduler, to be there
SECONDS_FOR_A_WORKER = 60  # to come back, where all have died
SECONDS_TO_IMPORT = 300  # workers, to say what they are, for which they import this program


def wait_for_workers(client: Client, n_workers: int, seconds: float) -> None:
    """Wait until a cluster has so many workers; TimeoutError where it has not, or does not answer.

    By itself Dask waits for ever for the answer of a scheduler that hangs.
    """
    limit = seconds + SECONDS_TO_ANSWER
    wait = client._wait_for_workers
    client.sync(wait, n_workers, timeout=seconds, callback_timeout=limit)


def run_on_workers(client: Client, function: Callable[..., Any]) -> dict[str, Any]:
    """Return what a function gives on each worker, by its address.

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
    """Return addresses of the workers that have sent no heartbeat for half a minute."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    latest = max((worker["last_seen"] for worker in workers.values()), default=0.0)
    return [name for name, worker in workers.items() if latest - worker["last_seen"] > 30]
