"""The end of a cluster of ours, whatever its kind, comes in time."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Any

SECONDS_TO_CLOSE = 60


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
