"""The start of a cluster of this machine: whole or not at all, whatever comes meanwhile."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import resource_tracker, spawn
from types import FrameType
from typing import TYPE_CHECKING, Any

from cluster_setup import shutdown
from cluster_setup.errors import ClusterError

if TYPE_CHECKING:
    import psutil

STARTS = 3  # of a cluster whose workers die before the first has registered
SECONDS_TO_START = 300  # on a busy machine a minute is usual
SECONDS_AFTER_A_SIGNAL = 4  # that a start has before its workers are killed
WORKER_PROCESS = "Dask Worker process"  # how Dask begins the names of its nannies' processes


@contextmanager
def started(kind: str, start: Callable[[], Any]) -> Iterator[Any]:
    """Start a cluster of this machine, again where its workers die meanwhile; close it at the end.

    SIGINT, SIGTERM and SIGHUP that come while it starts are delivered when it has, for Dask cannot
    close half of one; a start that takes long is ended by killing its workers.

    Parameters
    ----------
    kind : str
        Its name, for the error line.
    start : function that returns a LocalCluster

    Raises
    ------
    ClusterError
        Its workers die while they start.
    """
    import psutil

    before = set(psutil.Process().children())
    signals: list[int] = []
    too_long = threading.Timer(SECONDS_AFTER_A_SIGNAL, _kill_workers, (before,))
    too_long.daemon = True

    def note(number: int, frame: FrameType | None) -> None:
        if not signals:
            too_long.start()
        signals.append(number)

    with shutdown.handle_signals(note):
        cluster = _start(kind, start, signals, before)
    too_long.cancel()
    try:
        for number in signals:
            signal.raise_signal(number)
        yield cluster
    finally:
        shutdown.close_or_kill(cluster)


def _start(
    kind: str, start: Callable[[], Any], signals: list[int], before: Set[psutil.Process]
) -> Any:
    cause: BaseException | None = None
    leave_main_module_alone()
    for _ in range(STARTS):
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, set())
        try:
            # Before SIGINT is blocked: the thread that starts it has that unblocked afterwards.
            keep_tracker_informed()
            # A terminal sends Ctrl-C to every process; it is for this program, which closes the
            # workers in order. A thread inherits what is blocked in the one that made it, and a
            # process what is blocked in its parent's thread: the cluster's own thread, which is
            # made here, has it blocked for good, and so have all its workers from their birth.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            return start()
        except Exception as error:  # of whatever kind Dask makes of it
            cause = error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _kill_workers(before)  # those that the failed start has left
        if signals:
            raise KeyboardInterrupt
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    reason = " ".join(str(cause).split()) or type(cause).__name__
    raise ClusterError(
        f"--cluster {kind} needs workers that start, but they ended before they registered, "
        f"{STARTS} times in a row ({reason}); is there memory enough for --workers?"
    )


def _kill_workers(before: Set[psutil.Process]) -> None:
    """Kill the processes that were spawned since ``before``."""
    import psutil

    for process in set(psutil.Process().children()) - before:
        with suppress(psutil.Error):  # it has ended
            if any("spawn_main" in word for word in process.cmdline()):
                process.kill()


@cache
def leave_main_module_alone() -> None:
    """Let workers start without the program's main module, which Python would import there.

    A script that runs a command in its outermost lines, without ``if __name__ == "__main__"``,
    would begin the run again in every worker. Nothing in that module is missed: what a task has
    of it, Dask sends by value.
    """
    prepare = spawn.get_preparation_data

    def without_main(name: str) -> dict[str, Any]:
        data = prepare(name)
        if name.startswith(WORKER_PROCESS):
            for key in ("init_main_from_name", "init_main_from_path"):
                data.pop(key, None)
        return data

    # multiprocessing looks it up by this name, each time.
    spawn.get_preparation_data = without_main


@cache
def with_time_limits(base: Any) -> Any:
    """Return a cluster class whose start raises TimeoutError where Dask would wait for ever.

    It does when a worker cannot even be begun: its nanny closes, and then waits for its own
    closing (``Nanny.start_unsafe``, distributed 2026.7).

    Parameters
    ----------
    base : subclass of SpecCluster
    """

    class LimitedCluster(base):
        def sync(self, *what: Any, callback_timeout: float | None = None, **how: Any) -> Any:
            limit = SECONDS_TO_START if callback_timeout is None else callback_timeout
            return super().sync(*what, callback_timeout=limit, **how)

        def close(self, timeout: float | None = None) -> Any:
            return super().close(shutdown.SECONDS_TO_CLOSE if timeout is None else timeout)

    LimitedCluster.__name__ = base.__name__  # the dashboard shows it
    return LimitedCluster


@cache
def keep_tracker_informed() -> None:
    """Start Python's resource tracker; should it be killed, tell its successor what it knew.

    The tracker unlinks the semaphores of a program that is killed. When it is killed itself, by a
    machine short of memory, Python starts another, which prints a traceback for each semaphore
    that is released later and of which it has not heard.
    """
    tracker: Any = resource_tracker._resource_tracker
    registered: set[tuple[str, str]] = set()
    warnings.filterwarnings("ignore", "resource_tracker: process died unexpectedly")
    tracker.ensure_running()

    def informing(send: Callable[[str, str], None], update: Callable[[Any], None]) -> Any:
        def inform(name: str, kind: str) -> None:
            # Without a lock, for the garbage collector may release a name anywhere: to register
            # one twice does no harm.
            pid = tracker._pid
            tracker.ensure_running()
            if tracker._pid != pid:
                for one in list(registered):
                    tracker.register(*one)
            update((name, kind))
            send(name, kind)

        return inform

    # multiprocessing looks them up by these names, each time.
    resource_tracker.register = informing(tracker.register, registered.add)
    resource_tracker.unregister = informing(tracker.unregister, registered.discard)
