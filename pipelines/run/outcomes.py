"""Tasks and their outcomes.

A task is anything with a ``name`` and a ``cost``; the work is a plain function
``work(shared, task)``. ``shared`` is scattered once and stays on the workers.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import isgeneratorfunction
from threading import current_thread, main_thread
from typing import Any, Generic, Protocol, TypeVar

from cluster_setup.workers import peak_memory
from pipelines.data.fits import Progress
from pipelines.data.placement import SharedData
from pipelines.errors import error_line
from pipelines.run.errors import OUT_OF_MEMORY, is_out_of_memory
from pipelines.run.events import Line, ProgressReporter


class TaskDescription(Protocol):
    """A task's description; hashable."""

    @property
    def name(self) -> str:
        """The name on the dashboard; no two tasks of a run share it."""

    @property
    def cost(self) -> float:
        """Predicted, in any unit of time."""


AnyTask = TypeVar("AnyTask", bound=TaskDescription)
Work = Callable[..., Any]  # (shared, task); see ``event`` on ``report``


class TaskEndedError(RuntimeError):
    """Code of the user's ended a task by something that is not an error, such as ``sys.exit``."""


def is_urgent(task: Any) -> bool:
    """Whether a task goes before all that waits, as it ends a piece of work."""
    return getattr(task, "is_urgent", False)


@dataclass(frozen=True)
class Outcome(Generic[AnyTask]):
    """The outcome of a task: its result, or the error of its last attempt.

    ``part`` is what its rows are called where others were told before: the name that a task
    of them alone would have, empty where there are none; None for the task's own. ``cost`` is
    what was predicted of that part. ``memory`` is what ``peak_memory`` says of its worker.
    ``exception`` is what the last attempt raised; None where its worker died. ``memory_after`` is
    the bytes that the worker's process held after the task; None where nobody asked. ``has_next``
    says that others of its batch follow at once.
    """

    task: AnyTask
    result: Any = None
    error: str | None = None
    worker: str = ""
    started: float = 0.0  # seconds since the epoch
    seconds: float = 0.0
    compile_seconds: float = 0.0  # of these
    part: str | None = None
    cost: float | None = None
    memory: Mapping[str, int] = field(default_factory=dict)
    exception: BaseException | None = None
    memory_after: int | None = None
    has_next: bool = False


def run_measured(
    work: Work,
    shared: Any,
    task: AnyTask,
    line: Line | None = None,
    memory_held: Callable[[], int | None] | None = None,
    placed: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the task; return its result, with where and when it was computed.

    With a ``line`` the work can tell how far it is, and with ``memory_held`` the result says what
    the process holds after it. ``placed`` is what a task ``place`` made. What numba finds in its
    cache it does not compile; that is so from the second run on.
    """
    if isinstance(shared, SharedData):
        if shared.data is not None and placed:
            shared.data.placement.lend(placed)
        shared = shared.shared
    worker = _worker()
    address = worker.address if worker else "in process"
    memory = partial(peak_memory, worker, worker.monitor.count - 1) if worker else dict
    reporter = ProgressReporter(task.name, address, line(), memory) if line else None
    started, clock = time.time(), time.perf_counter()
    with report_compilation(reporter.compiling if reporter else None) as compilation:
        try:
            if isgeneratorfunction(work):
                result = _collect(work(shared, task), reporter)
            else:
                result = work(shared, task, **({"report": reporter} if reporter else {}))
        except SystemExit as error:  # code of the user's ends its task, not the worker
            raise TaskEndedError(f"the task ended Python with {error!r}") from None
        except BaseException as error:
            # Nobody interrupts a thread: it is the user's code, and Dask would wait for ever.
            if isinstance(error, Exception) or current_thread() is main_thread():
                raise
            raise TaskEndedError(f"the task raised {error_line(error)}") from None
    return {
        "result": result,
        "worker": address,
        "started": started,
        "memory": memory(),
        "seconds": time.perf_counter() - clock,
        "compile_seconds": compilation.duration if compilation.done else 0.0,
        **({"memory_after": memory_held()} if memory_held else {}),
    }


def _collect(results: Generator[Any], reporter: ProgressReporter | None) -> list[Any]:
    """Return what work yields but its progress, which is reported with the rows before it."""
    rows, n_reported = list[Any](), 0
    with closing(results):  # what it holds is let go of at once, even where reporting fails
        for result in results:
            if not isinstance(result, Progress):
                rows.append(result)
            elif reporter is not None:
                reporter(result.fraction, rows[n_reported:], result.note)
                n_reported = len(rows)
    return rows


@contextmanager
def report_compilation(report: Callable[[int], None] | None) -> Iterator[Any]:
    """Yield a numba timer of compilation, and call ``report`` with how many functions are begun.

    And with 0 where none is compiled any more. Of ours alone. What numba finds in its cache it does
    not compile; then it is never called. Where it is called, ``svm.compiled`` does not log that.
    """
    from numba.core.event import TimingListener, install_listener

    class Compilation(TimingListener):
        n = 0

        def on_start(self, event: Any) -> None:
            super().on_start(event)
            module = str(event.data["dispatcher"].py_func.__module__)
            if report is not None and module.startswith("pipelines."):
                self.n += 1
                report(self.n)

        def on_end(self, event: Any) -> None:
            super().on_end(event)
            if report is not None and self.n and not self._depth:
                report(0)  # what follows, the solving, may tell nothing for long

    logger, silent = logging.getLogger("pipelines.svm.compiled"), logging.Filter("nothing")
    if report is not None:
        logger.addFilter(silent)
    try:
        with install_listener("numba:compile", Compilation()) as compilation:
            yield compilation
    finally:
        logger.removeFilter(silent)


def without_compilation(
    rows: list[dict[str, Any]], seconds: float, compile_seconds: float
) -> list[dict[str, Any]]:
    """Take the seconds of compiling off the times of a task's rows, which shared them."""
    if not compile_seconds or not seconds:
        return rows
    fraction = max(0.0, 1 - compile_seconds / seconds)
    times = "fit_seconds", "score_seconds"
    return [row | {name: fraction * row[name] for name in times if row.get(name)} for row in rows]


def _worker() -> Any:
    """Return the worker this runs on, or None."""
    if "distributed" not in sys.modules:  # then this is no worker, and need not import it
        return None
    from distributed import get_worker

    try:
        return get_worker()
    except ValueError:
        return None


def describe(error: BaseException) -> str:
    """Return an exception as one short line for a row's status."""
    if is_out_of_memory(error):  # and in its own words how many bytes were asked for
        return f"{OUT_OF_MEMORY}: {error_line(error)}" if str(error) else OUT_OF_MEMORY
    if type(error).__name__ == "KilledWorker":
        return f"its worker died {error.allowed_failures + 1} times"  # type: ignore[attr-defined]
    return error_line(error)
