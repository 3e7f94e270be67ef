"""Threads: ours run the problems, and BLAS stays on the thread that calls it."""

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext


def _one_blas_thread() -> AbstractContextManager[object]:
    """BLAS's own threads spin between calls and take the cores from ours."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    return threadpool_limits(1, user_api="blas")


@contextmanager
def open_pool(n_threads: int | None) -> Iterator[Executor]:
    """A pool of ``n_threads`` (None: every core this process may use)."""
    threads = n_threads or len(os.sched_getaffinity(0))
    with _one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        yield pool
