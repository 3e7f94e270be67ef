"""How far a run is: a bar on a terminal, lines at intervals elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

SECONDS_BETWEEN_LINES = 10


class Progress(Protocol):
    """Told of every unit that is done."""

    def advance(self, cost: float, failed: bool) -> None:
        """One more unit, of that predicted cost."""


class _Silent:
    def advance(self, cost: float, failed: bool) -> None:
        return None


class _Counts:
    """Units done, their share of the predicted cost, and the time that share leaves."""

    def __init__(self, n_units: int, cost: float) -> None:
        self.n_units = n_units
        self.total = cost
        self.n_done = self.n_failed = 0
        self.cost_done = 0.0
        self.started = time.monotonic()

    def add(self, cost: float, failed: bool) -> None:
        self.n_done += 1
        self.n_failed += failed
        self.cost_done += cost

    @property
    def text(self) -> str:
        failed = f", {self.n_failed} failed" if self.n_failed else ""
        return f"{self.n_done} of {self.n_units} units{failed}"

    @property
    def seconds_left(self) -> float | None:
        if not self.cost_done:
            return None
        elapsed = time.monotonic() - self.started
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
            left = counts.seconds_left
            ending = "" if not left else f", about {clock(left)} left"
            with suppress(OSError):  # nobody listens any more: no reason to stop
                print(f"progress   {counts.text}{ending}", flush=True)


class _Bar:
    def __init__(self, counts: _Counts) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._counts = counts
        self.rich = RichProgress(
            TextColumn("progress  "),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %  {task.description}"),
            console=Console(file=sys.stdout),
        )
        self._task = self.rich.add_task(counts.text, total=counts.total)

    def advance(self, cost: float, failed: bool) -> None:
        self._counts.add(cost, failed)
        left = self._counts.seconds_left
        ending = "" if left is None else f", {clock(left)} left"
        self.rich.update(self._task, advance=cost, description=self._counts.text + ending)


@contextmanager
def show_progress(n_units: int, cost: float, quiet: bool) -> Iterator[Progress]:
    """Show the progress of ``n_units`` units whose predicted costs add up to ``cost``."""
    if quiet or not n_units:
        yield _Silent()
        return
    counts = _Counts(n_units, cost)
    if not sys.stdout.isatty():
        yield _Lines(counts)
        return
    bar = _Bar(counts)
    with bar.rich:
        yield bar


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
