"""The start of a cluster of this machine: whole or not at all, whatever comes meanwhile."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from cluster_setup.closing import close_in_time
from cluster_setup.errors import ClusterError
from cluster_setup.on_this_machine.tracker import remember

HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STARTS = 3  # of a cluster whose workers die before the first has registered


@contextmanager
def whole(kind: str, start: Callable[[], Any]) -> Iterator[Any]:
    """A cluster of this machine, started as ``start_whole`` does it; closed at the end."""
    cluster, deliver_signals = start_whole(kind, start)
    try:
        deliver_signals()
        yield cluster
    finally:
        close_in_time(cluster)


def start_whole(kind: str, start: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
    """Start a cluster, again where its workers die meanwhile.

    Parameters
    ----------
    kind : str
        Its name, for a person.
    start : function that gives a LocalCluster

    Returns
    -------
    cluster : LocalCluster
    deliver_signals : function
        Delivers the signals that came meanwhile; to be called where
        the cluster is closed if they raise.

    Raises
    ------
    ClusterError
        Its workers die while they start.
    """
    with _signals_held() as asked:
        cluster = _started(kind, start, asked)

    def deliver() -> None:
        for number in asked:
            signal.raise_signal(number)

    return cluster, deliver


@contextmanager
def _signals_held() -> Iterator[list[int]]:
    """Note SIGINT, SIGTERM and SIGHUP while a cluster starts, for Dask cannot close half of one.

    What is given are those that came. A SIGHUP that is ignored stays so.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    hangs_up = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
    heeded = [number for number in HELD if hangs_up or number != signal.SIGHUP]
    previous = {number: signal.signal(number, note) for number in heeded}
    try:
        yield asked
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
