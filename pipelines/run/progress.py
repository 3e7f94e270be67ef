"""Show progress: a bar on a terminal, a widget in a notebook, lines at intervals elsewhere.

It is shown anew by the clock, not by the tasks: one that takes minutes leaves nobody in doubt.
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
from pipelines.run.outcomes import Task

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_BETWEEN_LINES = 10  # where tasks are done meanwhile
SECONDS_OF_SILENCE = 30  # at the most
SECONDS_FOR_THE_LAST_LOOK = 2  # it may wait for a scheduler that does not answer
SECONDS_OF_COMPILATION = 60  # at the most, in each worker's first task
PLACE = re.compile(r"\b(member|candidate|fold|outer|share)=(\S+)")  # in the names of tasks
ENOUGH = 0.1  # of the predicted cost, from which the first tasks tell how long the others take


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


def in_words(name: str) -> str:
    """A task's name as a person reads it: ``member 1, candidate 5, 5 folds``."""
    about = name.partition("-")[2]
    places = PLACE.findall(about)
    rest = " ".join(PLACE.sub("", about).split())
    if not places:
        return name
    return ", ".join(filter(None, [*(f"{what} {value}" for what, value in places), rest]))


class Progress:
    """Tasks done, their share of the predicted cost, and the time that share leaves.

    This class shows nothing; those below do.

    Parameters
    ----------
    n_tasks : int
    cost : float
        Predicted, of all of them.
    presence : function that tells who is there to work, or None
    """

    def __init__(
        self, n_tasks: int = 0, cost: float = 0.0, presence: Callable[[], Presence] | None = None
    ) -> None:
        self._n_tasks, self._total = n_tasks, cost
        self._n_done = self._n_failed = 0
        self._best = ""  # the best candidate so far, in words
        self._compiled = 0  # functions that the task at work has begun to compile
        self._notes: dict[str, str] = {}  # what tasks do before their fits, by their names
        self._cost_done, self._ends, self._at_least = 0.0, math.inf, False
        self._inside: dict[str, tuple[Task, float]] = {}  # tasks at work, and their share done
        self._started = self._looked = time.monotonic()
        self._deserted = 0.0  # seconds without a worker
        self._ask, self._present = presence, Presence()
        self._guard = threading.Lock()
        self.look_for_workers()

    def expect(
        self, n_tasks: int, cost: float, left: float = math.inf, at_least: bool = False
    ) -> None:
        """Take up how many tasks there are, their predicted cost and the seconds left for them.

        ``at_least`` says that there may be more, which depends on what these give.
        """
        with self._guard:
            self._n_tasks, self._total, self._at_least = n_tasks, cost, at_least
            self._ends = time.monotonic() + left

    def advance(self, task: Task, failed: bool) -> None:
        """Count one more finished task."""
        with self._guard:
            self._inside.pop(task.name, None)
            self._notes.pop(task.name, None)
            self._compiled = 0
            self._n_done += 1
            self._n_failed += failed
            self._cost_done += task.cost
            self.show(ended=True)

    def update(self, task: Task, share: float, compiled: int = 0, note: str = "") -> None:
        """Record the share of a running task that is done, or what it does before its fits.

        Parameters
        ----------
        compiled : functions that it has begun to compile
        note : on anything else, such as an import
        """
        with self._guard:
            self._notes.pop(task.name, None)
            if note:
                self._notes[task.name] = note
                self.show()
                return
            began, self._compiled = bool(compiled and not self._compiled), compiled
            if share or not compiled:
                self._inside.pop(task.name, None)  # what was heard last stands last
                self._inside[task.name] = task, share
            if began:
                self.show()

    def best(self, text: str) -> None:
        """Show the best candidate so far."""
        with self._guard:
            self._best = text

    def look_for_workers(self) -> None:
        """Ask who is there to work now."""
        if self._ask is None:
            return
        before, self._looked = self._looked, time.monotonic()
        if not self._present.workers:
            self._deserted += self._looked - before
        # A scheduler too busy to answer, or gone, as whoever waits for tasks will say.
        with suppress(Exception):
            self._present = self._ask()

    def show(self, ended: bool = False) -> None:
        """Show it as it is now, by the clock or because a task has ended."""

    def close(self) -> None:
        """Show nothing more."""

    @property
    def percent(self) -> int:
        """Percentage of the predicted cost that is done; 100 only after the last task."""
        if self._n_done == self._n_tasks:
            return 100
        return min(99, int(100 * self._done_by_now / self._total)) if self._total else 0

    @property
    def _done_by_now(self) -> float:
        """The predicted cost of what is done, also inside tasks that go on."""
        return self._cost_done + sum(task.cost * share for task, share in self._inside.values())

    @property
    def tasks(self) -> str:
        """The counts of finished, failed and running tasks in words."""
        parts = [f"{self._n_done} of {self._n_tasks} tasks"]
        if self._n_failed:
            parts.append(f"{self._n_failed} failed")
        if self._ask is not None:
            parts.append(str(self._present))
        return ", ".join(parts)

    @property
    def times(self) -> str:
        """The time that has passed, and the time that is left where that can be told."""
        done, elapsed = self._done_by_now, time.monotonic() - self._started
        n_workers = self._present.workers
        # The first tasks may be mostly compilation; what tells of itself from inside is compiled,
        # but what it says at first is far off: networks may end early, large problems come first.
        first = self._n_done <= max(1, n_workers)
        compiles = first and elapsed < SECONDS_OF_COMPILATION and not self._inside
        unknown = first and done < ENOUGH * self._total
        deserted = self._ask is not None and not n_workers
        if not done or self._n_done == self._n_tasks or compiles or unknown or deserted:
            return clock(elapsed)
        left = (elapsed - self._deserted) * max(0.0, self._total - done) / done
        until_end = max(0.0, self._ends - time.monotonic())
        about = "at least" if self._at_least and left < until_end else "about"
        return f"{clock(elapsed)}, {about} {clock(min(left, until_end))} left"

    @property
    def compiling(self) -> str:
        """A note that a task is compiling; empty if none is."""
        n = self._compiled
        return f"compiling ({n} function{'s' * (n != 1)} so far)" if n else ""

    @property
    def notes(self) -> str:
        """What tasks do before their fits; empty where none does such."""
        return ", ".join(sorted(set(self._notes.values())))

    @property
    def at_work(self) -> str:
        """The task of which was heard last, and how far it is; empty where none has told."""
        if not self._inside or self._n_done == self._n_tasks:
            return ""
        task, share = list(self._inside.values())[-1]
        more = f", {len(self._inside) - 1} more" if len(self._inside) > 1 else ""
        return f"{getattr(task, 'words', '') or in_words(task.name)}: {int(100 * share)} %{more}"


