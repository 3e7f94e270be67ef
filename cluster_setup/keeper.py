"""Keeps the workers of a cluster of this machine: one that is lost for good is started anew.

Dask's nanny starts the successor of a worker that dies, but gives up when that one
dies, too, before it has registered; and Dask's cluster drops a nanny whose worker
takes long to come back. Neither asks for another, and a nanny may never learn that
the worker it started is there.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any

from cluster_setup.errors import ClusterError
from cluster_setup.limits import close_in_time

SECONDS_BETWEEN_LOOKS = 2
STARTS = 3  # of a cluster whose workers die before the first has registered


@contextmanager
def kept(kind: str, start: Callable[[], Any]) -> Iterator[Any]:
    """A cluster of this machine whose workers come back; closed at the end.

    Parameters
    ----------
    kind : str
        Its name, for a person.
    start : function that gives a LocalCluster

    Raises
    ------
    ClusterError
        Its workers die while they start.
    """
    with _signals_held() as deliver, _children_deaf_to_ctrl_c():
        cluster = _started(kind, start)
    try:
        deliver()
        Keeper(cluster)
        yield cluster
    finally:
        close_in_time(cluster)


@contextmanager
def _signals_held() -> Iterator[Callable[[], None]]:
    """Note SIGINT and SIGTERM while a cluster starts, for Dask cannot close half of one.

    What is given delivers them to the handlers there were before.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    def deliver() -> None:
        for number in asked:
            signal.raise_signal(number)

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield deliver
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def _children_deaf_to_ctrl_c() -> Iterator[None]:
    """Block SIGINT in the threads that start workers, and so in the workers, from their birth.

    A terminal sends Ctrl-C to every process; it is for the program that opened the
    cluster, which closes the workers in order. A thread inherits what is blocked in
    the one that made it, and a process what is blocked in its parent's thread: the
    cluster's own thread, which is made in here, has it blocked for good.
    """
    # First of all, for the thread that starts it has SIGINT unblocked afterwards.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _started(kind: str, start: Callable[[], Any]) -> Any:
    error: Exception | None = None
    for _ in range(STARTS):
        before = _children()
        try:
            return start()
        except Exception as raised:  # of whatever kind Dask makes of it
            error = raised
            _end(_children() - before)
    raise ClusterError(
        f"--cluster {kind} needs workers that start, but they ended before they registered, "
        f"{STARTS} times in a row ({_cause(error)}); is there memory enough for --workers?"
    )


def _children() -> set[Any]:
    import psutil

    return set(psutil.Process().children())


def _end(processes: set[Any]) -> None:
    """Kill the workers among them, which a start that failed has left."""
    import psutil

    for process in processes:
        with suppress(psutil.Error):  # it has ended
            if any("spawn_main" in word for word in process.cmdline()):
                process.kill()


def _cause(error: BaseException | None) -> str:
    """What began a chain of errors, on one line."""
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__


class Keeper:
    """Looks from time to time, until its cluster is closed.

    Parameters
    ----------
    cluster : LocalCluster
    every : float
        Seconds between two looks.
    """

    def __init__(self, cluster: Any, every: float = SECONDS_BETWEEN_LOOKS) -> None:
        from tornado.ioloop import PeriodicCallback

        self._cluster = cluster
        self._timer = PeriodicCallback(self.look, every * 1000)
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
