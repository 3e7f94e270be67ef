"""Write the tasks of a session to the journal as they end, and show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pipelines.run.events import ProgressEvent
from pipelines.run.outcomes import Outcome, Task
from pipelines.run.progress import Progress, show_progress
from pipelines.run.tasks import OnCluster
from pipelines.run_folder.journal import Journal


class JournalWriter:
    """Given by ``open_journal_writer``."""

    def __init__(self, journal: Journal, progress: Progress, todo: Sequence[Task]) -> None:
        self._journal, self._progress = journal, progress
        self._tasks = {task.name: task for task in todo}

    def record(self, outcome: Outcome[Any], rows: Sequence[dict[str, Any]]) -> None:
        """Write down a task with its rows, none where it failed whole."""
        name = outcome.task.name if outcome.part is None else outcome.part
        if name:
            self._write(name, outcome, rows)
        self._progress.advance(outcome.task, outcome.error is not None)

    def update(self, event: ProgressEvent, rows: Sequence[dict[str, Any]] = ()) -> None:
        """Show how far a task is that goes on, and write down the rows it has by now."""
        if rows:
            self._write(event.part, event, rows)
        if event.task in self._tasks:
            self._progress.update(self._tasks[event.task], event.share, event.compiled)

    def best(self, text: str) -> None:
        """Show what is best by now."""
        self._progress.best(text)

    def _write(
        self, name: str, of: Outcome[Any] | ProgressEvent, rows: Sequence[dict[str, Any]]
    ) -> None:
        self._journal.append(
            {
                "task": name,
                "worker": of.worker,
                "started": of.started,
                "seconds": of.seconds,
                "cost": of.cost
                if of.cost is not None or isinstance(of, ProgressEvent)
                else of.task.cost,
                "rows": rows,
                **({"compile_seconds": of.compile_seconds} if of.compile_seconds else {}),
            }
        )


@contextmanager
def open_journal_writer(
    journal: Journal, runner: OnCluster, todo: Sequence[Task], quiet: bool
) -> Iterator[JournalWriter]:
    """Open the books for the tasks ``todo``."""
    cost = sum(task.cost for task in todo)
    with show_progress(len(todo), cost, quiet, lambda: runner.n_workers) as progress:
        yield JournalWriter(journal, progress, todo)
