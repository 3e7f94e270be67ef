"""Ranks as processes, for what of torch there is one of in each: its global group."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from tempfile import TemporaryDirectory
from typing import Any

from pipelines.process_group.group import Group


def on_processes(n_ranks: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What ``work(group, *arguments)``, a function of a module, gives on each rank."""
    spawn = multiprocessing.get_context("spawn")
    with TemporaryDirectory() as folder, ProcessPoolExecutor(n_ranks, spawn) as pool:
        file = f"{folder}/store"
        futures = [
            pool.submit(_one, file, rank, n_ranks, work, arguments) for rank in range(n_ranks)
        ]
        return [future.result() for future in futures]


def _one(file: str, rank: int, n_ranks: int, work: Any, arguments: Any) -> Any:
    import torch
    from torch.distributed import FileStore

    torch.set_num_threads(1)
    store = FileStore(file, n_ranks)
    return work(Group.join(store, rank, n_ranks, secret=b"ours", seconds=120.0), *arguments)
