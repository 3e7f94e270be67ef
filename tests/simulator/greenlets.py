"""numba's simulator with a greenlet for each CUDA thread, in place of a thread of Python's.

A CUDA thread runs until it waits at a barrier, then the next one does; when all wait, all go on.
Nothing is polled, and each run is the same. From barrier to barrier the order of a block's threads
is reversed, so that where a barrier is missing between a value's writing and its reading, some
thread reads too early.
"""

from __future__ import annotations

import sys
import threading

import numpy as np
from greenlet import GreenletExit, getcurrent, greenlet
from numba.core import types
from numba.cuda.simulator import kernel, kernelapi
from numba.np import numpy_support


class _Thread(kernel.BlockThread):
    """One CUDA thread, as the simulator asks it; no thread of Python's is made."""

    def __init__(self, block, block_at, thread_at):
        self._manager = block
        self.blockIdx = kernelapi.Dim3(*block_at)
        self.threadIdx = kernelapi.Dim3(*thread_at)
        x, y, z = thread_at
        width, height, _ = block.size
        self.thread_id = x + width * (y + height * z)
        self.running = greenlet(block.function)

    def syncthreads(self):
        self.running.parent.switch()


class _Block:
    """All threads of a block, to their end."""

    at_work: _Thread | None = None

    def __init__(self, function, grid_dim, block_dim, debug):
        self.function, self.size = function, block_dim
        self.block_state = np.zeros(block_dim, dtype=np.bool_)

    def run(self, grid_point, *args):
        assert getcurrent().parent is None, "a kernel was launched within a kernel"
        alive = [_Thread(self, grid_point, at) for at in np.ndindex(*self.size)]
        arguments = dict.fromkeys(alive, args)
        try:
            while alive:
                for thread in alive:
                    _Block.at_work = thread
                    thread.running.switch(*arguments.pop(thread, ()))
                alive = [thread for thread in reversed(alive) if not thread.running.dead]
        finally:
            for thread in alive:  # one has failed: so do the others, before whoever called goes on
                _Block.at_work = thread
                thread.running.throw(GreenletExit)
            _Block.at_work = None


def _shared_array(self, shape, dtype, alignment=None):
    """As the simulator's own, which reads the source of the whole stack to know who asks."""
    dtype = numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else np.dtype(dtype)
    if shape == 0:
        count = self._dynshared_size // dtype.itemsize
        return np.frombuffer(self._dynshared.data, dtype=dtype, count=count)
    caller = sys._getframe(1)
    call_site = caller.f_code, caller.f_lineno
    if call_site not in self._allocations:
        self._allocations[call_site] = np.empty(shape, dtype)
    return self._allocations[call_site]


def install():
    """For the rest of the process."""
    kernel.BlockManager = _Block
    kernelapi.FakeCUDAShared.array = _shared_array
    pythons = threading.current_thread
    threading.current_thread = lambda: _Block.at_work or pythons()
