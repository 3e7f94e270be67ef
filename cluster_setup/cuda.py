"""``--cluster cuda``: one worker for each GPU of this machine, by dask-cuda.

The only file that knows dask-cuda and NVML.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from cluster_setup.errors import ClusterError
from cluster_setup.keeper import kept
from cluster_setup.limits import in_time
from cluster_setup.local import LOOPBACK, on_loopback, scheduler_dashboard
from cluster_setup.options import ClusterOptions

if TYPE_CHECKING:
    from distributed import Client


def is_installed() -> bool:
    """Whether dask-cuda can be imported here."""
    return importlib.util.find_spec("dask_cuda") is not None


def visible_gpus() -> list[str]:
    """Names of the GPUs this process may use: NVML's, less what CUDA_VISIBLE_DEVICES hides."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        names = [_text(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
        uuids = [_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    finally:
        pynvml.nvmlShutdown()
    return _restrict(names, uuids, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _restrict(names: list[str], uuids: list[str], visible: str | None) -> list[str]:
    if visible is None:
        return names
    chosen = []
    for entry in (part.strip() for part in visible.split(",")):
        if entry.startswith("MIG-"):  # a slice of a GPU, which NVML lists under that GPU
            chosen.append("MIG slice")
            continue
        if entry.isdigit():
            matches = [int(entry)] if int(entry) < len(names) else []
        else:
            matches = [i for i, uuid in enumerate(uuids) if entry and uuid.startswith(entry)]
        if not matches:  # CUDA, too, ignores everything from the first invalid entry on
            break
        chosen.append(names[matches[0]])
    return chosen


@contextmanager
def open_client(options: ClusterOptions) -> Iterator[Client]:
    """A client of one worker per GPU, each of which runs one task at a time."""
    gpus, workers = visible_gpus(), options.workers
    if not gpus:
        raise ClusterError(
            "--cluster cuda needs a GPU, but NVML sees none here; "
            "use --cluster local, or start on a machine with an NVIDIA driver"
        )
    if not is_installed():
        raise ClusterError(
            "--cluster cuda needs dask-cuda, which is not installed here; "
            "run pip install -c constraints.txt '.[gpu]', or use --cluster local"
        )
    if workers is not None and workers > len(gpus):
        raise ClusterError(
            f"--workers must be at most {len(gpus)} with --cluster cuda, the number of GPUs "
            f"here, got {workers}; leave it out for all of them"
        )
    from dask_cuda import LocalCUDACluster
    from distributed import Client

    start = partial(
        in_time(LocalCUDACluster),
        n_workers=workers,
        threads_per_worker=1,
        host=LOOPBACK,
        **on_loopback(options),
        scheduler_kwargs=scheduler_dashboard(options.dashboard),
        # Spilling covers only objects that Dask stores; ours live in the solvers.
        device_memory_limit=None,
        silence_logs=logging.CRITICAL,
    )
    with kept("cuda", start) as cluster, Client(cluster, set_as_default=False) as client:
        yield client
