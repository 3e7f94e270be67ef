"""Show progress: a bar on a terminal, a widget in a notebook, lines at intervals elsewhere.

It is shown anew by the clock, not by the tasks: one that takes minutes leaves nobody in doubt.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, Self

from pipelines.console import echo, printable
from pipelines.run.outcomes import Task

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_BETWEEN_LINES = 10  # where tasks are done meanwhile
SECONDS_OF_SILENCE = 30  # at the most
WIDE = 80  # columns; below, the bar is shorter
SECONDS_FOR_THE_LAST_LOOK = 2  # it may wait for a scheduler that does not answer
SECONDS_OF_COMPILATION = 60  # at the most, in each worker's first task
SECONDS_BETWEEN_COUNTS = 1  # of the workers: each is a question to the scheduler


class ProgressState:
    """Tasks done, their share of the predicted cost, and the time that share leaves.

    Parameters
    ----------
    n_tasks : int
    cost : float
        Predicted, of all of them.
    n_workers : function that tells how many workers there are, or None

    Attributes
    ----------
    best : str
        The best candidate so far in words; empty where nothing is known.
    compiled : int
        Functions that the task at work has begun to compile; 0 where it is at its fits.
    """

    def __init__(self, n_tasks: int, cost: float, n_workers: Callable[[], int] | None) -> None:
        self.n_tasks = n_tasks
        self.total = cost
        self.n_done = self.n_failed = 0
        self.best = ""
        self.compiled = 0
        self._cost_done = 0.0
        self._inside: dict[str, tuple[float, float]] = {}  # of a task at work: cost, share done
        self._started = time.monotonic()
        self._ask, self._asked, self._n_workers = n_workers, -math.inf, 0

    def add(self, task: Task, failed: bool) -> None:
        """Count one more finished task."""
        self._inside.pop(task.name, None)
        self.compiled = 0
        self.n_done += 1
        self.n_failed += failed
        self._cost_done += task.cost

    def update(self, task: Task, share: float, compiled: int = 0) -> None:
        """Record the share of a running task that is done, in [0, 1], or how much it compiles."""
        self.compiled = compiled
        if compiled and not share:
            return
        self._inside.pop(task.name, None)  # what was heard last stands last
        self._inside[task.name] = task.cost, share

    @property
    def cost_done(self) -> float:
        """The predicted cost of what is done, also inside tasks that go on."""
        return self._cost_done + sum(cost * share for cost, share in list(self._inside.values()))

    @property
    def percent(self) -> int:
        """Percentage of the predicted cost that is done; 100 only after the last task."""
        if self.n_done == self.n_tasks:
            return 100
        return min(99, int(100 * self.cost_done / self.total)) if self.total else 0

    @property
    def elapsed(self) -> float:
        """Seconds since the first task was begun."""
        return time.monotonic() - self._started

    def refresh(self) -> None:
        """Count the workers, where that was not done just now."""
        if self._ask is not None and time.monotonic() - self._asked >= SECONDS_BETWEEN_COUNTS:
            self._asked = time.monotonic()
            # A scheduler too busy to answer, or gone, as whoever waits for tasks will say.
            with suppress(Exception):
                self._n_workers = self._ask()

    @property
    def tasks(self) -> str:
        """Return the counts of finished, failed and running tasks in words."""
        parts = [f"{self.n_done} of {self.n_tasks} tasks"]
        if self.n_failed:
            parts.append(f"{self.n_failed} failed")
        if self._ask is not None:
            parts.append(f"{self._n_workers} worker" + "s" * (self._n_workers != 1))
        return ", ".join(parts)

    @property
    def times(self) -> str:
        """The time that has passed, and the time that is left where that can be told."""
        left = self.seconds_left
        return clock(self.elapsed) + ("" if left is None else f", about {clock(left)} left")

    @property
    def compiling(self) -> str:
        """Return a note that a task is compiling; empty if none is."""
        n = self.compiled
        return f"compiling ({n} function{'s' * (n != 1)} so far)" if n else ""

    @property
    def at_work(self) -> str:
        """The task of which was heard last, and how far it is; empty where none has told."""
        inside = list(self._inside.items())
        if not inside or self.n_done == self.n_tasks:
            return ""
        name, (_, share) = inside[-1]
        more = f", {len(inside) - 1} more" if len(inside) > 1 else ""
        return f"{name}: {int(100 * share)} %{more}"

    @property
    def seconds_left(self) -> float | None:
        """None after the last task, and while the first ones may be mostly compilation.

        What tells of itself from inside is compiled.
        """
        done, elapsed = self.cost_done, self.elapsed
        compiles = self.n_done <= max(1, self._n_workers) and elapsed < SECONDS_OF_COMPILATION
        if not done or self.n_done == self.n_tasks or (compiles and not self._inside):
            return None
        return elapsed * max(0.0, self.total - done) / done


def clock(seconds: float) -> str:
    """Return seconds as a person reads them: ``0.4 s``, ``42 s``, ``3:05 min``, ``2:10 h``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d} h"


