"""Ctrl-C, SIGTERM and SIGHUP end a run in order; a second one does not disturb the closing."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any

from cluster_setup.shutdown import handle_signals

SECONDS_UNTIL_AGAIN = 0.05  # by then the finaliser has ended


def is_interrupt(error: BaseException) -> bool:
    """Whether an error is an interrupt, or was caused by one.

    An interrupt during the import of an extension module becomes an error on its initialisation.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


@contextmanager
def interrupted_once() -> Iterator[None]:
    """While the block runs, the first of these signals raises KeyboardInterrupt.

    The second prints a line, the third ends the process at once. A KeyboardInterrupt that Python
    drops, as it came within a finaliser or the callback of a weak reference, is raised again a
    moment later.
    """
    n_asked = 0
    hook = sys.unraisablehook
    is_main = threading.current_thread() is threading.main_thread()  # others get no signals
    signal_again = partial(signal.pthread_kill, threading.get_ident(), signal.SIGINT)
    timer = threading.Timer(SECONDS_UNTIL_AGAIN, signal_again)

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal n_asked
        n_asked += 1
        if n_asked == 1:
            raise KeyboardInterrupt
        if n_asked == 2:
            with suppress(OSError):  # the terminal may be gone
                words = "stopping the workers; press Ctrl-C again to quit at once"
                print(words, file=sys.stderr, flush=True)
        else:
            os._exit(1)

    def ask_again(dropped: Any) -> None:
        nonlocal n_asked, timer
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            hook(dropped)
            return
        n_asked = 0
        if not timer.is_alive():
            timer = threading.Timer(SECONDS_UNTIL_AGAIN, signal_again)
            timer.start()

    if is_main:
        sys.unraisablehook = ask_again
    try:
        with handle_signals(interrupt):
            yield
    except ImportError as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise
    finally:
        timer.cancel()
        if is_main:
            sys.unraisablehook = hook
