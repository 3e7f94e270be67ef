"""A GPU to compile for where none need be there.

numba-cuda compiles a kernel when it is first launched, for the card it is launched on. Here a
card stands in that says what a real one would say of itself, takes what was compiled, and
notes the launch in place of making it. Everything before is numba-cuda's own and ours: the
types of the arguments, NVVM, link-time optimisation by nvJitLink, the cache on disk. What a
card would still do is load the cubin and run it.

Where nvJitLink is not installed numba-cuda leaves the linking to the driver; then ptxas,
which is what the driver has in it, takes its place.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
from cuda.bindings import driver as bindings
from cuda.pathfinder import find_nvidia_binary_utility
from numba import cuda
from numba.cuda import dispatcher
from numba.cuda.cudadrv import devices, driver

# What cards say of themselves (CUDA C++ Programming Guide, compute capabilities): a T4, an A100, an
# A10, an L40, an H100, a B200 and an RTX PRO 6000.
CARDS: dict[tuple[int, int], dict[str, int]] = {
    capability: {
        "MULTIPROCESSOR_COUNT": n_multiprocessors,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": (shared_kib - 1 if shared_kib > 64 else 64) << 10,
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": shared_kib << 10,
        "MAX_REGISTERS_PER_MULTIPROCESSOR": 1 << 16,
        "MAX_THREADS_PER_MULTIPROCESSOR": 32 * n_warps,
        "MAX_BLOCKS_PER_MULTIPROCESSOR": n_blocks,
    }
    for capability, n_multiprocessors, shared_kib, n_warps, n_blocks in (
        ((7, 5), 40, 64, 32, 16),
        ((8, 0), 108, 164, 64, 32),
        ((8, 6), 72, 100, 48, 16),
        ((8, 9), 142, 100, 48, 24),
        ((9, 0), 132, 228, 64, 32),
        ((10, 0), 148, 228, 64, 32),
        ((12, 0), 188, 100, 48, 24),
    )
}


class Device:
    """What numba-cuda's own class of this name answers, and nothing else."""

    id = 0

    def __init__(self, capability):
        self.compute_capability = capability

    def __getattr__(self, name):
        if not hasattr(bindings.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"):
            raise AttributeError(f"a CUDA device has no {name}")
        return CARDS[self.compute_capability][name]


class Context:
    """Takes cubins; ``cubins`` holds them by their kernel's name."""

    def __init__(self, device):
        self.device = device
        self.cubins: dict[str, bytes] = {}

    def create_module_image(self, cubin, *_):
        module = SimpleNamespace(initialized=True)

        def get_function(name):
            self.cubins[name] = cubin.code
            return SimpleNamespace(module=module, handle=1, device=self.device)

        module.get_function = get_function
        return module


@dataclasses.dataclass(frozen=True)
class Launch:
    """A launch as it would have been made.

    kernel : its name; max_registers : of a thread, None where there is no limit
    n_blocks, block_size : blocks of the grid, and threads of a block
    shared : bytes of dynamic shared memory
    log : what the linker said of the kernel
    """

    kernel: str
    max_registers: int | None
    n_blocks: int
    block_size: int
    shared: int
    log: str

    def _figure(self, pattern):
        match = re.search(pattern, self.log)
        return int(match.group(1)) if match else 0

    @property
    def registers(self):
        """Of a thread."""
        return self._figure(r"Used (\d+) registers")

    @property
    def own_shared(self):
        """Bytes of shared memory of a fixed size."""
        return self._figure(r"(\d+) bytes smem")

    @property
    def spilled(self):
        """Bytes that instructions store in memory for want of registers, and load again."""
        return self._figure(r"(\d+) bytes spill stores") + self._figure(r"(\d+) bytes spill loads")


class _Ptxas:
    """In the place of the driver's linker."""

    def __init__(self, linker):
        limit = linker.max_registers or 255
        with tempfile.TemporaryDirectory() as folder:
            source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
            source.write_bytes(linker._object_codes[0].code)
            done = subprocess.run(
                [
                    find_nvidia_binary_utility("ptxas"),
                    f"-arch={linker.arch}",
                    "-v",
                    "--maxrregcount",
                    str(limit),
                    source,
                    "-o",
                    cubin,
                ],
                capture_output=True,
                text=True,
            )
            if done.returncode:
                raise RuntimeError(done.stderr)
            self.code, self.log = cubin.read_bytes(), done.stderr


def _complete_by_ptxas(linker):
    done = _Ptxas(linker)
    linker.linker, linker._complete = done, True
    linker._info_log, linker._error_log = done.log, ""
    return done


def _with_figures(options):
    """The linker's options, and that it is to say what a kernel takes."""
    return dataclasses.replace(options, verbose=True, ptxas_options=["-v"])


@contextmanager
def stand_in(capability):
    """A card of a compute capability; gives the launches that are noted, and its context."""
    context = Context(Device(capability))
    arch = (*capability, "a" if capability >= (9, 0) else "")
    launches = []

    def note(kernel, args, griddim, blockdim, stream=0, sharedmem=0):
        log = kernel._codelibrary._linkerinfo_cache.get(arch, "")
        name, limit = kernel.py_func.__qualname__.split(".")[0], kernel._codelibrary._max_registers
        launches.append(
            Launch(name, limit, int(np.prod(griddim)), int(np.prod(blockdim)), sharedmem, log)
        )

    own_options = driver._Linker._get_linker_options
    patches = [
        patch.object(cuda, "get_current_device", lambda: context.device),
        patch.object(dispatcher, "get_current_device", lambda: context.device),
        patch.object(devices, "get_context", lambda *_: context),
        patch.object(dispatcher._Kernel, "launch", note),
        patch.object(
            driver._Linker,
            "_get_linker_options",
            lambda linker, ptx: _with_figures(own_options(linker, ptx)),
        ),
        patch.object(
            bindings, "cuKernelSetAttribute", lambda *_: (bindings.CUresult.CUDA_SUCCESS,)
        ),
    ]
    if not driver._have_nvjitlink():
        patches.append(patch.object(driver._Linker, "complete", _complete_by_ptxas))
    for patcher in patches:
        patcher.start()
    try:
        yield launches, context
    finally:
        for patcher in reversed(patches):
            patcher.stop()
