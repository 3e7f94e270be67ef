"""Cores are never oversubscribed: what an estimator starts is what its worker has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

JOBS = "n_jobs"


def with_jobs(estimator: Any, n_jobs: int) -> Any:
    """Return the estimator with every ``n_jobs`` in it set.

    Parameters
    ----------
    estimator : unfitted; it is changed
    n_jobs : int, threads or processes; -1 for all that joblib's backend has
    """
    found = [
        name
        for name, value in estimator.get_params(deep=True).items()
        if name.rsplit("__", 1)[-1] == JOBS and value != n_jobs
    ]
    return estimator.set_params(**dict.fromkeys(found, n_jobs)) if found else estimator


@contextmanager
def limited(n_threads: int, inner_jobs: str = "worker") -> Iterator[None]:
    """Limit BLAS and OpenMP to so many threads; joblib to threads, or to all workers of Dask.

    Parameters
    ----------
    inner_jobs : "worker", or "dask": only within a task of Dask
    """
    from joblib import parallel_config
    from threadpoolctl import threadpool_limits

    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(n_threads))
        if inner_jobs == "dask":
            from distributed import worker_client

            stack.enter_context(worker_client())  # its thread is free for the tasks it waits for
            stack.enter_context(parallel_config("dask"))
        else:
            # A process for each job would start a Python and copy the rows.
            stack.enter_context(parallel_config("threading", n_jobs=n_threads))
        yield
