"""The units of a session as they come back: each on disk at once, and shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pipelines.run.outcomes import Outcome, Unit
from pipelines.run.progress import Progress, show_progress
from pipelines.run.tasks import OnCluster
from pipelines.run_folder.journal import Journal


class Ledger:
    """Given by ``ledger``."""

    def __init__(self, journal: Journal, progress: Progress) -> None:
        self._journal, self._progress = journal, progress

    def enter(self, outcome: Outcome[Any], rows: Sequence[dict[str, Any]]) -> None:
        """Write down a unit with its rows, none where it failed whole."""
        self._journal.append(
            {
                "unit": outcome.unit.name,
                "worker": outcome.worker,
                "started": outcome.started,
                "seconds": outcome.seconds,
                "rows": rows,
                **({"compile_seconds": compiled} if (compiled := outcome.compile_seconds) else {}),
            }
        )
        self._progress.advance(outcome.unit.cost, outcome.error is not None)


@contextmanager
def ledger(
    journal: Journal, runner: OnCluster, todo: Sequence[Unit], quiet: bool
) -> Iterator[Ledger]:
    """Open the books for the units ``todo``."""
    cost = sum(unit.cost for unit in todo)
    with show_progress(len(todo), cost, quiet, lambda: runner.n_workers) as progress:
        yield Ledger(journal, progress)
