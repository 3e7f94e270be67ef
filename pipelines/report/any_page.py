"""The page of a run whose command has none of its own: its tables and its timeline."""

from __future__ import annotations

from typing import Any

from pipelines.report.figures import of_any_run
from pipelines.report.kind import Answer, Kind
from pipelines.report.table import MOST_ROWS, table_of
from pipelines.report.wording import count, percent
from pipelines.run_folder.reading import Run, read_run


def _answers(run: Run[Any]) -> list[Answer]:
    """The errors that a run recorded."""
    best, answers = run.record.best, []
    if best is not None and best.error_mean is not None:
        answers.append(Answer("cv error", percent(best.error_mean), "mean over the folds"))
    if run.record.test_error is not None:
        answers.append(Answer("test error", percent(run.record.test_error)))
    return answers


def _content(run: Run[Any]) -> dict[str, Any]:
    tables = []
    for name, frame in (("Candidates", run.candidates), ("Cells", run.cells)):
        if len(frame):
            columns, rows = table_of(frame)
            shown = "" if len(frame) <= MOST_ROWS else f"The first {MOST_ROWS:,} of "
            tables.append((name, f"{shown}{count(len(frame), 'row')}.", columns, rows))
    return {"tables": tables}


ANY = Kind(
    title="",
    template="any.html",
    read=read_run,
    figures=of_any_run(),
    size=lambda run: "A run",
    sizes=(),
    answers=_answers,
    content=_content,
)
