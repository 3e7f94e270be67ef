"""The start of a cluster of this machine: whole or not at all, whatever comes meanwhile."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import resource_tracker
from typing import Any

from cluster_setup import shutdown
from cluster_setup.errors import ClusterError

STARTS = 3  # of a cluster whose workers die before the first has registered
SECONDS_TO_START = 300  # on a busy machine a minute is usual


@contextmanager
def started(kind: str, start: Callable[[], Any]) -> Iterator[Any]:
    """Start a cluster of this machine, again where its workers die meanwhile; close it at the end.

    SIGINT, SIGTERM and SIGHUP that come while it starts are delivered when it has, for Dask cannot
    close half of one.

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
    signals: list[int] = []
    with shutdown.handle_signals(lambda number, frame: signals.append(number)):
        cluster = _start(kind, start, signals)
    try:
        for number in signals:
            signal.raise_signal(number)
        yield cluster
    finally:
        shutdown.close_or_kill(cluster)


def _start(kind: str, start: Callable[[], Any], signals: list[int]) -> Any:
    import psutil

    me = psutil.Process()
    cause: BaseException | None = None
    for _ in range(STARTS):
        before = set(me.children())
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
        for process in set(me.children()) - before:  # workers that the failed start has left
            with suppress(psutil.Error):  # it has ended
                if any("spawn_main" in word for word in process.cmdline()):
                    process.kill()
        if signals:
            raise KeyboardInterrupt
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    reason = " ".join(str(cause).split()) or type(cause).__name__
    raise ClusterError(
        f"--cluster {kind} needs workers that start, but they ended before they registered, "
        f"{STARTS} times in a row ({reason}); is there memory enough for --workers?"
    )


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
