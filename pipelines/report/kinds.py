"""The commands whose runs have a page of their own; that of any other shows its tables."""

from __future__ import annotations

from typing import Any

from pipelines.report.bagging_page import BAGGING
from pipelines.report.figures import of_any_run
from pipelines.report.graph_page import GRAPH
from pipelines.report.kind import Answer, Kind
from pipelines.report.svm_page import SVM
from pipelines.report.table import MOST_ROWS, table_of
from pipelines.report.training_page import TRAINING
from pipelines.report.validation_page import VALIDATION
from pipelines.report.wording import count, percent
from pipelines.run_folder.reading import Run, read_run
from pipelines.run_folder.records.base import Record


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
            shown = "" if len(frame) <= MOST_ROWS else f"The first {MOST_ROWS:,} of "
            tables.append((name, f"{shown}{count(len(frame), 'row')}.", table_of(frame)))
    return {"tables": tables}


ANY = Kind(
    title="",
    template="any.html",
    read=read_run,
    figures=of_any_run(),
    size=lambda run: "A run",
    answers=_answers,
    content=_content,
)
KINDS = {
    "svm_grid": SVM, "nn_bagging": BAGGING, "pagerank": GRAPH, "cross_validate": VALIDATION,
    "data_parallel": TRAINING,
}  # fmt: skip


def kind_of(record: Record) -> Kind:
    """The kind of a run, by the command in its ``run.json``."""
    return KINDS.get(record.command, ANY)
