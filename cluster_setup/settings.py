"""The Dask settings of every cluster of this program, and where its dashboard listens."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from typing import Any

LOOPBACK = "127.0.0.1"
USUAL_PORT = 8787
# With this CUDA numbers GPUs as NVML and nvidia-smi do; by default the fastest is its first.
ORDER, BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
# Above "critical", the level of tracebacks that Dask logs for a worker short of memory; the run
# itself reports what ends a task or a worker.
NO_LOGS = logging.CRITICAL + 1

OF_SCHEDULERS = {
    # No task waits at a worker that is busy, so that the last tasks are spread evenly.
    "distributed.scheduler.worker-saturation": 1.0,
    # It would drop copies of the shared data, which every worker needs to the end.
    "distributed.scheduler.active-memory-manager.start": False,
    # Tasks taken for this short are not stolen: what a worker recalls of its own members
    # (``MemberFiles.recall``) is no task for an idle one.
    "distributed.scheduler.default-task-durations.recall": "1ms",
}
OF_WORKERS = {
    # What a worker holds is in use: spilling it to disk frees nothing, and a worker that pauses
    # at 80 % of its memory waits for ever, as nothing will be released. At 95 % its nanny ends it,
    # and its task is run elsewhere or becomes a row that says so.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    # A worker keeps profiles of the last thousand seconds. A hundred of ten seconds each take some
    # megabytes; a thousand of one second took a hundred. After that time they stop growing.
    "distributed.worker.profile.cycle": "10s",
    "distributed.admin.low-level-log-length": 100,
    # By this variable Dask makes glibc return freed memory at once. The arrays of each step of a
    # network are then new pages, and its training takes twice as long.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    f"distributed.nanny.environ.{ORDER}": BY_BUS,  # unless the user has set it
}
SETTINGS = {**OF_SCHEDULERS, **OF_WORKERS}

OUR_PAGES = "cluster_setup.pages"
# Pages that only show something: none changes the scheduler or asks another server.
ROUTES = [
    OUR_PAGES,
    *(
        f"distributed.http.{of}"
        for of in ("scheduler.json", "scheduler.prometheus", "health", "statics")
    ),
]


def dask_settings(dashboard: str | None) -> dict[str, Any]:
    """The Dask configuration in which a scheduler starts, with or without its pages."""
    import dask

    preload = "distributed.scheduler.preload"
    return {
        **SETTINGS,
        preload: [*dask.config.get(preload), OUR_PAGES],
        "distributed.scheduler.http.routes": [] if dashboard == "off" else ROUTES,
    }


def scheduler_dashboard(dashboard: str | None) -> dict[str, Any]:
    """The arguments of ``Scheduler`` that say where its dashboard listens.

    By default that is loopback, on Dask's usual port or that in PLEASINGLY_DASHBOARD; on any free
    port if it is taken.

    Parameters
    ----------
    dashboard : str or None
        As in ``ClusterOptions``.
    """
    if dashboard == "off":  # a scheduler opens a port anyway; pages.dask_setup closes it
        return {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
    if dashboard is None:
        port = os.environ.get("PLEASINGLY_DASHBOARD", "")
        usual_port = int(port) if port.isdecimal() else USUAL_PORT
        with socket.socket() as probe:
            is_taken = probe.connect_ex((LOOPBACK, usual_port)) == 0
        dashboard = "0" if is_taken else str(usual_port)
    return {"dashboard_address": dashboard if ":" in dashboard else f"{LOOPBACK}:{dashboard}"}


def open_protocol() -> str:
    """The protocol without TLS: "tcp://", or what Dask's configuration names, such as "ucx://"."""
    import dask

    # The setting is missing until distributed is imported, which a dry run does without.
    scheme = dask.config.get("distributed.comm.default-scheme", "tcp")
    return "tcp://" if scheme == "tls" else f"{scheme}://"


def takers_of_rmm() -> list[str]:
    """The libraries that must be told to take device memory from RMM's pool.

    RAPIDS does so by itself, and numba asks cupy. torch is among them only if one with CUDA is
    installed here, as one without ends a worker that tells it so; workers have the same packages.
    """
    try:
        from torch.version import cuda
    except ImportError:
        cuda = None
    return ["cupy", *(["torch"] if cuda else [])]


def as_environment(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as the environment variables from which Dask reads them in another process."""
    variables = {}
    for name, value in settings.items():
        path, _, key = name.rpartition(".")
        if key.isupper():  # a variable itself: Dask reads names in lower case, values as Python
            name, value = path, f'{{"{key}": {value!r}}}'
        variables["DASK_" + name.upper().replace(".", "__").replace("-", "_")] = str(value)
    return variables
