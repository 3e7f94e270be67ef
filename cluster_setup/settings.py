"""Dask's settings that every cluster of ours has, wherever its processes start; its dashboard."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from typing import Any

LOOPBACK = "127.0.0.1"
USUAL_PORT = 8787
# CUDA gives GPUs the numbers that NVML and nvidia-smi do; by itself the fastest is its first.
ORDER, BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
# Not even "critical": of a worker that is short of memory Dask logs tracebacks as that, and what
# ends a task or a worker is said by the run.
NO_LOGS = logging.CRITICAL + 1

OF_SCHEDULERS = {
    # A worker holds no task in reserve: what is left at the end is spread evenly.
    "distributed.scheduler.worker-saturation": 1.0,
    # Replicas of the shared data are wanted on every worker to the end.
    "distributed.scheduler.active-memory-manager.start": False,
    # What a worker keeps of its own members (``MemberFiles.recall``) no idle one is to take over.
    "distributed.scheduler.default-task-durations.recall": "1ms",
}
OF_WORKERS = {
    # What a worker holds is in use: to write it to disk frees nothing, and a worker that pauses
    # at 80 % of its memory waits for ever for what no one will release. At 95 % it is ended, and
    # its task goes elsewhere or is a row that says so.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    # A worker remembers what it did for a thousand seconds; by ten seconds, not by one, that is
    # some megabytes and not a hundred, and it stays as large as it is after a while.
    "distributed.worker.profile.cycle": "10s",
    "distributed.admin.low-level-log-length": 100,
    # Dask has glibc give back what is freed at once. The arrays of each step of a network are then
    # new pages each time, and its training takes twice as long.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    f"distributed.nanny.environ.{ORDER}": BY_BUS,  # but where the user has set it
}
SETTINGS = {**OF_SCHEDULERS, **OF_WORKERS}

OUR_PAGES = "cluster_setup.pages"
# Pages to look at, none of which changes anything or reaches out to another server.
ROUTES = [
    OUR_PAGES,
    *(
        f"distributed.http.{of}"
        for of in ("scheduler.json", "scheduler.prometheus", "health", "statics")
    ),
]


def dask_settings(dashboard: str | None) -> dict[str, Any]:
    """Return Dask's configuration where a scheduler of ours starts, with or without its pages."""
    import dask

    preload = "distributed.scheduler.preload"
    return {
        **SETTINGS,
        preload: [*dask.config.get(preload), OUR_PAGES],
        "distributed.scheduler.http.routes": [] if dashboard == "off" else ROUTES,
    }


def scheduler_dashboard(dashboard: str | None) -> dict[str, Any]:
    """Return where a scheduler's dashboard listens, as options of ``Scheduler``.

    By default loopback on Dask's usual port, which PLEASINGLY_DASHBOARD may change, or on any free
    one when that is taken.
    """
    if dashboard == "off":  # a scheduler opens a port for pages anyway; dask_setup closes it
        return {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
    if dashboard is None:
        port = os.environ.get("PLEASINGLY_DASHBOARD", "")
        usual_port = int(port) if port.isdecimal() else USUAL_PORT
        with socket.socket() as probe:
            is_taken = probe.connect_ex((LOOPBACK, usual_port)) == 0
        dashboard = "0" if is_taken else str(usual_port)
    return {"dashboard_address": dashboard if ":" in dashboard else f"{LOOPBACK}:{dashboard}"}


def open_protocol() -> str:
    """Return the protocol without TLS: "tcp://", or as Dask's configuration says, as "ucx://"."""
    import dask

    # Not there until distributed is imported, which a dry run does without.
    scheme = dask.config.get("distributed.comm.default-scheme", "tcp")
    return "tcp://" if scheme == "tls" else f"{scheme}://"


def takers_of_rmm() -> list[str]:
    """Return who takes device memory from RMM's pool where told; RAPIDS does, and numba asks cupy.

    torch, too, where one with CUDA is installed here: workers have the same packages, and one
    without ends them when it is told.
    """
    try:
        from torch.version import cuda
    except ImportError:
        cuda = None
    return ["cupy", *(["torch"] if cuda else [])]


def as_environment(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as the variables from which Dask reads them in a process of its own."""
    variables = {}
    for name, value in settings.items():
        path, _, key = name.rpartition(".")
        if key.isupper():  # a variable itself; Dask reads names in lower case, and values as Python
            name, value = path, f'{{"{key}": {value!r}}}'
        variables["DASK_" + name.upper().replace(".", "__").replace("-", "_")] = str(value)
    return variables
