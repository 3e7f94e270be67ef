"""Threads and memory of a call: our threads run the problems, BLAS stays on its caller's."""

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
    """Return the libraries of numpy, and of scipy where it is loaded, whose threads can be limited.

    To look for them takes longer than a small search.
    """
    return ThreadpoolController()


class CallersThread(Executor):
    """A pool of the caller's thread: to start one of its own takes longer than a small fit."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Return the finished future of a call."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **named))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def open_pool(n_threads: int | None) -> Iterator[Executor]:
    """Open a pool of ``n_threads`` (None: one for every core of this process)."""
    threads = n_threads or len(os.sched_getaffinity(0))
    # BLAS's own threads spin between calls and take the cores from ours.
    blas = _blas("scipy.linalg" in sys.modules)
    pool = ThreadPoolExecutor(threads) if threads > 1 else CallersThread()
    # To set a limit that is there takes longer than to look.
    free = any(
        controller.num_threads > 1
        for controller in blas.lib_controllers
        if controller.user_api == "blas"
    )
    try:
        with blas.limit(limits=1, user_api="blas") if free else nullcontext(), pool:
            yield pool
    finally:
        vars(_local).clear()  # the caller's, if that was the pool's thread


_local = threading.local()


def scratch(name: str, n: int, width: int, dtype: type = np.float64) -> np.ndarray:
    """This thread's (n, width) work space of a name.

    It is kept between the problems of a pool: fresh pages cost as much as filling them.
    """
    flat = getattr(_local, name, None)
    if flat is None or flat.size < n * width:
        flat = np.empty(n * width, dtype)
        setattr(_local, name, flat)
    return flat[: n * width].reshape(n, width)


@dataclass(frozen=True)
class Resources:
    """The threads and the memory that a call may use.

    memory_bytes : for kernel matrices
    """

    pool: Executor
    memory_bytes: int

    @property
    def n_threads(self) -> int:
        return int(getattr(self.pool, "_max_workers", 1))

    def exact_kernel(
        self, rows: np.ndarray, kernel: Kernel, exact_cache: dict[str, Any] | None = None
    ) -> ExactKernel | None:
        """Return half of the memory, in double precision, for the walks of all threads.

        None where the kernel may not be positive definite.
        """
        if not kernel.is_definite:
            return None
        return ExactKernel(rows, kernel, self.memory_bytes // 2, self.n_threads, exact_cache)


def fits_in_memory(n: int, memory_bytes: int) -> bool:
    """Return whether shared products and one kernel of all rows fit in memory together."""
    return n <= MAX_ROWS and 2 * 4 * n * n <= 0.8 * memory_bytes
