"""Ctrl-C, SIGTERM and SIGHUP end a run in order; asking again does not disturb the closing."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def is_interrupt(error: BaseException) -> bool:
    """Whether this is an interrupt, or what became of one.

    An extension module that is being imported says of it that its initialization failed.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


@contextmanager
def interrupted_once() -> Iterator[None]:
    """While the block runs, the first of these signals raises KeyboardInterrupt.

    The second is answered with a line, the third ends the process at once. A SIGHUP that
    is ignored stays so, as ``nohup`` asks. Has no effect outside the main thread, which alone
    may set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    n_asked = 0

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal n_asked
        n_asked += 1
        if n_asked == 1:
            raise KeyboardInterrupt
        if n_asked == 2:
            with suppress(OSError):  # the terminal may be gone
                print("closing the workers; once more ends at once", file=sys.stderr, flush=True)
        else:
            os._exit(1)

    hangs_up = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
    heeded = [number for number in HANDLED if hangs_up or number != signal.SIGHUP]
    previous = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield
    except ImportError as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
