"""Show progress: a bar on a terminal, a widget in a notebook, lines at intervals elsewhere.

It is refreshed by the clock, not only when a task ends, so that a long task does not look stuck.
"""

from __future__ import annotations

import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from cluster_setup.workers import Presence
from pipelines.console import echo, printable
from pipelines.run.outcomes import TaskDescription

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_BETWEEN_LINES = 10  # if a task has ended
SECONDS_OF_SILENCE = 30  # at most, if none has
SECONDS_FOR_THE_LAST_LOOK = 2  # it may wait for a scheduler that does not answer
SECONDS_OF_COMPILATION = 60  # at most, in the first task of each worker
PLACE = re.compile(r"\b(member|candidate|fold|outer|share)=(\S+)")  # in the names of tasks
ENOUGH = 0.1  # of the predicted cost must be done before the time left is told from first tasks


def time_text(seconds: float) -> str:
    """Seconds as a person reads them: ``0.4 s``, ``42 s``, ``3:05 min``, ``2:10 h``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, remainder = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{remainder:02d} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d} h"


def task_label(name: str) -> str:
    """A task's name as a person reads it: ``member 1, candidate 5, 5 folds``."""
    details = name.partition("-")[2]
    places = PLACE.findall(details)
    other_words = " ".join(PLACE.sub("", details).split())
    if not places:
        return name
    return ", ".join(filter(None, [*(f"{label} {value}" for label, value in places), other_words]))


class RunProgress:
    """Counts the tasks done, and estimates the fraction of the work done and the time left.

    This class shows nothing; its subclasses do.

    Parameters
    ----------
    n_tasks : int, default 0
    cost : float, default 0.0
        The predicted cost of all tasks, in any unit of time.
    presence : function without arguments, optional
        Returns the workers that are there now.
    """

    def __init__(
        self, n_tasks: int = 0, cost: float = 0.0, presence: Callable[[], Presence] | None = None
    ) -> None:
        self._n_tasks, self._total = n_tasks, cost
        self._n_done = self._n_failed = 0
        self._best = ""  # the best candidate so far, in words
        self._compiled = 0  # number of functions that a task has begun to compile
        self._notes: dict[str, str] = {}  # what tasks do before their fits, by task name
        self._cost_done, self._ends, self._at_least = 0.0, math.inf, False
        # Tasks at work by name, each with the fraction of it that is done.
        self._running: dict[str, tuple[TaskDescription, float]] = {}
        self._started = self._looked = time.monotonic()
        self._deserted = 0.0  # seconds without a worker
        self._ask, self._present = presence, Presence()
        self._guard = threading.Lock()
        self.look_for_workers()

    def expect(
        self, n_tasks: int, cost: float, seconds_left: float = math.inf, at_least: bool = False
    ) -> None:
        """Set the number of tasks, their predicted cost and the time that is left for them.

        Parameters
        ----------
        n_tasks : int
        cost : float
            The predicted cost of all tasks.
        seconds_left : float, default inf
            Until the run has to end.
        at_least : bool, default False
            Whether more tasks may follow, depending on the results of these.
        """
        with self._guard:
            self._n_tasks, self._total, self._at_least = n_tasks, cost, at_least
            self._ends = time.monotonic() + seconds_left

    def advance(self, task: TaskDescription, failed: bool) -> None:
        """Count one more finished task."""
        with self._guard:
            self._running.pop(task.name, None)
            self._notes.pop(task.name, None)
            self._compiled = 0
            self._n_done += 1
            self._n_failed += failed
            self._cost_done += task.cost
            self.show(ended=True)

    def update(
        self, task: TaskDescription, fraction: float, compiled: int = 0, note: str = ""
    ) -> None:
        """Record how far a running task is, or what it does before its fits.

        Parameters
        ----------
        task : task
        fraction : float
            The fraction of the task that is done.
        compiled : int, default 0
            Number of functions that it has begun to compile.
        note : str, optional
            What else it does, such as an import; then the other two do not count.
        """
        with self._guard:
            self._notes.pop(task.name, None)
            if note:
                self._notes[task.name] = note
                self.show()
                return
            has_begun, self._compiled = bool(compiled and not self._compiled), compiled
            if fraction or not compiled:
                self._running.pop(task.name, None)  # the task that reported last is last
                self._running[task.name] = task, fraction
            if has_begun:
                self.show()

    def best(self, text: str) -> None:
        """Set the best candidate so far, in words."""
        with self._guard:
            self._best = text

    def look_for_workers(self) -> None:
        """Ask which workers are there now, and count the time without any."""
        if self._ask is None:
            return
        before, self._looked = self._looked, time.monotonic()
        if not self._present.workers:
            self._deserted += self._looked - before
        # The scheduler is too busy to answer; or it is gone, which the wait for tasks will raise.
        with suppress(Exception):
            self._present = self._ask()

    def show(self, ended: bool = False) -> None:
        """Refresh the display, by the clock or because a task has ended."""

    def close(self) -> None:
        """End the display."""

    @property
    def percent(self) -> int:
        """Percentage of the predicted cost that is done; 100 only after the last task."""
        if self._n_done == self._n_tasks:
            return 100
        return min(99, int(100 * self._done_by_now / self._total)) if self._total else 0

    @property
    def _done_by_now(self) -> float:
        """The predicted cost of finished tasks, and of what running ones have done."""
        return self._cost_done + sum(
            task.cost * fraction for task, fraction in self._running.values()
        )

    @property
    def tasks(self) -> str:
        """The numbers of finished and failed tasks, and of workers, in words."""
        parts = [f"{self._n_done} of {self._n_tasks} tasks"]
        if self._n_failed:
            parts.append(f"{self._n_failed} failed")
        if self._ask is not None:
            parts.append(str(self._present))
        return ", ".join(parts)

    @property
    def times(self) -> str:
        """The time that has passed, and the time that is left if it can be estimated."""
        cost_done, elapsed = self._done_by_now, time.monotonic() - self._started
        n_workers = self._present.workers
        # The first tasks may be mostly compilation. One that reports its progress has compiled, but
        # is a poor measure at first: networks may stop early, and large problems come first.
        is_first = self._n_done <= max(1, n_workers)
        may_compile = is_first and elapsed < SECONDS_OF_COMPILATION and not self._running
        is_unknown = is_first and cost_done < ENOUGH * self._total
        is_deserted = self._ask is not None and not n_workers
        if (
            not cost_done
            or self._n_done == self._n_tasks
            or may_compile
            or is_unknown
            or is_deserted
        ):
            return time_text(elapsed)
        seconds_left = (elapsed - self._deserted) * max(0.0, self._total - cost_done) / cost_done
        until_end = max(0.0, self._ends - time.monotonic())
        qualifier = "at least" if self._at_least and seconds_left < until_end else "about"
        return f"{time_text(elapsed)}, {qualifier} {time_text(min(seconds_left, until_end))} left"

    @property
    def compiling(self) -> str:
        """A note on functions being compiled; empty if there are none."""
        n = self._compiled
        return f"compiling ({n} function{'s' * (n != 1)} so far)" if n else ""

    @property
    def notes(self) -> str:
        """What tasks do before their fits, such as an import; empty if nothing."""
        return ", ".join(sorted(set(self._notes.values())))

    @property
    def at_work(self) -> str:
        """The task that reported last, and how far it is; empty if none has."""
        if not self._running or self._n_done == self._n_tasks:
            return ""
        task, fraction = list(self._running.values())[-1]
        note = f", {len(self._running) - 1} more" if len(self._running) > 1 else ""
        return (
            f"{getattr(task, 'words', '') or task_label(task.name)}: {int(100 * fraction)} %{note}"
        )