class Progress:
    """Receives the progress of a run and shows it; the base class shows nothing."""

    def advance(self, task: Task, failed: bool) -> None:
        """Count one more finished task."""

    def update(self, task: Task, share: float, compiled: int = 0) -> None:
        """Record the share of a running task that is done, or how many functions it compiles."""

    def best(self, text: str) -> None:
        """Show the best candidate so far."""


class _View(Progress):
    """Shows counts: each time something changes, and ``look`` every second by a thread."""

    def __init__(self, counts: ProgressState) -> None:
        self._counts = counts
        self._guard = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join(SECONDS_FOR_THE_LAST_LOOK)

    def _look_on(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_LOOKS):
            self._counts.refresh()
            with self._guard:
                if not self._ended.is_set():
                    self.look()

    def look(self) -> None:
        """Redraw after a second."""
        raise NotImplementedError

    def advance(self, task: Task, failed: bool) -> None:
        self._counts.refresh()
        with self._guard:
            self._counts.add(task, failed)
            self.done()

    def done(self) -> None:
        """Count a finished task."""
        raise NotImplementedError

    def update(self, task: Task, share: float, compiled: int = 0) -> None:
        with self._guard:
            began = compiled and not self._counts.compiled
            self._counts.update(task, share, compiled)
            if began:
                self.began_to_compile()

    def began_to_compile(self) -> None:
        """Note that a task compiles functions."""

    def best(self, text: str) -> None:
        with self._guard:
            self._counts.best = text


class _Lines(_View):
    def __init__(self, counts: ProgressState) -> None:
        super().__init__(counts)
        self._last = time.monotonic()
        self._has_compiled = False

    def look(self) -> None:
        if time.monotonic() - self._last >= SECONDS_OF_SILENCE:
            self._print()

    def done(self) -> None:
        counts, waited = self._counts, time.monotonic() - self._last
        if waited >= SECONDS_BETWEEN_LINES or counts.n_done == counts.n_tasks:
            self._print()

    def began_to_compile(self) -> None:
        if not self._has_compiled:
            echo("compiling  the solver (first run on this machine only)")
        self._has_compiled = True

    def _print(self) -> None:
        counts, self._last = self._counts, time.monotonic()
        parts = [f"{counts.percent} %", counts.tasks, counts.times, counts.compiling, counts.best]
        echo(f"progress   {', '.join(filter(None, parts))}")


class _Bar(_View):
    """Drawn by rich, on a terminal or as a notebook's widget.

    Below it stand what is done, the task that was heard of last, and the best candidate so far.
    A terminal may go away while the run goes on, as under ``nohup``: that ends the bar.
    """

    def __init__(self, counts: ProgressState) -> None:
        super().__init__(counts)
        from rich.console import Console
        from rich.live import Live

        console = Console(file=sys.stdout)
        self._wide = console.width >= WIDE
        self._live = Live(
            get_renderable=self._drawn,
            console=console,
            auto_refresh=False,
            redirect_stdout=not console.is_jupyter,
            redirect_stderr=not console.is_jupyter,
        )

    def __enter__(self) -> Self:
        with suppress(OSError):
            self._live.start()
            self._live.refresh()
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        with suppress(OSError):
            self._live.stop()

    def _drawn(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        counts, bar_width = self._counts, 20 if self._wide else 10
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            Text("progress  "),
            ProgressBar(total=100, completed=counts.percent, width=bar_width),
            Text(f"{counts.percent:>3} %  {counts.times}"),
        )
        counted = f": {counts.compiled} functions" if self._wide else ""
        compiling = Table.grid(padding=(0, 1))
        compiling.add_row(
            Text("compiling "), ProgressBar(total=None, pulse=True, width=bar_width),
            Text(f"the solver, once on this machine{counted}"),
        )  # fmt: skip
        below = [line for line in (counts.tasks, counts.at_work, counts.best) if line]
        also = [compiling] if counts.compiled else []
        return Group(bar, *also, *(
            Text(printable(f"{'':11}{line}"), no_wrap=True, overflow="ellipsis") for line in below
        ))  # fmt: skip

    def look(self) -> None:
        with suppress(OSError):
            self._live.refresh()

    done = began_to_compile = look


@contextmanager
def show_progress(
    n_tasks: int, cost: float, quiet: bool, n_workers: Callable[[], int] | None = None
) -> Iterator[Progress]:
    """Show the progress of ``n_tasks`` tasks whose predicted costs add up to ``cost``.

    ``n_workers`` tells how many workers there are at that moment.
    """
    if quiet or not n_tasks:
        yield Progress()
        return
    counts = ProgressState(n_tasks, cost, n_workers)
    view = _Bar(counts) if _in_notebook() or sys.stdout.isatty() else _Lines(counts)
    with view:
        yield view


def _in_notebook() -> bool:
    """Return whether this process is a notebook kernel that can show widgets."""
    if "ipykernel" not in sys.modules or find_spec("ipywidgets") is None:
        return False
    from rich.console import Console

    return Console().is_jupyter
