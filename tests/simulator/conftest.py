"""The CUDA kernels run in numba's simulator, which is chosen when numba is imported.

That concerns a whole process: ``make test`` runs this folder by itself.
"""

import os
import sys
import threading

if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
    raise RuntimeError("run these tests as NUMBA_ENABLE_CUDASIM=1 python -m pytest tests/simulator")
from numba.cuda.simulator import kernelapi


class _MadeOnce(dict):
    """A block's shared arrays. The simulator looks for one and makes it in two steps:
    between them another thread may make a second one, and then the two share nothing.
    """

    def __init__(self):
        self._maker = threading.Lock()

    def get(self, place, default=None):
        self._maker.acquire()
        found = super().get(place, default)
        if found is not None:
            self._maker.release()
        return found

    def __setitem__(self, place, array):
        super().__setitem__(place, array)
        self._maker.release()


_begin = kernelapi.FakeCUDAShared.__init__


def _begin_with_a_lock(self, size):
    _begin(self, size)
    self._allocations = _MadeOnce()


kernelapi.FakeCUDAShared.__init__ = _begin_with_a_lock
# The simulator runs a thread per CUDA thread: hand over between them often.
sys.setswitchinterval(1e-5)
