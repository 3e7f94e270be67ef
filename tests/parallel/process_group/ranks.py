"""Ranks as threads of this process: the same groups as on a cluster, without one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pipelines.parallel.process_group.group import ProcessGroup


def on_ranks(
    n_ranks,
    work,
    seconds=20.0,
    secrets=(b"ours",) * 8,
    store=None,
):
    """What ``work`` gives on each rank; an exception of a rank is its result."""
    from torch.distributed import HashStore

    store = store or HashStore()

    def run_rank(rank):
        try:
            return work(
                ProcessGroup.join(store, rank, n_ranks, secret=secrets[rank], seconds=seconds)
            )
        except Exception as error:
            return error

    with ThreadPoolExecutor(n_ranks) as pool:
        return list(pool.map(run_rank, range(n_ranks)))
