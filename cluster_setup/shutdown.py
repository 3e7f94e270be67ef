"""Signals that end a run, and closing a cluster within a time limit and without remains."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from types import FrameType
from typing import Any

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SECONDS_TO_CLOSE = 60
_threads: list[threading.Thread] = []  # of workers in this process, for which nobody waits


def leave_threads(threads: Iterable[threading.Thread]) -> None:
    """Note threads of this process that nobody waits for."""
    _threads.extend(threads)


def threads_left() -> bool:
    """Whether threads that nobody waited for still run; together they get a second to end."""
    deadline = time.monotonic() + 1
    for thread in _threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return any(thread.is_alive() for thread in _threads)


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let ``handler`` handle Ctrl-C, SIGTERM and SIGHUP while the block runs.

    A SIGHUP that is ignored stays so, as ``nohup`` asks. Outside the main thread, which alone may
    set handlers, there is no effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    handled_signals = set(HANDLED) - ({signal.SIGHUP} if is_ignored else set())
    previous = {number: signal.signal(number, handler) for number in handled_signals}
    try:
        yield
    finally:
        for number, previous_handler in previous.items():
            signal.signal(number, previous_handler)


def close_or_kill(cluster: Any) -> None:
    """Close a cluster; kill its workers if that takes longer than ``SECONDS_TO_CLOSE``.

    Dask gives a worker five seconds to end, which is short on a busy machine, and other waits of
    its own have no time limit.

    Parameters
    ----------
    cluster : SpecCluster
        Workers of a queue, which are no processes of this machine, are not killed.
    """
    try:
        cluster.close(timeout=SECONDS_TO_CLOSE)
    except TimeoutError:
        cluster.shutdown_on_close = False  # Dask would wait once more when the program ends
        for worker in list(cluster._created):
            if pid := getattr(worker, "pid", None):
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, signal.SIGKILL)


def forget_schedulers() -> None:
    """Empty the caches of Dask that keep every scheduler of this process alive, with its data."""
    from distributed import core

    # Both are unbounded (distributed 2026.7) and keep their arguments: handlers, which are bound
    # methods of a scheduler, and the scheduler itself. They are private: a version may lack them.
    if (expects_comm := getattr(core, "_expects_comm", None)) is not None:
        expects_comm.cache_clear()
    # Imported only with a dashboard. Its cache is in a closure, and can only be replaced.
    pages: Any = sys.modules.get("distributed.dashboard.scheduler")
    if hasattr(getattr(pages, "template_variables", None), "__wrapped__"):
        pages.template_variables = cache(pages.template_variables.__wrapped__)
