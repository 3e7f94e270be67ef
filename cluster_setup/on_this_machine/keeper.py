"""Keeps the workers of a cluster of this machine: one that is lost for good is started anew.

Dask's nanny starts the successor of a worker that dies, but gives up when that one
dies, too, before it has registered; and Dask's cluster drops a nanny whose worker
takes long to come back. Neither asks for another, and a nanny may never learn that
the worker it started is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from cluster_setup.on_this_machine.starting import whole

SECONDS_BETWEEN_LOOKS = 2


@contextmanager
def kept(kind: str, start: Callable[[], Any]) -> Iterator[Any]:
    """As ``whole``, a cluster whose workers come back."""
    with whole(kind, start) as cluster:
        Keeper(cluster)
        yield cluster


class Keeper:
    """Looks from time to time, until its cluster is closed.

    Parameters
    ----------
    cluster : LocalCluster
    """

    def __init__(self, cluster: Any) -> None:
        from tornado.ioloop import PeriodicCallback

        self._cluster = cluster
        self._timer = PeriodicCallback(self.look, SECONDS_BETWEEN_LOOKS * 1000)
        cluster.loop.add_callback(self._timer.start)

    async def look(self) -> None:
        """Tell nannies what they missed; forget those that have given up; start what is missing."""
        from distributed.core import Status

        cluster = self._cluster
        if cluster.status == Status.closed:
            self._timer.stop()
            return
        for nanny in list(cluster._created):  # with those that the cluster has dropped
            _tell(nanny, cluster.scheduler.workers.values())
        for name, nanny in dict(cluster.workers).items():
            if nanny.status in (Status.failed, Status.closed):
                del cluster.workers[name]
        if cluster.status == Status.running and set(cluster.worker_spec) - set(cluster.workers):
            # As cluster.scale does it, which would print a traceback where a start fails.
            with suppress(RuntimeError, OSError):
                await cluster._correct_state()


def _tell(nanny: Any, workers: Iterable[Any]) -> None:
    """Let a nanny know that its worker runs, where the scheduler knows and it does not.

    A worker that dies while it starts leaves behind, in its nanny, a wait that takes the
    message of its successor's start and drops it. Who then closes the nanny would wait for
    that message for ever (``WorkerProcess._wait_until_connected``, distributed 2026.7).
    """
    from distributed.core import Status

    process = nanny.process
    if process is None or process.status != Status.starting:
        return
    for worker in workers:
        if worker.nanny == nanny.address:
            process.worker_address, process.worker_dir = worker.address, worker.local_directory
            process.status = Status.running
            process.running.set()
