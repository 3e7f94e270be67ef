"""Cores and GPUs that this process may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def available_cores() -> int:
    """Return how many cores this process may use: its affinity, its container, its job."""
    from joblib import cpu_count

    # Not every queue binds its jobs to the cores they asked for.
    asked = (os.environ.get(name, "") for name in ("SLURM_CPUS_PER_TASK", "NSLOTS", "NCPUS"))
    return min(
        [cpu_count(), *(int(number) for number in asked if number.isdigit() and int(number))]
    )


# What CUDA the packages of an extra bring, and the least driver and compute capability for them.
NEEDED = {"cupy-cuda13x": (13, 580, 7.5), "cupy-cuda12x": (12, 525, 7.0)}


def cuda_needs() -> str | None:
    """Return what driver or GPU the packages here need, and which is there; None if it will do."""
    if not _has_nvml():
        return None
    import pynvml

    def capability(handle: Any) -> str:
        return ".".join(map(str, pynvml.nvmlDeviceGetCudaComputeCapability(handle)))

    pynvml.nvmlInit()
    driver = str(pynvml.nvmlSystemGetDriverVersion())
    pynvml.nvmlShutdown()
    for package, (cuda, least, oldest) in NEEDED.items():
        with suppress(PackageNotFoundError):
            version(package)
            if int(driver.partition(".")[0]) < least:
                return f"CUDA {cuda} needs NVIDIA driver {least} or newer, found {driver}"
            for found in visible_gpus(capability):
                if found[0].isdigit() and float(found) < oldest:
                    return f"CUDA {cuda} needs compute capability {oldest} or newer, found {found}"
    return None


def visible_gpus(describe: Callable[[Any], str] | None = None) -> list[str]:
    """Return names of the GPUs this process may use: NVML's, less those CUDA hides.

    describe : what is told of NVML's handle of one in place of its name
    """
    if not _has_nvml():
        return []
    import pynvml

    pynvml.nvmlInit()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        names = [(describe or pynvml.nvmlDeviceGetName)(handle) for handle in handles]
        uuids = [pynvml.nvmlDeviceGetUUID(handle) for handle in handles]
    finally:
        pynvml.nvmlShutdown()
    return _restrict(names, uuids, os.environ.get("CUDA_VISIBLE_DEVICES"))


def gpu_memory_held() -> int | None:
    """The bytes of its GPU that this process holds, by NVML; None before it uses one.

    In a container, where NVML knows processes by other numbers: what all of them hold together.
    None, too, for a slice of a GPU.
    """
    torch = sys.modules.get("torch")
    uses_one = "cupy" in sys.modules or (torch is not None and torch.cuda.is_initialized())
    if not uses_one or not _has_nvml():
        return None
    import pynvml

    def held(handle: Any) -> str:
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        own = [one.usedGpuMemory or 0 for one in processes if one.pid == os.getpid()]
        return str(sum(own) or pynvml.nvmlDeviceGetMemoryInfo(handle).used)

    held_of_each = visible_gpus(held)
    return int(held_of_each[0]) if held_of_each and held_of_each[0].isdigit() else None


@cache
def _has_nvml() -> bool:
    """Return whether there is NVML: to look for its library takes longer than a small fit."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    pynvml.nvmlShutdown()
    return True


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
