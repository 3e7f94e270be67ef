"""A worker's preload: Ctrl-C is for the program that opened the cluster.

A terminal sends it to every process; the workers are closed in order instead.
"""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Called by Dask in the worker's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
