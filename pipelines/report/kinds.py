"""The commands whose runs have a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.report.bagging_page import BAGGING
from pipelines.report.graph_page import GRAPH
from pipelines.report.kind import Kind
from pipelines.report.svm_page import SVM

KINDS = {"svm_grid": SVM, "nn_bagging": BAGGING, "pagerank": GRAPH}


def kind_of(record: Mapping[str, Any]) -> Kind:
    """The kind of a run, by the command in its ``run.json``."""
    return KINDS.get(str(record.get("command")), SVM)