class _Lines(Progress):
    def __init__(self, *of_all: Any) -> None:
        super().__init__(*of_all)
        self._last = time.monotonic()
        self._has_compiled = False
        self._noted = set[str]()

    def show(self, ended: bool = False) -> None:
        if self._compiled and not self._has_compiled:
            echo("compiling  code for this problem (kept on this machine for later runs)")
            self._has_compiled = True
        for note in sorted({*self._notes.values()} - self._noted):
            first, _, rest = note.partition(" ")
            echo(f"{first:<10} {rest}")
            self._noted.add(note)
        waited = time.monotonic() - self._last
        is_due = waited >= (SECONDS_BETWEEN_LINES if ended else SECONDS_OF_SILENCE)
        if not is_due and not (ended and self._n_done == self._n_tasks):
            return
        self._last = time.monotonic()
        inside = self.compiling or self.notes or ("" if ended else self.at_work)  # a long task
        parts = [f"{self.percent} %", self.tasks, self.times, inside, self._best]
        echo(f"progress   {', '.join(filter(None, parts))}")


class _Bar(Progress):
    """Drawn by rich, on a terminal or as a notebook's widget.

    Below it stand what is done, the task that was heard of last, and the best candidate so far.
    A terminal may go away while the run goes on, as under ``nohup``: that ends the bar.
    """

    def __init__(self, *of_all: Any) -> None:
        super().__init__(*of_all)
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
        once = f"{self.compiling}, kept for later runs" if self._compiled else ""
        below = [line for line in (once, self.notes, self.tasks, self.at_work, self._best) if line]
        return Group(
            bar,
            *(
                Text(printable(f"{'':11}{line}"), no_wrap=True, overflow="ellipsis")
                for line in below
            ),
        )

    def show(self, ended: bool = False) -> None:
        with suppress(OSError):
            self._live.refresh()


@contextmanager
def show_progress(
    n_tasks: int, cost: float, quiet: bool, presence: Callable[[], Presence] | None = None
) -> Iterator[Progress]:
    """Show the progress of ``n_tasks`` tasks whose predicted costs add up to ``cost``.

    ``presence`` tells who is there to work at that moment.
    """
    if quiet or not n_tasks:
        yield Progress()
        return
    has_bar = sys.stdout.isatty()
    if "ipykernel" in sys.modules and find_spec("ipywidgets") is not None:
        from rich.console import Console

        has_bar = has_bar or Console().is_jupyter
    shown: Progress = (_Bar if has_bar else _Lines)(n_tasks, cost, presence)
    ended = threading.Event()

    def look_on() -> None:
        while not ended.wait(SECONDS_BETWEEN_LOOKS):
            shown.look_for_workers()
            with shown._guard:
                if not ended.is_set():
                    shown.show()

    thread = threading.Thread(target=look_on, daemon=True)
    thread.start()
    try:
        yield shown
    finally:
        ended.set()
        thread.join(SECONDS_FOR_THE_LAST_LOOK)
        shown.close()
