"""The commands whose runs have a page of their own; that of any other shows its tables."""

from __future__ import annotations

from pipelines.report.any_page import ANY
from pipelines.report.bagging_page import BAGGING
from pipelines.report.graph_page import GRAPH
from pipelines.report.kind import Kind
from pipelines.report.svm_page import SVM
from pipelines.report.training_page import TRAINING
from pipelines.report.validation_page import VALIDATION
from pipelines.run_folder.records.base import Record

KINDS = {
    "svm_grid": SVM, "nn_bagging": BAGGING, "pagerank": GRAPH, "cross_validate": VALIDATION,
    "data_parallel": TRAINING,
}  # fmt: skip


def kind_of(record: Record) -> Kind:
    """The kind of a run, by the command in its ``run.json``."""
    return KINDS.get(record.command, ANY)
