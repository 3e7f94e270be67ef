"""Seconds a process spends compiling or warming up, apart from those it computes."""

from __future__ import annotations

import functools
import importlib.util
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class CompileClock:
    """Runs while at least one compilation does, so that no second counts twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth, self._since, self._spent = 0, 0.0, 0.0

    @property
    def seconds(self) -> float:
        with self._lock:
            return self._spent + (time.perf_counter() - self._since if self._depth else 0.0)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of the block."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def start(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._since = time.perf_counter()
            self._depth += 1

    def stop(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._spent += time.perf_counter() - self._since


CLOCK = CompileClock()


def warming_up() -> Any:
    """What the block takes is told as compiled, not as run: a first call, a child process."""
    return CLOCK.running()


def watch_numba(clock: CompileClock = CLOCK) -> None:
    """Have ``clock`` run while numba compiles, for the CPU or for a GPU; nothing without numba."""
    if importlib.util.find_spec("numba") is None:
        return
    from numba.core import event

    class Compilations(event.Listener):
        def on_start(self, event: Any) -> None:
            clock.start()

        def on_end(self, event: Any) -> None:
            clock.stop()

    event.register("numba:compile", Compilations())
    if importlib.util.find_spec("numba_cuda") is None:
        return
    from numba import cuda

    # A kernel's compilation is no event there: what makes it, links it or finds it on disk.
    dispatcher = getattr(getattr(cuda, "dispatcher", None), "CUDADispatcher", None)
    if dispatcher is not None:  # the simulator compiles nothing
        dispatcher.compile = timed(dispatcher.compile, clock)


def timed(function: Any, clock: CompileClock) -> Any:
    """``function``, with ``clock`` running while it does."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        with clock.running():
            return function(*args, **options)

    return call
