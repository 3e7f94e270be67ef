"""Time limits that Dask's clusters lack: of their start, and of their end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import cache
from typing import Any

SECONDS_TO_START = 300  # a cluster of this machine; on a busy one a minute is usual
SECONDS_TO_CLOSE = 60


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
            return super().close(SECONDS_TO_CLOSE if timeout is None else timeout)

    InTime.__name__ = base.__name__  # the dashboard shows it
    return InTime


def close_in_time(cluster: Any) -> None:
    """Close a cluster, by killing its workers if need be: what is done stays done.

    Dask gives a worker five seconds to end, which are few on a busy machine, and some of what it
    awaits has no time limit.

    Parameters
    ----------
    cluster : SpecCluster
        Workers that are no processes of this machine, a queue's, are not killed.
    """
    try:
        cluster.close(timeout=SECONDS_TO_CLOSE)
    except TimeoutError:
        cluster.shutdown_on_close = False  # Dask would wait once more when the program ends
        for worker in list(cluster._created):
            if pid := getattr(worker, "pid", None):
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, signal.SIGKILL)
