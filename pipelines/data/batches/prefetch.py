"""Prefetch the items of an iterator in a background thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

SECONDS_TO_LOOK = 0.1

T = TypeVar("T")


def prefetch(items: Iterator[T], n_ahead: int, name: str) -> Generator[T, None, None]:
    """Yield the same items, made by a thread of this name; it ends with whoever takes them.

    Parameters
    ----------
    n_ahead : that wait at the most; the thread holds one more, which it has just made
    """
    handed: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(n_ahead)
    left = threading.Event()

    def hand(item: tuple[T] | BaseException | None) -> None:
        while not left.is_set():
            try:
                handed.put(item, timeout=SECONDS_TO_LOOK)
                return
            except queue.Full:
                continue

    def make() -> None:
        try:
            for item in items:
                hand((item,))
                if left.is_set():
                    return
            hand(None)
        except BaseException as error:  # it is the taker's
            hand(error)

    thread = threading.Thread(target=make, name=name, daemon=True)
    thread.start()
    try:
        while (item := handed.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        left.set()
        thread.join()
