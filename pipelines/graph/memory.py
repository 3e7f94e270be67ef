"""Memory that was used and is free goes back to the system."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pyarrow as pa


@contextmanager
def memory_given_back() -> Iterator[None]:
    """Afterwards pyarrow and the C library keep none of the memory that was used and is free.

    They keep hundreds of MB by default, and Dask pauses a worker for what its process holds.
    """
    try:
        yield
    finally:
        pa.default_memory_pool().release_unused()
        if trim := _malloc_trim():
            trim(0)


@lru_cache(maxsize=1)
def _malloc_trim() -> Any:
    """glibc's; other C libraries have none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
