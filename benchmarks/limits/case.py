"""Units that do nothing, through the program and through Dask alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client

WARM_UP = 100  # units: connections are made, functions travel


@dataclass(frozen=True)
class Nothing:
    """A unit that is done as soon as it begins."""

    number: int
    cost: float

    @property
    def name(self) -> str:
        return f"nothing-{self.number}"


def do_nothing(shared: None, unit: Nothing) -> int:
    """The work of the program's units."""
    return unit.number


def same(number: int) -> int:
    """The work of the peer's tasks."""
    return number


def ours(client: Client, n: int) -> int:
    """The program's way, each unit with a priority of its own; how many came back."""
    from pipelines.run.tasks import OnCluster

    units = [Nothing(number, 1.0 + number) for number in range(n)]
    return sum(
        one.result is not None for one in OnCluster(client).outcomes(do_nothing, None, units)
    )


def client_map(client: Client, n: int) -> int:
    """As Dask's documentation has it; how many came back."""
    return len(client.gather(client.map(same, range(n), pure=False)))


WAYS: dict[str, Callable[[Client, int], int]] = {"ours": ours, "client.map": client_map}


def measure(way: str, n_units: int, n_workers: int, tls: bool) -> dict[str, Any]:
    """Seconds, CPU seconds and peak memory of one case; to be called once in a process.

    The scheduler of a local cluster, and of one of a queue, lives in the process of the client:
    the memory is that of both. ``caller_cpu_seconds`` is the CPU time of the thread that asks,
    ``cpu_seconds`` that of the whole process, Dask's loop with the scheduler and the client's
    connections included.
    """
    from benchmarks.memory import peak_bytes, resident_bytes
    from cluster_setup import open_cluster

    run = WAYS[way]
    with open_cluster("local", n_workers, tls=tls, dashboard="off") as client:
        client.wait_for_workers(n_workers)
        run(client, WARM_UP)
        before = resident_bytes()
        clock, cpu, thread = time.perf_counter(), time.process_time(), time.thread_time()
        n_done = run(client, n_units)
        seconds = time.perf_counter() - clock
        return {
            "way": way,
            "n_units": n_units,
            "n_done": n_done,
            "n_workers": n_workers,
            "tls": tls,
            "seconds": seconds,
            "cpu_seconds": time.process_time() - cpu,
            "caller_cpu_seconds": time.thread_time() - thread,
            "bytes_before": before,
            "peak_bytes": peak_bytes(),
        }
