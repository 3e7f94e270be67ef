"""Tasks and their outcomes.

A task is any object with a ``name`` and a ``cost``. Its work is a plain function
``work(shared, task)``; ``shared`` is scattered once and stays on the workers.
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
    """The description of a task; hashable."""

    @property
    def name(self) -> str:
        """The name on the dashboard, unique within a run."""

    @property
    def cost(self) -> float:
        """The predicted duration, in any unit of time."""


AnyTask = TypeVar("AnyTask", bound=TaskDescription)
Work = Callable[..., Any]  # (shared, task); see ``events`` on ``report``


class TaskEndedError(RuntimeError):
    """User code ended a task by something other than an error, such as ``sys.exit``."""


def is_urgent(task: Any) -> bool:
    """Whether a task goes before all waiting ones, as it completes a piece of work."""
    return getattr(task, "is_urgent", False)


@dataclass(frozen=True)
class Outcome(Generic[AnyTask]):
    """The outcome of a task: its result, or the error of its last attempt.

    Attributes
    ----------
    task : task
    result : object
        What the work function returned; the list of its rows if it is a generator.
    error : str, optional
        The error in one line.
    worker : str
        Address of the worker.
    started : float
        Seconds since the epoch.
    seconds, compile_seconds : float
        How long the task took, and how much of that it compiled.
    part : str, optional
        The name of the rows if a progress event had others of the task before: the name that a
        task of these rows alone would have, empty if there are none. By default the task's name.
    cost : float, optional
        The predicted cost of that part.
    memory : mapping of str to int
        From ``peak_memory``, of the worker.
    exception : BaseException, optional
        What the last attempt raised; None if its worker died.
    memory_after : int, optional
        Bytes that the worker's process held after the task; None if nobody asked.
    has_next : bool
        Whether another outcome of the same batch follows at once.
    """

    task: AnyTask
    result: Any = None
    error: str | None = None
    worker: str = ""
    started: float = 0.0
    seconds: float = 0.0
    compile_seconds: float = 0.0
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
    """Run a task, and note where, when and how long.

    Functions that numba finds in its cache are not compiled. From the second run on these are all.

    Parameters
    ----------
    work : function of ``shared`` and a task
    shared : object or SharedData
    task : task
    line : function without arguments, optional
        Returns the function that sends a progress message.
    memory_held : function without arguments, optional
        Returns the bytes that this process holds; called after the task.
    placed : mapping, optional
        What the task ``place`` returned: the data on the GPU of this worker.

    Returns
    -------
    dict
        The keywords of an ``Outcome``.

    Raises
    ------
    TaskEndedError
        User code raised ``SystemExit``, or in a thread anything else that is not an Exception.
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
        except SystemExit as error:  # user code may end its task, but not the worker
            raise TaskEndedError(f"the task ended Python with {error!r}") from None
        except BaseException as error:
            # In a thread this comes from user code, as no signal interrupts a thread. Dask would
            # wait for ever for a task that raised it.
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
    """The rows that a work function yields; its progress is reported with the rows before it."""
    rows, n_reported = list[Any](), 0
    with closing(results):  # it frees what it holds at once, even if reporting fails
        for result in results:
            if not isinstance(result, Progress):
                rows.append(result)
            elif reporter is not None:
                reporter(result.fraction, rows[n_reported:], result.note)
                n_reported = len(rows)
    return rows


@contextmanager
def report_compilation(report: Callable[[int], None] | None) -> Iterator[Any]:
    """Time numba's compilation in the block, and report how many functions have begun to compile.

    ``report`` gets that number, of this program's functions alone, and 0 once none compiles any
    more. It is not called for functions that numba finds in its cache. With ``report`` the log of
    ``pipelines.svm.compiled`` is off in the block.

    Yields
    ------
    numba.core.event.TimingListener
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
                report(0)  # the solving that follows may report nothing for long

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
    """Rows of a task whose times are scaled down to the part that was no compilation."""
    if not compile_seconds or not seconds:
        return rows
    fraction = max(0.0, 1 - compile_seconds / seconds)
    times = "fit_seconds", "score_seconds"
    return [row | {name: fraction * row[name] for name in times if row.get(name)} for row in rows]


def _worker() -> Any:
    """The Dask worker that runs this, or None."""
    if "distributed" not in sys.modules:  # no worker then, and its import takes time
        return None
    from distributed import get_worker

    try:
        return get_worker()
    except ValueError:
        return None


def describe(error: BaseException) -> str:
    """An exception as one short line, for the status of a row."""
    if is_out_of_memory(error):  # its own words may have the bytes that were asked for
        return f"{OUT_OF_MEMORY}: {error_line(error)}" if str(error) else OUT_OF_MEMORY
    if type(error).__name__ == "KilledWorker":
        return f"its worker died {error.allowed_failures + 1} times"  # type: ignore[attr-defined]
    return error_line(error)
