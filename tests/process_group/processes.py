"""Ranks as processes, for what of torch there is one of in each: its global group."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from pipelines.process_group.group import Address, Group, Rendezvous


def on_processes(n_ranks: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What ``work(group, *arguments)``, a function of a module, gives on each rank."""
    spawn = multiprocessing.get_context("spawn")
    rendezvous = Rendezvous("127.0.0.1", 120.0)
    with ProcessPoolExecutor(n_ranks, spawn) as pool:
        futures = [
            pool.submit(_one, rendezvous.address, rank, n_ranks, work, arguments)
            for rank in range(n_ranks)
        ]
        return [future.result() for future in futures]


def _one(address: Address, rank: int, n_ranks: int, work: Any, arguments: Any) -> Any:
    import torch

    torch.set_num_threads(1)
    return work(Group.join(address, rank, n_ranks, seconds=120.0), *arguments)
