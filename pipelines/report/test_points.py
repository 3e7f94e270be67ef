"""The wrong test points on the page of a run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from pipelines.report.classification_figures import MOST_IMAGES, class_name
from pipelines.report.table import Cell
from pipelines.report.wording import count
from pipelines.run_folder.reading import Run

MOST_WRONG_ROWS = 100


def wrong_rows(run: Run[Any]) -> list[list[Cell]]:
    """The wrong test points of a table, which has no images to show."""
    wrong = _wrong(run)
    if wrong is None or run.wrong_images is not None:
        return []
    return [
        [
            Cell(str(row["row"]), float(row["row"])),
            *(
                Cell(name := class_name(run.classes, int(row[which])), name)
                for which in ("true", "predicted")
            ),
        ]
        for row in wrong.head(MOST_WRONG_ROWS).to_dict("records")
    ]


def wrong_note(run: Run[Any]) -> str:
    """How many test points are wrong, and how many of them are shown."""
    wrong = _wrong(run)
    if wrong is None:
        return ""
    if wrong.empty:
        return "Every test point was classified right."
    most = MOST_WRONG_ROWS if run.wrong_images is None else MOST_IMAGES
    if len(wrong) > most:
        return (
            f"The first {most} of {len(wrong):,} wrong test points; "
            "all of them are in test_predictions.parquet."
        )
    return f"{count(len(wrong), 'wrong test point')}."


def _wrong(run: Run[Any]) -> pd.DataFrame | None:
    if run.predictions is None:
        return None
    return run.predictions[run.predictions["true"] != run.predictions["predicted"]]
