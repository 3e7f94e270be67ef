"""Cores and GPUs that this process may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from ctypes import CDLL
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from cluster_setup.installation import install_line

VISIBLE = "CUDA_VISIBLE_DEVICES"


def available_cores() -> int:
    """The number of cores that this process may use, by its affinity, container and job."""
    from joblib import cpu_count

    # Not every queue binds its jobs to the cores they asked for.
    job_cores = (os.environ.get(name, "") for name in ("SLURM_CPUS_PER_TASK", "NSLOTS", "NCPUS"))
    return min(
        [cpu_count(), *(int(number) for number in job_cores if number.isdigit() and int(number))]
    )


# By a package of each extra: its CUDA version, and the driver and compute capability this needs.
NEEDED = {"cupy-cuda13x": (13, 580, (7, 5)), "cupy-cuda12x": (12, 525, (7, 0))}


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a slice of one (MIG).

    Attributes
    ----------
    name : str
    uuid : str
        The name by which CUDA, NVML and dask-cuda know it, whatever their numbering.
    memory : int or None
        Bytes; None if it has no memory of its own.
    capability : (int, int)
        CUDA compute capability.
    """

    name: str
    uuid: str
    memory: int | None
    capability: tuple[int, int]

    @property
    def is_slice(self) -> bool:
        """Whether this is a part of a GPU."""
        return self.uuid.startswith("MIG-")

    def __str__(self) -> str:
        size_text = f", {self.memory / 2**30:.0f} GiB" if self.memory else ""
        return f"{self.name}{size_text} ({self.uuid})"


def visible_gpus() -> list[Gpu]:
    """The GPUs that this process may use: NVML's without those CUDA hides; of a GPU its slices."""
    if not _has_nvml():
        return []
    with _nvml() as nvml:
        return [
            Gpu(
                nvml.nvmlDeviceGetName(handle),
                nvml.nvmlDeviceGetUUID(handle),
                _memory(nvml, handle),
                tuple(nvml.nvmlDeviceGetCudaComputeCapability(gpu)),
            )
            for handle, gpu in _visible(nvml)
        ]


@dataclass(frozen=True)
class Lack:
    """What the installed packages need and a machine or GPU lacks.

    Attributes
    ----------
    why : str
        The lack, in words.
    ways_out : tuple of str
        What the user can do about it; may be empty.
    """

    why: str
    ways_out: tuple[str, ...] = ()

    def or_else(self, way: str) -> str:
        """The ways out in words; the last one is ``way``, which is always possible."""
        return ", or ".join([*([", ".join(self.ways_out)] if self.ways_out else []), way])


def driver_lack() -> Lack | None:
    """The driver that the installed packages need and this machine lacks; None if it will do."""
    if (needs := _needed()) is None or not _has_nvml():
        return None
    with _nvml() as nvml:
        driver = str(nvml.nvmlSystemGetDriverVersion())
    cuda, least_driver, _ = needs
    if int(driver.partition(".")[0]) >= least_driver:
        return None
    why = f"CUDA {cuda} needs NVIDIA driver {least_driver} or newer, found {driver}"
    return Lack(why, ("update the driver", _older_cuda()))


def gpu_lack(gpu: Gpu) -> Lack | None:
    """The capability that the installed packages need and a GPU lacks; None if it will do."""
    if (needs := _needed()) is None or gpu.capability >= needs[2]:
        return None
    least, gpu_capability = (
        ".".join(map(str, capability)) for capability in (needs[2], gpu.capability)
    )
    why = f"CUDA {needs[0]} needs compute capability {least} or newer, found {gpu_capability}"
    return Lack(why, (_older_cuda(),) if gpu.capability >= NEEDED["cupy-cuda12x"][2] else ())


def cuda_lack() -> Lack | None:
    """What the installed packages need and the GPU of this process lacks; None if it will do."""
    if lack := driver_lack():
        return lack
    gpus = visible_gpus()
    lack = gpu_lack(gpus[0]) if gpus else None
    usable = [gpu.uuid for gpu in gpus if not gpu_lack(gpu)]
    return replace(lack, ways_out=(f"take {VISIBLE}={usable[0]}",)) if lack and usable else lack