class _Lines(RunProgress):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._last = time.monotonic()
        self._has_compiled = False
        self._noted = set[str]()

    def show(self, ended: bool = False) -> None:
        if self._compiled and not self._has_compiled:
            echo("compiling  code for this problem (kept on this machine for later runs)")
            self._has_compiled = True
        for note in sorted({*self._notes.values()} - self._noted):
            label, _, text = note.partition(" ")
            echo(f"{label:<10} {text}")
            self._noted.add(note)
        seconds_waited = time.monotonic() - self._last
        is_due = seconds_waited >= (SECONDS_BETWEEN_LINES if ended else SECONDS_OF_SILENCE)
        if not is_due and not (ended and self._n_done == self._n_tasks):
            return
        self._last = time.monotonic()
        activity = self.compiling or self.notes or ("" if ended else self.at_work)  # a long task
        parts = [f"{self.percent} %", self.tasks, self.times, activity, self._best]
        echo(f"progress   {', '.join(filter(None, parts))}")


class _Bar(RunProgress):
    """A bar drawn by rich, on a terminal or as a notebook's widget.

    Below it stand the counts, the task that reported last, and the best candidate so far.
    A terminal may go away while the run goes on, as under ``nohup``: that ends the bar.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        from rich.console import Console
        from rich.live import Live

        console = Console(file=sys.stdout)
        self._live = Live(
            get_renderable=self._drawn,
            console=console,
            auto_refresh=False,
            redirect_stdout=not console.is_jupyter,
            redirect_stderr=not console.is_jupyter,
        )
        with suppress(OSError):
            self._live.start(refresh=True)

    def close(self) -> None:
        with suppress(OSError):
            self._live.stop()

    def _drawn(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            Text("progress  "),
            ProgressBar(total=100, completed=self.percent, width=10),
            Text(f"{self.percent:>3} %  {self.times}"),
        )
        compiling_line = f"{self.compiling}, kept for later runs" if self._compiled else ""
        lines = [
            line
            for line in (compiling_line, self.notes, self.tasks, self.at_work, self._best)
            if line
        ]
        return Group(
            bar,
            *(
                Text(printable(f"{'':11}{line}"), no_wrap=True, overflow="ellipsis")
                for line in lines
            ),
        )

    def show(self, ended: bool = False) -> None:
        with suppress(OSError):
            self._live.refresh()


@contextmanager
def show_progress(
    n_tasks: int, cost: float, quiet: bool, presence: Callable[[], Presence] | None = None
) -> Iterator[RunProgress]:
    """Show the progress of tasks while the block runs.

    Parameters
    ----------
    n_tasks : int
    cost : float
        The predicted cost of all tasks, in any unit of time.
    quiet : bool
        Whether nothing is shown.
    presence : function without arguments, optional
        Returns the workers that are there now.

    Yields
    ------
    RunProgress
    """
    if quiet or not n_tasks:
        yield RunProgress()
        return
    has_bar = sys.stdout.isatty()
    if "ipykernel" in sys.modules and find_spec("ipywidgets") is not None:
        from rich.console import Console

        has_bar = has_bar or Console().is_jupyter
    progress: RunProgress = (_Bar if has_bar else _Lines)(n_tasks, cost, presence)
    ended = threading.Event()

    def look_on() -> None:
        while not ended.wait(SECONDS_BETWEEN_LOOKS):
            progress.look_for_workers()
            with progress._guard:
                if not ended.is_set():
                    progress.show()

    thread = threading.Thread(target=look_on, daemon=True)
    thread.start()
    try:
        yield progress
    finally:
        ended.set()
        thread.join(SECONDS_FOR_THE_LAST_LOOK)
        progress.close()
