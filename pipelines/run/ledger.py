"""The units of a session as they come back: each on disk at once, and shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pipelines.run.news import News
from pipelines.run.outcomes import Outcome, Unit
from pipelines.run.progress import Progress, show_progress
from pipelines.run.tasks import OnCluster
from pipelines.run_folder.journal import Journal


class Ledger:
    """Given by ``ledger``."""

    def __init__(self, journal: Journal, progress: Progress, todo: Sequence[Unit]) -> None:
        self._journal, self._progress = journal, progress
        self._units = {unit.name: unit for unit in todo}

    def enter(self, outcome: Outcome[Any], rows: Sequence[dict[str, Any]]) -> None:
        """Write down a unit with its rows, none where it failed whole."""
        name = outcome.unit.name if outcome.part is None else outcome.part
        if name:
            self._write(name, outcome, rows)
        self._progress.advance(outcome.unit, outcome.error is not None)

    def follow(self, news: News, rows: Sequence[dict[str, Any]] = ()) -> None:
        """Show how far a unit is that goes on, and write down the rows it has by now."""
        if rows:
            self._write(news.part, news, rows)
        if news.unit in self._units:
            self._progress.follow(self._units[news.unit], news.share, news.compiled)

    def best(self, text: str) -> None:
        """Show what is best by now."""
        self._progress.best(text)

    def _write(self, name: str, of: Outcome[Any] | News, rows: Sequence[dict[str, Any]]) -> None:
        self._journal.append(
            {
                "unit": name,
                "worker": of.worker,
                "started": of.started,
                "seconds": of.seconds,
                "cost": of.cost if of.cost is not None or isinstance(of, News) else of.unit.cost,
                "rows": rows,
                **({"compile_seconds": of.compile_seconds} if of.compile_seconds else {}),
            }
        )


@contextmanager
def ledger(
    journal: Journal, runner: OnCluster, todo: Sequence[Unit], quiet: bool
) -> Iterator[Ledger]:
    """Open the books for the units ``todo``."""
    cost = sum(unit.cost for unit in todo)
    with show_progress(len(todo), cost, quiet, lambda: runner.n_workers) as progress:
        yield Ledger(journal, progress, todo)
