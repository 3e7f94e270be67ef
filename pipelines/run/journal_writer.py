"""The units of a session as they come back: each on disk at once, and shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pipelines.run.events import ProgressEvent
from pipelines.run.outcomes import Outcome, Unit
from pipelines.run.progress import Progress, show_progress
from pipelines.run.tasks import OnCluster
from pipelines.run_folder.journal import Journal


class JournalWriter:
    """Given by ``open_journal_writer``."""

    def __init__(self, journal: Journal, progress: Progress, todo: Sequence[Unit]) -> None:
        self._journal, self._progress = journal, progress
        self._units = {unit.name: unit for unit in todo}

    def record(self, outcome: Outcome[Any], rows: Sequence[dict[str, Any]]) -> None:
        """Write down a unit with its rows, none where it failed whole."""
        name = outcome.unit.name if outcome.part is None else outcome.part
        if name:
            self._write(name, outcome, rows)
        self._progress.advance(outcome.unit, outcome.error is not None)

    def update(self, event: ProgressEvent, rows: Sequence[dict[str, Any]] = ()) -> None:
        """Show how far a unit is that goes on, and write down the rows it has by now."""
        if rows:
            self._write(event.part, event, rows)
        if event.unit in self._units:
            self._progress.update(self._units[event.unit], event.share, event.compiled)

    def best(self, text: str) -> None:
        """Show what is best by now."""
        self._progress.best(text)

    def _write(
        self, name: str, of: Outcome[Any] | ProgressEvent, rows: Sequence[dict[str, Any]]
    ) -> None:
        self._journal.append(
            {
                "unit": name,
                "worker": of.worker,
                "started": of.started,
                "seconds": of.seconds,
                "cost": of.cost
                if of.cost is not None or isinstance(of, ProgressEvent)
                else of.unit.cost,
                "rows": rows,
                **({"compile_seconds": of.compile_seconds} if of.compile_seconds else {}),
            }
        )


@contextmanager
def open_journal_writer(
    journal: Journal, runner: OnCluster, todo: Sequence[Unit], quiet: bool
) -> Iterator[JournalWriter]:
    """Open the books for the units ``todo``."""
    cost = sum(unit.cost for unit in todo)
    with show_progress(len(todo), cost, quiet, lambda: runner.n_workers) as progress:
        yield JournalWriter(journal, progress, todo)
