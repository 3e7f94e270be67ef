"""Recall, precision and F1 of every class on the test points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pipelines.report.classification_figures import class_name, confusion_counts
from pipelines.report.table import Cell, Columns, number_cell
from pipelines.report.wording import percent
from pipelines.run_folder.reading import Run

CLASSES: Columns = [
    ("class", "text"), ("test points", "number"), ("found", "number"), ("recall", "number"),
    ("precision", "number"), ("F1", "number"),
]  # fmt: skip


def class_rows(run: Run[Any]) -> list[list[Cell]]:
    """A row for each class that is there or was predicted, and one of their means."""
    if run.predictions is None or run.predictions.empty:
        return []
    true, predicted = (run.predictions[name].to_numpy(dtype=int) for name in ("true", "predicted"))
    counts = confusion_counts(true, predicted, int(max(true.max(), predicted.max())) + 1)
    right, there, said = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        recall, precision, f1 = right / there, right / said, 2 * right / (there + said)
    rows = [
        [
            Cell(name := class_name(run.classes, int(code)), name),
            number_cell(there[code], f"{there[code]:,}"),
            number_cell(right[code], f"{right[code]:,}"),
            *(number_cell(one[code], percent(one[code])) for one in (recall, precision, f1)),
        ]
        for code in np.flatnonzero(there + said)
    ]
    means = [_mean(one) for one in (recall, precision, f1)]
    total = [number_cell(float(one.sum()), f"{one.sum():,}") for one in (there, right)]
    last = [Cell("mean", ""), *total]
    return [*rows, [*last, *(number_cell(mean, percent(mean)) for mean in means)]]


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan
