"""Units that take time and no core, to be disturbed while they run.

What runs on a worker is defined inside functions, so that it travels by value: a worker
cannot import a test's files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from distributed import Client

from pipelines.run.tasks import OnCluster, Outcome


def naps(n_units: int, seconds: float) -> tuple[Callable[[Any, Any], int], list[Any]]:
    """Work that takes time and no core, and its units."""

    class Nap:
        cost = 1.0

        def __init__(self, number: int) -> None:
            self.number, self.name = number, f"nap-{number}"

    def work(shared: int, unit: Nap) -> int:
        import time

        time.sleep(seconds)
        return shared + unit.number

    return work, [Nap(number) for number in range(n_units)]


def all_done(outcomes: list[Outcome[Any]], n_units: int) -> bool:
    """Whether every unit has its one right result."""
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    return sorted(outcome.result for outcome in outcomes) == list(range(100, 100 + n_units))


def begun(client: Client, n_units: int, seconds: float) -> tuple[list[Any], Iterator[Any]]:
    """A run on all workers, after its first outcomes."""
    work, units = naps(n_units, seconds)
    client.wait_for_workers(4, timeout=300)
    outcomes = OnCluster(client).outcomes(work, 100, units)
    return [next(outcomes) for _ in range(4)], outcomes
