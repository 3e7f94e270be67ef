"""Cores are never oversubscribed: what an estimator starts is what its worker has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

JOBS = "n_jobs"


def with_jobs(estimator: Any, n_jobs: int) -> Any:
    """Return the estimator with every ``n_jobs`` in it set.

    Parameters
    ----------
    estimator : unfitted; it is changed
    n_jobs : int, threads or processes
    """
    found = [
        name
        for name, value in estimator.get_params(deep=True).items()
        if name.rsplit("__", 1)[-1] == JOBS and value != n_jobs
    ]
    return estimator.set_params(**dict.fromkeys(found, n_jobs)) if found else estimator


@contextmanager
def limited(n_threads: int) -> Iterator[None]:
    """Limit BLAS, OpenMP and joblib to so many threads."""
    from joblib import parallel_config
    from threadpoolctl import threadpool_limits

    # A process for each job would start a Python and copy the rows.
    with threadpool_limits(n_threads), parallel_config("threading", n_jobs=n_threads):
        yield
