"""Progress events: how far a running task is, and the rows it has completed so far.

A work function reports in one of two ways. It is a generator, and yields ``Progress`` between its
rows, of which those before it are complete. Or it takes one argument more, ``report``, and calls it
from any thread: ``report(fraction)`` with the fraction of the task that is done, between 0 and 1,
or ``report(fraction, rows)`` with rows that are complete before the task is. From the worker of a
cluster a report travels as a Dask event, over the connections that exist anyway.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SECONDS_BETWEEN = 1.0  # two messages of a task; a shorter task is done before it sends any
LEAST_STEP = 0.01  # of the fraction done, for a message without rows

Message = dict[str, Any]
# Called on the thread that runs a task; it returns the function that sends the task's messages.
Line = Callable[[], Callable[[Message], None]]


@dataclass(frozen=True)
class ProgressEvent:
    """A progress event of a running task; the keys of a message are names of these fields.

    Attributes
    ----------
    task : str
        The name of the task.
    share : float
        The fraction of its work that is done.
    rows : sequence
        Rows completed since the last event with rows; a task that is begun again sends them again.
    worker : str
        Address of the worker.
    started, seconds : float
        When the rows were begun, in seconds since the epoch, and how long they took.
    part : str
        The name of the rows in the journal: that of a task of these rows alone.
    cost : float, optional
        The predicted cost of the part.
    compiled : int
        Number of functions whose compilation has begun, where the task is not at its fits yet.
    note : str
        What the task does before its fits, such as an import.
    compile_seconds : float
        Always 0: the outcome of a task says how long it compiled.
    memory : mapping of str to int
        As in ``Outcome``.
    """

    task: str
    share: float
    rows: Sequence[Any] = ()
    worker: str = ""
    started: float = 0.0
    seconds: float = 0.0
    part: str = ""
    cost: float | None = None
    compiled: int = 0
    note: str = ""
    compile_seconds: float = 0.0
    memory: Mapping[str, int] = field(default_factory=dict)


def to_scheduler(topic: str) -> Callable[[Message], None]:
    """The function that sends messages from a worker, as Dask events of ``topic``."""
    from distributed import get_worker

    worker = get_worker()
    return lambda message: worker.log_event(topic, message)


class ProgressReporter:
    """The ``report`` function of one task; it holds back what comes too soon after a message.

    Parameters
    ----------
    task : str
        The name of the task in messages.
    worker : str
        Address of the worker.
    send : function of one message
    memory : function without arguments, default dict
        Returns the peak memory of the task so far, in bytes, as ``Outcome.memory``.
    """

    def __init__(
        self,
        task: str,
        worker: str,
        send: Callable[[Message], None],
        memory: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._task, self._worker, self._send, self._memory = task, worker, send, memory
        self._guard = threading.Lock()
        self._fraction = self._sent_fraction = 0.0
        self._rows: list[Any] = []
        self._sent_at, self._rows_began = time.monotonic(), time.time()
        self._compilation_sent_at = -math.inf  # when one was last reported
        self._note = ""

    def __call__(self, fraction: float, rows: Sequence[Any] = (), note: str = "") -> None:
        """Report the fraction of the task that is done and completed rows; a new note at once."""
        with self._guard:
            self._fraction = max(self._fraction, fraction)
            self._rows += rows
            now = time.monotonic()
            if note != self._note:
                self._note = note
                self._send({"task": self._task, "share": self._fraction, "note": note})
            if now - self._sent_at < SECONDS_BETWEEN:
                return
            if not self._rows and self._fraction - self._sent_fraction < LEAST_STEP:
                return
            self._sent_at, self._sent_fraction = now, self._fraction
            self._send(self._message())

    def compiling(self, n: int) -> None:
        """Report that ``n`` functions have begun to compile, the first at once; 0 for none now."""
        with self._guard:
            if not n or (now := time.monotonic()) - self._compilation_sent_at >= SECONDS_BETWEEN:
                self._compilation_sent_at = now if n else -math.inf
                self._send({"task": self._task, "share": self._fraction, "compiled": n})

    def _message(self) -> Message:
        message: Message = {"task": self._task, "share": self._fraction}
        if self._rows:
            began, self._rows_began = self._rows_began, time.time()
            message |= {
                "rows": self._rows,
                "worker": self._worker,
                "started": began,
                "seconds": self._rows_began - began,
                "memory": self._memory(),
            }
            self._rows = []
        return message
