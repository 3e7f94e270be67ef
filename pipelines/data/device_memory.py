"""Device memory that models of cuML hold on to."""

from __future__ import annotations

import gc
import sys


def free_unused() -> None:
    """Free the device memory of models that are gone.

    Models of cuML leave cycles, which hold memory until Python collects them, and cupy keeps what
    it frees for arrays of the same sizes. Once a task: collecting takes 0.2 s in a worker that has
    loaded torch and Dask.
    """
    gc.collect()
    if "cupy" in sys.modules:  # which cuML loads
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()
