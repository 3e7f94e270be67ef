"""Prefetch the items of an iterator in a background thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def prefetch(items: Iterator[T], n_ahead: int, name: str) -> Generator[T, None, None]:
    """Yield the same items, made ahead by a thread of this name; it ends with its consumer.

    torch's ``DataLoader`` makes batches ahead in processes alone, each with rows of its own.
    """
    pool, end = ThreadPoolExecutor(1, name), object()
    ahead: deque[Any] = deque(pool.submit(next, items, end) for _ in range(n_ahead))
    try:
        while (item := ahead.popleft().result()) is not end:
            ahead.append(pool.submit(next, items, end))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
