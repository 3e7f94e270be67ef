"""The GPU, or numba's simulator in its place: arrays, memory, launches and limits."""

import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numba import cuda
from numba.cuda.core.errors import NumbaPerformanceWarning

from pipelines.data.placement import unused_in_pool
from pipelines.svm.cuda.block import SIMULATED

_Item = TypeVar("_Item")

# Bytes of shared memory that a block has on every CUDA GPU without an attribute set.
_SHARED_FOR_ALL = 48 << 10

# Bytes of shared memory that the system reserves in each resident block.
RESERVED_SHARED = 1 << 10

# Messages of CUDA, cupy and cuBLAS for used-up memory where they raise no ``MemoryError``.
_NO_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "ALLOC_FAILED"

# Compute capabilities whose float64 rate is half the float32 rate.
_FAST_FLOAT64 = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0), (10, 3)}


@dataclass(frozen=True)
class Limits:
    """The limits of a device.

    Attributes
    ----------
    n_multiprocessors : int
        Number of multiprocessors, which run blocks concurrently.
    shared_block, shared_multiprocessor : int
        Bytes of shared memory per block and per multiprocessor.
    registers : int
        Registers per multiprocessor.
    fast_float64 : bool
        Whether products in float64 take at most twice as long as in float32.
    """

    n_multiprocessors: int
    shared_block: int
    shared_multiprocessor: int
    registers: int
    fast_float64: bool


def array_module(xp: Any = None) -> Any:
    """``xp`` itself, or by default cupy, or numpy under the simulator."""
    if xp is not None:
        return xp
    if SIMULATED:
        return np
    import cupy

    return cupy


def limits() -> Limits:
    """The limits of the current device; for the simulator, those of one small multiprocessor."""
    if SIMULATED:
        return Limits(1, _SHARED_FOR_ALL, 2 * _SHARED_FOR_ALL, 1 << 16, True)
    device = cuda.get_current_device()
    return Limits(
        device.MULTIPROCESSOR_COUNT,
        device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        device.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        device.MAX_REGISTERS_PER_MULTIPROCESSOR,
        tuple(device.compute_capability)[:2] in _FAST_FLOAT64,
    )


@cache
def _pool(xp: Any) -> Any:
    return xp.cuda.MemoryPool()


@contextmanager
def own_memory(xp: Any) -> Iterator[None]:
    """Allocate this thread's arrays from a pool of its own, which is emptied at the end.

    RAPIDS, once imported, replaces cupy's pool with plain ``cudaMalloc`` for the whole process:
    scoring would then wait for the device at every temporary array. If RMM has a pool, arrays come
    from that one.
    """
    if xp is np or unused_in_pool() is not None:
        yield
        return
    xp.get_default_memory_pool().free_all_blocks()
    pool = _pool(xp)
    with xp.cuda.using_allocator(pool.malloc):
        try:
            yield
        finally:
            pool.free_all_blocks()


def in_own_memory(xp: Any, items: Generator[_Item]) -> Iterator[_Item]:
    """Run a generator with ``own_memory``, but its caller, between two items, without."""
    try:
        while True:
            with own_memory(xp):
                item = next(items, None)
            if item is None:
                return
            yield item
    finally:
        with own_memory(xp):
            items.close()


def is_device_out_of_memory(error: Exception) -> bool:
    """Whether an error means that the device's memory is used up."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY)


def free_bytes(xp: Any) -> int:
    """Bytes of free device memory, with what is free in our pool; 1 GiB under the simulator.

    With an RMM pool, the larger of the free bytes in it and on the device, as an array lies in one
    of them.
    """
    if xp is np:
        return 1 << 30
    free, pooled = xp.cuda.Device().mem_info[0], unused_in_pool()
    return free + _pool(xp).free_bytes() if pooled is None else max(free, pooled)


def synchronise(xp: Any) -> None:
    """Wait for all work on the device to finish."""
    if xp is not np:
        xp.cuda.get_current_stream().synchronize()


def _provide_shared(kernel: Any, arguments: list, n_bytes: int) -> None:
    """Let a kernel use so much dynamic shared memory, and several of its blocks run at once.

    More than 48 KiB has to be requested. The driver guesses how much of a multiprocessor's memory
    is shared memory and how much is cache, unless it is told, and might leave room for one block
    where several were planned.

    numba-cuda has no public function for it (its issue 94): this sets attributes of the compiled
    kernel as its own ``set_shared_memory_carveout`` does.
    """
    from cuda.bindings import driver

    compiled = kernel.compile(tuple(kernel.typeof_pyval(a) for a in arguments))
    function = compiled._codelibrary.get_cufunc()
    names = driver.CUfunction_attribute
    for attribute, value in (
        (names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, n_bytes),
        (names.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100),  # per cent
    ):
        (code,) = driver.cuKernelSetAttribute(
            attribute, value, driver.CUkernel(int(function.handle)), function.device.id
        )
        if code != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"the driver refused {attribute.name} = {value}: {code}")


def launch(kernel: Any, grid: Any, block_size: int, arguments: list, shared_bytes: int = 0) -> None:
    """Start a kernel on the default stream, which cupy and numba share.

    Parameters
    ----------
    kernel : numba kernel
    grid : int or tuple of int
        The number of blocks.
    block_size : int
        Threads per block.
    arguments : list
        Numbers and cupy arrays; under the simulator numpy arrays.
    shared_bytes : int, default 0
        Bytes of dynamic shared memory per block.
    """
    if SIMULATED:
        kernel[grid, block_size, 0, shared_bytes](*arguments)
        return
    arguments = [
        cuda.as_cuda_array(a, sync=False) if hasattr(a, "__cuda_array_interface__") else a
        for a in arguments
    ]
    if shared_bytes:
        _provide_shared(kernel, arguments, shared_bytes)
    with warnings.catch_warnings():
        # numba warns about grids of few blocks, which are right for small problems.
        warnings.simplefilter("ignore", NumbaPerformanceWarning)
        kernel[grid, block_size, 0, shared_bytes](*arguments)
