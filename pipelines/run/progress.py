"""How far a run is: a bar on a terminal, a widget in a notebook, lines at intervals elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Protocol, Self

SECONDS_BETWEEN_LINES = 10
SECONDS_OF_COMPILATION = 60  # at the most, in each worker's first unit
SECONDS_BETWEEN_COUNTS = 1  # of the workers: each is a question to the scheduler


class Progress(Protocol):
    """Told of every unit that is done."""

    def advance(self, cost: float, failed: bool) -> None:
        """One more unit, of that predicted cost."""


class _Silent:
    def advance(self, cost: float, failed: bool) -> None:
        return None


class _Counts:
    """Units done, their share of the predicted cost, and the time that share leaves."""

    def __init__(self, n_units: int, cost: float, n_workers: Callable[[], int] | None) -> None:
        self.n_units = n_units
        self.total = cost
        self.n_done = self.n_failed = 0
        self.cost_done = 0.0
        self.started = time.monotonic()
        self._ask, self._asked, self._n_workers = n_workers, -math.inf, 0

    def add(self, cost: float, failed: bool) -> None:
        self.n_done += 1
        self.n_failed += failed
        self.cost_done += cost

    @property
    def text(self) -> str:
        """What is done, what failed, who is at work, and how long it will take."""
        parts = [f"{self.n_done} of {self.n_units} units"]
        if self.n_failed:
            parts.append(f"{self.n_failed} failed")
        if self._ask is not None:
            if time.monotonic() - self._asked >= SECONDS_BETWEEN_COUNTS:
                self._asked = time.monotonic()
                with suppress(OSError):  # a scheduler too busy to answer: the last count stands
                    self._n_workers = self._ask()
            parts.append(f"{self._n_workers} worker" + "s" * (self._n_workers != 1))
        if (left := self.seconds_left) is not None:
            parts.append(f"about {clock(left)} left")
        return ", ".join(parts)

    @property
    def seconds_left(self) -> float | None:
        """None after the last unit, and while the first ones may be mostly compilation."""
        elapsed = time.monotonic() - self.started
        too_early = self.n_done <= max(1, self._n_workers) and elapsed < SECONDS_OF_COMPILATION
        if not self.cost_done or too_early or self.n_done == self.n_units:
            return None
        return elapsed * max(0.0, self.total - self.cost_done) / self.cost_done


class _Lines:
    def __init__(self, counts: _Counts) -> None:
        self._counts = counts
        self._last = time.monotonic()

    def advance(self, cost: float, failed: bool) -> None:
        counts = self._counts
        counts.add(cost, failed)
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES or counts.n_done == counts.n_units:
            self._last = now
            with suppress(OSError):  # nobody listens any more: no reason to stop
                print(f"progress   {counts.text}", flush=True)


class _Bar:
    """Drawn by rich, on a terminal or as a notebook's widget; drawn anew with every unit alone.

    A terminal may go away while the run goes on, as under ``nohup``: that ends the bar.
    """

    def __init__(self, counts: _Counts) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._counts = counts
        console = Console(file=sys.stdout)
        self._rich = RichProgress(
            TextColumn("progress  "),
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:>3.0f} %  {task.description}"),
            console=console,
            auto_refresh=False,
            redirect_stdout=not console.is_jupyter,
            redirect_stderr=not console.is_jupyter,
        )
        self._task = self._rich.add_task(counts.text, total=counts.total)

    def __enter__(self) -> Self:
        with suppress(OSError):
            self._rich.start()
            self._rich.refresh()
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):
            self._rich.stop()

    def advance(self, cost: float, failed: bool) -> None:
        self._counts.add(cost, failed)
        with suppress(OSError):
            text = self._counts.text
            self._rich.update(self._task, advance=cost, description=text, refresh=True)


@contextmanager
def show_progress(
    n_units: int, cost: float, quiet: bool, n_workers: Callable[[], int] | None = None
) -> Iterator[Progress]:
    """Show the progress of ``n_units`` units whose predicted costs add up to ``cost``.

    ``n_workers`` tells how many workers there are at that moment.
    """
    if quiet or not n_units:
        yield _Silent()
        return
    counts = _Counts(n_units, cost, n_workers)
    if _in_notebook() or sys.stdout.isatty():
        with _Bar(counts) as bar:
            yield bar
    else:
        yield _Lines(counts)


def _in_notebook() -> bool:
    """Whether this process is a notebook's kernel that can show widgets."""
    if "ipykernel" not in sys.modules or find_spec("ipywidgets") is None:
        return False
    from rich.console import Console

    return Console().is_jupyter


def clock(seconds: float) -> str:
    """Seconds as a person reads them: ``0.4 s``, ``42 s``, ``3:05 min``, ``2:10 h``."""
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
