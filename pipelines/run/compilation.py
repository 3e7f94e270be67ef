"""How long a unit's work compiled, so that times can be said without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any


def with_compile_seconds(
    task: Callable[..., dict[str, Any]],
) -> Callable[..., dict[str, Any]]:
    """The same task, whose result also says how many seconds numba compiled in it.

    What numba finds in its cache it does not compile; that is so from the second run on.
    """

    @wraps(task)
    def timed(*arguments: Any, **named: Any) -> dict[str, Any]:
        from numba.core.event import install_timer

        seconds: list[float] = []
        with install_timer("numba:compile", seconds.append):
            result = task(*arguments, **named)
        return result | {"compile_seconds": sum(seconds)}

    return timed


@contextmanager
def compilation_told(tell: Callable[[int], None]) -> Iterator[None]:
    """Inside this, ``tell`` is called with how many functions of ours numba has begun to compile.

    What it finds in its cache it does not compile; then it is never called.
    """
    from numba.core.event import Listener, install_listener

    class Count(Listener):
        n = 0

        def on_start(self, event: Any) -> None:
            if str(event.data["dispatcher"].py_func.__module__).startswith("pipelines."):
                self.n += 1
                tell(self.n)

        def on_end(self, event: Any) -> None:
            """The next begins, or the unit tells of its fits."""

    with install_listener("numba:compile", Count()):
        yield


def without_compilation(
    rows: list[dict[str, Any]], seconds: float, compile_seconds: float
) -> list[dict[str, Any]]:
    """Rows of a unit whose times are those of fits alone; they shared what compiling took."""
    if not compile_seconds or not seconds:
        return rows
    share = max(0.0, 1 - compile_seconds / seconds)
    times = "fit_seconds", "score_seconds"
    return [row | {name: share * row[name] for name in times if row.get(name)} for row in rows]
