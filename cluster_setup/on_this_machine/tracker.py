"""Python's resource tracker may be killed, and its successor told what it knew.

It is a process of multiprocessing that unlinks the semaphores of a program that is killed. When it
is itself, by a machine short of memory, Python starts another, which prints a traceback for each
semaphore of a worker that is let go later and of which it has not heard.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from multiprocessing import resource_tracker
from typing import Any


@cache
def remember() -> None:
    """Start the tracker, and keep in mind what it is told from now on."""
    tracker: Any = resource_tracker._resource_tracker
    known: set[tuple[str, str]] = set()
    warnings.filterwarnings("ignore", "resource_tracker: process died unexpectedly")
    tracker.ensure_running()

    def telling(tell: Callable[[str, str], None], note: Callable[[Any], None]) -> Any:
        def told(name: str, kind: str) -> None:
            # Without a lock, for a name may be let go anywhere by the garbage collector: to tell
            # a tracker twice does no harm.
            pid = tracker._pid
            tracker.ensure_running()
            if tracker._pid != pid:
                for one in list(known):
                    tracker.register(*one)
            note((name, kind))
            tell(name, kind)

        return told

    # multiprocessing looks them up by these names, each time.
    resource_tracker.register = telling(tracker.register, known.add)
    resource_tracker.unregister = telling(tracker.unregister, known.discard)
