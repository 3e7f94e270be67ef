"""Ranks as processes, which torch's own pipelines need: it knows one group in each."""

from __future__ import annotations

import multiprocessing
import socket
from datetime import timedelta

SECONDS = 60


def on_processes(n_ranks, work, *arguments):
    """What ``work(group, *arguments)``, a module's function, gives on each rank.

    An error of a rank is its result.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    calls = [(rank, n_ranks, port, work, arguments) for rank in range(n_ranks)]
    with multiprocessing.get_context("spawn").Pool(n_ranks) as pool:
        results = pool.starmap(_rank, calls, chunksize=1)
    return results


def _rank(rank, n_ranks, port, work, arguments):
    import torch
    from torch.distributed import TCPStore

    from pipelines.parallel.process_group.group import ProcessGroup

    torch.set_num_threads(1)
    limit = timedelta(seconds=SECONDS)
    store = TCPStore("127.0.0.1", port, n_ranks, rank == 0, limit)
    try:
        group = ProcessGroup.join(store, rank, n_ranks, secret=b"test", seconds=SECONDS)
        return work(group, *arguments)
    except Exception as error:
        return error
