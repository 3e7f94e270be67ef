"""A cluster whose workers are processes of this machine, on its loopback address alone.

It starts completely or not at all, even if a signal comes meanwhile, and replaces workers that die.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from functools import cache, partial
from multiprocessing import current_process, resource_tracker, spawn
from types import FrameType
from typing import TYPE_CHECKING, Any

from cluster_setup import security, shutdown
from cluster_setup.errors import ClusterError
from cluster_setup.options import ClusterOptions
from cluster_setup.settings import LOOPBACK, NO_LOGS, open_protocol, scheduler_dashboard

if TYPE_CHECKING:
    import psutil
    from distributed import Client

SECONDS_BETWEEN_CHECKS = 2
STARTS = 3  # of a cluster whose workers die before the first has registered
SECONDS_TO_START = 300  # on a busy machine a minute is usual
SECONDS_AFTER_A_SIGNAL = 4  # after which the workers of a start are killed
WORKER_PROCESS = "Dask Worker process"  # how Dask begins the names of its nannies' processes


@contextmanager
def open_client(options: ClusterOptions, cluster_class: Any, **arguments: Any) -> Iterator[Client]:
    """Open a client of worker processes on loopback, which are restarted when they die.

    Parameters
    ----------
    options : ClusterOptions
    cluster_class : type
        ``LocalCluster`` or a subclass.
    **arguments
        Further arguments of ``cluster_class``.
    """
    from distributed import Client, Security

    if current_process().daemon:
        raise ClusterError(
            f"--cluster must not be {options.kind} in a process that may start no others, such as "
            "a worker of Dask; use threads, or the address of that worker's scheduler"
        )
    if options.tls:
        connection = {"protocol": "tls://", "security": Security.temporary()}
    else:
        options.echo(security.NO_TLS)
        connection = {"protocol": open_protocol()}
    start = partial(
        with_time_limits(cluster_class),
        host=LOOPBACK,
        **connection,
        scheduler_kwargs=scheduler_dashboard(options.dashboard),
        # A worker that dies is restarted, and the summary says so; Dask's log would only alarm.
        silence_logs=NO_LOGS,
        **arguments,
    )
    with start_cluster(options.kind, start) as cluster:
        restart_lost_workers(cluster)
        with Client(cluster, set_as_default=False) as client:
            yield client


def restart_lost_workers(cluster: Any) -> None:
    """Check every two seconds, until ``cluster`` is closed, for workers that Dask gave up.

    Dask's nanny restarts a worker that dies, but gives up if the new one dies before it has
    registered; and a ``LocalCluster`` drops a nanny whose worker takes long to come back. Neither
    starts another, and a nanny may never learn that the worker it started is running.
    """
    from distributed.core import Status
    from tornado.ioloop import PeriodicCallback

    async def check() -> None:
        if cluster.status == Status.closed:
            timer.stop()
            return
        for nanny in list(cluster._created):  # includes those that the cluster has dropped
            _mark_running(nanny, cluster.scheduler)
        for name, nanny in dict(cluster.workers).items():
            if nanny.status in (Status.failed, Status.closed):
                del cluster.workers[name]
        if cluster.status == Status.running and set(cluster.worker_spec) - set(cluster.workers):
            # This is what cluster.scale does; that would print a traceback if a start failed.
            with suppress(RuntimeError, OSError):
                await cluster._correct_state()

    timer = PeriodicCallback(check, SECONDS_BETWEEN_CHECKS * 1000)
    cluster.loop.add_callback(timer.start)


def _mark_running(nanny: Any, scheduler: Any) -> None:
    """Mark a nanny's worker as running if the scheduler knows it and the nanny does not.

    A worker that dies while it starts leaves a wait in its nanny, which takes the message that the
    next worker has started and drops it. Closing the nanny would then wait for that message for
    ever (``WorkerProcess._wait_until_connected``, distributed 2026.7).
    """
    from distributed.core import Status

    process = nanny.process
    if process is None or process.status != Status.starting:
        return
    for worker in scheduler.workers.values():
        if worker.nanny == nanny.address:
            process.worker_address, process.worker_dir = worker.address, worker.local_directory
            process.status = Status.running
            process.running.set()


@contextmanager
def start_cluster(kind: str, start: Callable[[], Any]) -> Iterator[Any]:
    """Start a cluster of this machine, and close it at the end.

    A start whose workers die is repeated, ``STARTS`` times in all. SIGINT, SIGTERM and SIGHUP that
    come during the start are delivered after it, as Dask cannot close half a cluster. If that takes
    longer than ``SECONDS_AFTER_A_SIGNAL``, the workers are killed.

    Parameters
    ----------
    kind : str
        The kind of cluster, for messages.
    start : function without arguments
        Returns the cluster.

    Yields
    ------
    distributed.deploy.Cluster

    Raises
    ------
    ClusterError
        The workers died in every start.
    """
    import psutil

    earlier_processes = set(psutil.Process().children())
    signals: list[int] = []
    kill_timer = threading.Timer(SECONDS_AFTER_A_SIGNAL, _kill_workers, (earlier_processes,))
    kill_timer.daemon = True

    def note(number: int, frame: FrameType | None) -> None:
        if not signals:
            kill_timer.start()
        signals.append(number)

    with shutdown.handle_signals(note):
        leave_main_module_alone()
        for attempt in range(1, STARTS + 1):
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, set())
            try:
                # A terminal sends SIGINT and, when it closes, SIGHUP to every process; only this
                # program is to react, as it closes the workers in order. Python's resource tracker
                # dies of SIGHUP alone, and starting it leaves SIGINT unblocked in this thread.
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
                resource_tracker.ensure_running()
                # Threads and processes inherit the signals that are blocked in the thread that
                # makes them. The cluster's own thread, which is made here, keeps both blocked, and
                # so do all its workers from their start.
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                cluster = start()
                break
            except Exception as error:  # Dask raises errors of several types here
                cause: BaseException = error
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _kill_workers(earlier_processes)  # the failed start may have left some
            if signals:
                raise KeyboardInterrupt
            if attempt == STARTS:
                while cause.__cause__ is not None:
                    cause = cause.__cause__
                reason = " ".join(str(cause).split()) or type(cause).__name__
                raise ClusterError(
                    f"--cluster {kind} could not start its workers: they ended before they "
                    f"connected, {STARTS} times in a row ({reason}); is there enough memory for "
                    "--workers?"
                )
    kill_timer.cancel()
    try:
        for number in signals:
            signal.raise_signal(number)
        yield cluster
    finally:
        shutdown.close_or_kill(cluster)


def _kill_workers(earlier_processes: Set[psutil.Process]) -> None:
    """Kill the processes that were spawned since the list of earlier ones was made."""
    import psutil

    for process in set(psutil.Process().children()) - earlier_processes:
        with suppress(psutil.Error):  # it has ended
            if any("spawn_main" in word for word in process.cmdline()):
                process.kill()


@cache
def leave_main_module_alone() -> None:
    """Start workers without the main module of the program, which Python would import in them.

    A script that runs a command at its top level, without ``if __name__ == "__main__"``, would
    begin the run again in every worker. No task lacks that module: Dask sends its objects by value.
    """
    prepare = spawn.get_preparation_data

    def without_main(name: str) -> dict[str, Any]:
        data = prepare(name)
        if name.startswith(WORKER_PROCESS):
            for key in ("init_main_from_name", "init_main_from_path"):
                data.pop(key, None)
        return data

    # multiprocessing looks the function up by this name each time.
    spawn.get_preparation_data = without_main


@cache
def with_time_limits(base: Any) -> Any:
    """A subclass of a cluster class whose start raises TimeoutError where Dask waits for ever.

    Dask does so if the process of a worker cannot be started: its nanny closes, and then waits for
    its own closing (``Nanny.start_unsafe``, distributed 2026.7).
    """

    class LimitedCluster(base):
        def sync(
            self,
            coroutine_function: Any,
            *arguments: Any,
            asynchronous: bool | None = None,
            callback_timeout: float | None = None,
            **keywords: Any,
        ) -> Any:
            limit = SECONDS_TO_START if callback_timeout is None else callback_timeout

            async def limited() -> Any:
                future = asyncio.ensure_future(coroutine_function(*arguments, **keywords))
                try:
                    await asyncio.wait({future}, timeout=limit)
                    if not future.done():
                        raise TimeoutError(f"timed out after {limit} s")
                    return future.result()
                finally:
                    future.cancel()  # without waiting, as it may never end

            # No timeout is passed on, so that Dask waits in slices of ten seconds. In one long wait
            # a signal would go unseen that comes just before it, after Python last checked.
            return super().sync(limited, asynchronous=asynchronous)

        def close(self, timeout: float | None = None) -> Any:
            return super().close(shutdown.SECONDS_TO_CLOSE if timeout is None else timeout)

    LimitedCluster.__name__ = base.__name__  # the dashboard shows it
    return LimitedCluster
