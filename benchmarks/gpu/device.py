"""What GPUs there are, asked of the driver's own library: no package is needed for it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

MIB = 2**20
NAME_BYTES = 256


@dataclass(frozen=True)
class Gpu:
    """A device that CUDA programs started here may use."""

    name: str
    memory_mib: int


@dataclass(frozen=True)
class Driver:
    """The driver's version, and the newest CUDA it can run."""

    version: str | None
    cuda: str | None


def gpus() -> list[Gpu]:
    """The GPUs that CUDA sees (``CUDA_VISIBLE_DEVICES`` applies), none without a driver."""
    cuda = _library("libcuda.so.1")
    if cuda is None or cuda.cuInit(0) != 0:
        return []
    count = ctypes.c_int()
    if cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    return [_gpu(cuda, index) for index in range(count.value)]


def _gpu(cuda: ctypes.CDLL, index: int) -> Gpu:
    device, memory = ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(NAME_BYTES)
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetName(name, NAME_BYTES, device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    return Gpu(name.value.decode(), memory.value // MIB)


def driver() -> Driver:
    """Versions of the driver, as far as its libraries tell them."""
    return Driver(_driver_version(), _cuda_version())


def _cuda_version() -> str | None:
    cuda = _library("libcuda.so.1")
    version = ctypes.c_int()
    if cuda is None or cuda.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def _driver_version() -> str | None:
    nvml = _library("libnvidia-ml.so.1")
    if nvml is None or nvml.nvmlInit_v2() != 0:
        return None
    text = ctypes.create_string_buffer(NAME_BYTES)
    status = nvml.nvmlSystemGetDriverVersion(text, NAME_BYTES)
    nvml.nvmlShutdown()
    return text.value.decode() if status == 0 else None


def _library(name: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None