def reasons_in_words(reasons: Mapping[Gpu, str]) -> str:
    """Why GPUs are left out, in words."""
    return "; ".join(f"{gpu}: {why}" for gpu, why in reasons.items())


def gpu_memory_held() -> int | None:
    """The bytes of its GPU that this process holds, by NVML; None before it uses one.

    In a container NVML knows processes by other numbers; then it is what all of them hold together.
    """
    torch = sys.modules.get("torch")
    uses_one = "cupy" in sys.modules or (torch is not None and torch.cuda.is_initialized())
    if not uses_one or not _has_nvml():
        return None
    with _nvml() as nvml:
        for handle, _ in _visible(nvml):
            processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            own_bytes = [
                process.usedGpuMemory or 0 for process in processes if process.pid == os.getpid()
            ]
            return sum(own_bytes) or int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
    return None


def _older_cuda() -> str:
    return f"run {install_line('gpu-cu12', anew=True)} in an environment of its own"


def _needed() -> tuple[int, int, tuple[int, int]] | None:
    """The entry of ``NEEDED`` for the package that is installed; None if there is none."""
    for package, needed in NEEDED.items():
        with suppress(PackageNotFoundError):
            version(package)
            return needed
    return None


@cache
def _has_nvml() -> bool:
    """Whether NVML works here; cached, as the search for its library outlasts a small fit."""
    if sys.platform == "linux" and "pynvml" not in sys.modules:
        try:
            CDLL("libnvidia-ml.so.1")  # as pynvml does, whose import takes longer than many fits
        except OSError:
            return False
    import pynvml

    try:
        with _nvml():
            return True
    except pynvml.NVMLError:
        return False


@contextmanager
def _nvml() -> Iterator[Any]:
    import pynvml

    pynvml.nvmlInit()
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _memory(nvml: Any, handle: Any) -> int | None:
    with suppress(nvml.NVMLError):  # a system on a chip has no memory of its own
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    return None


def _visible(nvml: Any) -> list[tuple[Any, Any]]:
    """The handles of what CUDA lets this process use, each with the handle of its whole GPU."""
    names = dict[str, list[tuple[Any, Any]]]()  # by every name that CUDA accepts
    all_parts = []
    for index in range(nvml.nvmlDeviceGetCount()):
        gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = nvml.nvmlDeviceGetUUID(gpu)
        slices = _slices(nvml, gpu)
        parts = [(gpu, gpu)] if slices is None else [(part, gpu) for part in slices]
        all_parts += parts
        names |= {str(index): parts, uuid: parts}
        for part in slices or ():
            names[nvml.nvmlDeviceGetUUID(part)] = [(part, gpu)]
            ids = nvml.nvmlDeviceGetGpuInstanceId(part), nvml.nvmlDeviceGetComputeInstanceId(part)
            names["MIG-{}/{}/{}".format(uuid, *ids)] = [(part, gpu)]  # a former form
    entries = os.environ.get(VISIBLE)
    if entries is None:
        return all_parts
    visible_parts = []
    for entry in map(str.strip, entries.split(",")):
        start = str(int(entry)) if entry.isdigit() else entry or "none"
        matches = next((parts for name, parts in names.items() if name.startswith(start)), [])
        if not matches:  # CUDA, too, ignores everything from the first invalid entry on
            break
        visible_parts += [part for part in matches if part not in visible_parts]
    return visible_parts


def _slices(nvml: Any, gpu: Any) -> list[Any] | None:
    """The handles of the slices (MIG) of a GPU; None if it is not sliced."""
    try:
        if not nvml.nvmlDeviceGetMigMode(gpu)[0]:
            return None
    except nvml.NVMLError:  # a GPU that cannot be sliced
        return None
    slices = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        with suppress(nvml.NVMLError):  # fewer slices than the maximum
            slices.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index))
    return slices
