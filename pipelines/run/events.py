"""Progress events: how far a running task is, and its rows so far.

A work that has something to tell is a generator, and yields ``Progress`` between its rows: those
before it are ready. Or it takes ``report`` besides what every work takes, and calls it from any
thread: ``report(share)`` with the share of the task that is done, between 0 and 1, and
``report(share, rows)`` with rows that are ready before the task is. From a worker of a cluster
this travels as an event of Dask's, over the connections that are there.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SECONDS_BETWEEN = 1.0  # two news of a task: a shorter one is done before it tells anything
LEAST_STEP = 0.01  # of the share, where there are no rows to tell of

Message = dict[str, Any]
# Where a task's messages go: called on the thread that runs it, it gives what sends one.
Line = Callable[[], Callable[[Message], None]]


@dataclass(frozen=True)
class ProgressEvent:
    """A progress event that a running task sends.

    Attributes
    ----------
    task : str, its name
    share : float
        Of its work, done by now.
    rows : sequence
        Ready since the last news that had some; a task that is begun again gives them again.
    worker : str
    started, seconds : float
        When the rows were begun, in seconds since the epoch, and how long they took.
    part : str
        What the rows are called: the name that a task of them alone would have.
    """

    task: str
    share: float
    rows: Sequence[Any] = ()
    worker: str = ""
    started: float = 0.0
    seconds: float = 0.0
    part: str = ""
    cost: float | None = None  # predicted, of a part
    compiled: int = 0  # functions, where the task is not yet at its fits
    note: str = ""  # what it does before its fits, such as an import
    compile_seconds: float = 0.0  # not told; what a task compiles it says when it is done
    memory: Mapping[str, int] = field(default_factory=dict)  # as ``Outcome`` has it


def to_scheduler(topic: str) -> Callable[[Message], None]:
    """Return a function that sends messages as worker events of ``topic`` to subscribers."""
    from distributed import get_worker

    worker = get_worker()
    return lambda message: worker.log_event(topic, message)


class ProgressReporter:
    """``report`` of one task; it holds back what comes too soon after the last news.

    Parameters
    ----------
    task : str, what messages call it
    worker : str
    send : function of one message
    memory : function that returns the task's peak memory so far
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
        self._compilation_sent_at = -math.inf  # when it was told of
        self._note = ""

    def __call__(self, fraction: float, rows: Sequence[Any] = (), note: str = "") -> None:
        """Tell of the share that is done, of rows that are ready, and of a new note at once."""
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
        """Tell that so many functions are being compiled, of the first at once; 0 for none now."""
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
