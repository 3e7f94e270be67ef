"""``--cluster cuda``: one worker for each GPU of this machine, by dask-cuda.

The only file that knows dask-cuda.
"""

from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from cluster_setup import on_this_machine
from cluster_setup.errors import ClusterError
from cluster_setup.installation import install_line
from cluster_setup.on_this_machine import devices
from cluster_setup.options import ClusterOptions
from cluster_setup.settings import takers_of_rmm

if TYPE_CHECKING:
    from distributed import Client


def is_installed() -> bool:
    """Return whether dask-cuda can be imported."""
    return importlib.util.find_spec("dask_cuda") is not None


def open_client(options: ClusterOptions) -> AbstractContextManager[Client]:
    """Open a client of one worker per GPU, each of which runs one task at a time."""
    gpus, workers = devices.visible_gpus(), options.workers
    if not gpus:
        raise ClusterError(
            "--cluster cuda needs a GPU, but NVML sees none here; "
            "use --cluster local, or start on a machine with an NVIDIA driver"
        )
    if not is_installed():
        raise ClusterError(
            "--cluster cuda needs dask-cuda, which is not installed here; "
            f"run {install_line('gpu')}, or use --cluster local"
        )
    if why := devices.cuda_needs():
        raise ClusterError(
            f"--cluster cuda cannot use the GPUs here: {why}; update the driver, run "
            f"{install_line('gpu-cu12', anew=True)} in an environment of its own, or use "
            "--cluster local"
        )
    if workers is not None and workers > len(gpus):
        raise ClusterError(
            f"--workers must be at most {len(gpus)} with --cluster cuda, the number of GPUs "
            f"here, got {workers}; leave it out for all of them"
        )
    from dask_cuda import LocalCUDACluster

    pool: dict[str, Any] = {}
    if options.rmm_pool is not None:
        pool = {
            "rmm_pool_size": options.rmm_pool,
            "rmm_allocator_external_lib_list": takers_of_rmm(),
            "rmm_track_allocations": True,  # who plans with free memory asks what the pool has
        }
    return on_this_machine.open_client(
        options,
        LocalCUDACluster,
        n_workers=workers,
        threads_per_worker=1,
        # What Dask stores is in use to the end; the rest lives in the solvers.
        device_memory_limit=None,
        **pool,
    )
