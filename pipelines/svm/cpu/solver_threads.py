"""Threads and memory of a call: our threads solve problems; BLAS runs on its caller's thread."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from pipelines.svm.cpu.exact import ExactKernel
from pipelines.svm.cpu.smo import MAX_ROWS
from pipelines.svm.kernel import Kernel


@cache
def _blas(with_scipy: bool) -> ThreadpoolController:
    """The BLAS libraries of numpy, and of scipy once that is loaded, to limit their threads.

    Cached, as looking for them takes longer than a small search.
    """
    return ThreadpoolController()


class CallersThread(Executor):
    """A pool that runs calls on the caller's thread: starting a thread takes longer than a fit."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Make the call at once; its future is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **named))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def open_pool(n_threads: int | None) -> Iterator[Executor]:
    """A pool of ``n_threads``, or one per core; BLAS is limited to one thread inside it."""
    threads = n_threads or len(os.sched_getaffinity(0))
    # BLAS's own threads would spin between calls, and take the cores from ours.
    blas = _blas("scipy.linalg" in sys.modules)
    pool = ThreadPoolExecutor(threads) if threads > 1 else CallersThread()
    # Setting a limit that is already in force takes longer than looking.
    free = any(
        controller.num_threads > 1
        for controller in blas.lib_controllers
        if controller.user_api == "blas"
    )
    try:
        with blas.limit(limits=1, user_api="blas") if free else nullcontext(), pool:
            yield pool
    finally:
        vars(_local).clear()  # scratch memory of this thread, if it was the pool's


_local = threading.local()


def scratch(name: str, n: int, width: int, dtype: type = np.float64) -> np.ndarray:
    """The work space of this name and thread, of shape (n, width), not initialised.

    It is kept from one problem to the next, as getting fresh pages costs as much as filling them.
    A name has one ``dtype``.
    """
    flat = getattr(_local, name, None)
    if flat is None or flat.size < n * width:
        flat = np.empty(n * width, dtype)
        setattr(_local, name, flat)
    return flat[: n * width].reshape(n, width)


@dataclass(frozen=True)
class Resources:
    """The threads, and the bytes of memory for kernel matrices, that a call may use."""

    pool: Executor
    memory_bytes: int

    @property
    def n_threads(self) -> int:
        """Threads of the pool; 1 for the caller's."""
        return int(getattr(self.pool, "_max_workers", 1))

    def exact_kernel(
        self, rows: np.ndarray, kernel: Kernel, exact_cache: dict[str, Any] | None = None
    ) -> ExactKernel | None:
        """The kernel in double precision, in half of the memory, for the walks of all threads.

        None if the kernel may not be positive definite.
        """
        if not kernel.is_definite:
            return None
        return ExactKernel(rows, kernel, self.memory_bytes // 2, self.n_threads, exact_cache)


def fits_in_memory(n: int, memory_bytes: int) -> bool:
    """Whether the products of all rows and one kernel fit in memory together."""
    return n <= MAX_ROWS and 2 * 4 * n * n <= 0.8 * memory_bytes
