"""Ranks as threads of this process: the same groups as on a cluster, without one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pipelines.process_group.group import Address, Group, Rendezvous


def on_ranks(n_ranks: int, work: Callable[[Group], Any], seconds: float = 20.0) -> list[Any]:
    """What ``work`` gives on each rank; an exception of a rank is its result."""
    rendezvous = Rendezvous("127.0.0.1", seconds) if n_ranks > 1 else None
    address = rendezvous.address if rendezvous else Address("", 0)

    def one(rank: int) -> Any:
        try:
            return work(Group.join(address, rank, n_ranks, seconds=seconds))
        except Exception as error:
            return error

    with ThreadPoolExecutor(n_ranks) as pool:
        return list(pool.map(one, range(n_ranks)))
