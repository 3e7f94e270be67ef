"""``--cluster cuda``: one worker for each GPU of this machine, by dask-cuda.

This is the only file that knows dask-cuda.
"""

from __future__ import annotations

import importlib.util
import os
import re
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from cluster_setup import on_this_machine
from cluster_setup.errors import ClusterError
from cluster_setup.installation import install_line
from cluster_setup.on_this_machine import devices
from cluster_setup.on_this_machine.devices import Gpu
from cluster_setup.options import ClusterOptions
from cluster_setup.settings import BY_BUS, ORDER, takers_of_rmm

if TYPE_CHECKING:
    from distributed import Client


def is_installed() -> bool:
    """Whether dask-cuda can be imported."""
    return importlib.util.find_spec("dask_cuda") is not None


def open_client(options: ClusterOptions) -> AbstractContextManager[Client]:
    """Open a client of one worker per GPU, each of which runs one task at a time."""
    gpus = devices.visible_gpus()
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
    if lack := devices.driver_lack():
        raise ClusterError(
            f"--cluster cuda cannot use the GPUs here: {lack.why}; "
            f"{lack.or_else('use --cluster local')}"
        )
    gpus = _of_use(gpus, options)
    if options.workers is not None and options.workers > len(gpus):
        raise ClusterError(
            f"--workers must be at most {len(gpus)} with --cluster cuda, the number of GPUs that "
            f"can be used here, got {options.workers}; leave it out for all of them"
        )
    gpus = gpus[: options.workers]
    from dask_cuda import LocalCUDACluster

    pool: dict[str, Any] = {}
    if options.rmm_pool is not None:
        pool = {
            "rmm_pool_size": _pool_size(options.rmm_pool, gpus),
            "rmm_allocator_external_lib_list": takers_of_rmm(),
            "rmm_track_allocations": True,  # plans ask the pool how much memory is free
        }
    return on_this_machine.open_client(
        options,
        LocalCUDACluster,
        # UUIDs mean the same to CUDA and to NVML, with which dask-cuda looks GPUs up.
        CUDA_VISIBLE_DEVICES=[gpu.uuid for gpu in gpus],
        threads_per_worker=1,
        # No spilling: what Dask stores is in use to the end, and solvers hold the rest.
        device_memory_limit=None,
        **pool,
    )


def _of_use(gpus: list[Gpu], options: ClusterOptions) -> list[Gpu]:
    """The GPUs that can be used; prints which are left out, and why.

    Raises
    ------
    ClusterError
        No GPU can be used, or the environment does not tell which are meant.
    """
    order, entries = os.environ.get(ORDER, BY_BUS), os.environ.get(devices.VISIBLE, "")
    if order != BY_BUS and re.search(r"(^|,)\s*\d", entries):
        raise ClusterError(
            f"--cluster cuda cannot tell which GPUs {devices.VISIBLE}={entries} means where "
            f"{ORDER} is {order}; unset that, and GPUs have the numbers that nvidia-smi gives "
            "them, or name them by UUID (nvidia-smi -L)"
        )
    lacks = {gpu: lack for gpu in gpus if (lack := devices.gpu_lack(gpu))}
    left_out = {gpu: lack.why for gpu, lack in lacks.items()}
    if len(lacks) == len(gpus):
        newest = max(gpus, key=lambda gpu: gpu.capability)
        raise ClusterError(
            f"--cluster cuda cannot use the GPUs here: {devices.reasons_in_words(left_out)}; "
            f"{lacks[newest].or_else('use --cluster local')}"
        )
    gpus = [gpu for gpu in gpus if gpu not in lacks]
    sizes = {gpu: gpu.memory for gpu in gpus if gpu.memory}
    if len({*sizes.values()}) > 1:
        small = {gpu: why for gpu, size in sizes.items() if (why := options.too_small(size))}
        if len(small) < len(gpus):  # if all are too small, the tasks say so
            left_out |= small
            gpus = [gpu for gpu in gpus if gpu not in small]
    if left_out:
        options.echo(f"left out   {devices.reasons_in_words(left_out)}")
    return gpus


def _pool_size(size: str, gpus: list[Gpu]) -> str | int:
    """The size of a pool for dask-cuda, which takes a fraction to be of the GPU, not of a slice."""
    if size.startswith("0.") and any(gpu.is_slice for gpu in gpus):
        return int(float(size) * min(gpu.memory or 0 for gpu in gpus))
    return size
