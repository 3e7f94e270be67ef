"""The start of a cluster of this machine: whole or not at all, whatever comes meanwhile."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from cluster_setup import closing
from cluster_setup.errors import ClusterError
from cluster_setup.on_this_machine.tracker import remember

STARTS = 3  # of a cluster whose workers die before the first has registered
SECONDS_TO_START = 300  # on a busy machine a minute is usual


@contextmanager
def whole(kind: str, start: Callable[[], Any]) -> Iterator[Any]:
    """A cluster of this machine, started again where its workers die meanwhile; closed at the end.

    SIGINT, SIGTERM and SIGHUP that come while it starts are delivered when it has, for Dask cannot
    close half of one.

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
    asked: list[int] = []
    with closing.answering(lambda number, frame: asked.append(number)):
        cluster = _started(kind, start, asked)
    try:
        for number in asked:
            signal.raise_signal(number)
        yield cluster
    finally:
        closing.close_in_time(cluster)


@cache
def in_time(base: Any) -> Any:
    """A cluster class whose start raises TimeoutError where Dask would wait for ever.

    It does when a worker cannot even be begun: its nanny closes, and then waits for its own
    closing (``Nanny.start_unsafe``, distributed 2026.7).

    Parameters
    ----------
    base : subclass of SpecCluster
    """

    class InTime(base):
        def sync(self, *what: Any, callback_timeout: float | None = None, **how: Any) -> Any:
            limit = SECONDS_TO_START if callback_timeout is None else callback_timeout
            return super().sync(*what, callback_timeout=limit, **how)

        def close(self, timeout: float | None = None) -> Any:
            return super().close(closing.SECONDS_TO_CLOSE if timeout is None else timeout)

    InTime.__name__ = base.__name__  # the dashboard shows it
    return InTime


@contextmanager
def _children_deaf_to_ctrl_c() -> Iterator[None]:
    """Block SIGINT in the threads that start workers, and so in the workers, from their birth.

    A terminal sends Ctrl-C to every process; it is for the program that opened the
    cluster, which closes the workers in order. A thread inherits what is blocked in
    the one that made it, and a process what is blocked in its parent's thread: the
    cluster's own thread, which is made in here, has it blocked for good.
    """
    # First of all, for the thread that starts its process has SIGINT unblocked afterwards.
    remember()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _started(kind: str, start: Callable[[], Any], asked: list[int]) -> Any:
    error: Exception | None = None
    for _ in range(STARTS):
        before = _children()
        try:
            with _children_deaf_to_ctrl_c():
                return start()
        except Exception as raised:  # of whatever kind Dask makes of it
            error = raised
            _end(_children() - before)
            if asked:
                raise KeyboardInterrupt from None
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
