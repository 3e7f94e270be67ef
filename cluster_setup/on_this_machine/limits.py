"""The time limit that the start of Dask's clusters of one machine lacks."""

from __future__ import annotations

from functools import cache
from typing import Any

from cluster_setup import closing

SECONDS_TO_START = 300  # on a busy machine a minute is usual


@cache
def in_time(base: Any) -> Any:
    """A cluster class whose start raises TimeoutError where Dask would wait for ever.

    It does when a worker cannot even be begun: its nanny closes, and then waits for its own
    closing (``Nanny.start_unsafe``, distributed 2026.7).

    Parameters
    ----------
    base : subclass of SpecCluster
    """

    class InTime(base):
        def sync(self, *what: Any, callback_timeout: float | None = None, **how: Any) -> Any:
            limit = SECONDS_TO_START if callback_timeout is None else callback_timeout
            return super().sync(*what, callback_timeout=limit, **how)

        def close(self, timeout: float | None = None) -> Any:
            return super().close(closing.SECONDS_TO_CLOSE if timeout is None else timeout)

    InTime.__name__ = base.__name__  # the dashboard shows it
    return InTime
