"""The test points on the page of a run: the wrong ones, the surest of themselves first; classes."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from pipelines.report.classification_figures import MOST_IMAGES, class_name, confusion_counts
from pipelines.report.table import MOST_ROWS, Cell, Table, Value
from pipelines.report.wording import count, percent
from pipelines.run_folder.reading import Run, WrongImages

SURENESS = ("margin", "certainty")  # columns that say how sure a prediction was


def wrong_points(run: Run[Any]) -> pd.DataFrame | None:
    """The wrong test points, the surest first; None where nothing was predicted."""
    if run.predictions is None:
        return None
    wrong = run.predictions[run.predictions["true"] != run.predictions["predicted"]]
    by = _sureness(wrong)
    return wrong.sort_values(by, ascending=False, kind="stable") if by else wrong


def _sureness(table: pd.DataFrame) -> str:
    return next((name for name in SURENESS if name in table), "")


def wrong_images(run: Run[Any]) -> WrongImages | None:
    """Their images, in that order."""
    images, wrong = run.wrong_images, wrong_points(run)
    if images is None or wrong is None:
        return images
    place = {int(row): i for i, row in enumerate(wrong["row"])}
    order = np.argsort([place.get(int(row), len(place)) for row in images.row], kind="stable")
    return WrongImages(
        images.row[order], images.true[order], images.predicted[order], images.images[order]
    )


def wrong_table(run: Run[Any]) -> Table:
    """A row for each of them: its image where it has one, and how sure it was of its class."""
    wrong, images = wrong_points(run), run.wrong_images
    if wrong is None:
        return Table.of((), [])
    by = _sureness(wrong)
    names = ["row", "true", "predicted", *([by] if by else [])]
    if images is not None:
        names.insert(0, "image")
    pictures = {} if images is None else dict(zip(images.row, images.images, strict=True))
    brightest = 1.0 if images is None else max(1.0, float(images.images.max(initial=0)))
    rows: list[list[Value]] = []
    for row in wrong.head(MOST_ROWS).to_dict("records"):
        codes = int(row["true"]), int(row["predicted"])
        cells: list[Value] = [(row["row"], str(row["row"]))]
        cells += [class_name(run.classes, code) for code in codes]
        if by:
            cells.append((float(row[by]), f"{row[by]:.3f}"))
        if images is not None:
            picture = pictures.get(row["row"])
            uri = "" if picture is None else _picture(picture, brightest)
            cells.insert(0, Cell(f"test point {row['row']}", "", image=uri))
        rows.append(cells)
    return Table.of(names, rows)


def _picture(pixels: np.ndarray, brightest: float) -> str:
    """A small image, ink dark on light, as the figures show it."""
    shades = 255 - np.clip(255 * pixels.astype(float) / brightest, 0, 255)
    file = BytesIO()
    Image.fromarray(shades.astype(np.uint8)).save(file, format="png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def wrong_note(run: Run[Any]) -> str:
    """How many test points are wrong, and how many of them are shown."""
    wrong = wrong_points(run)
    if wrong is None:
        return ""
    if wrong.empty:
        return "Every test point was classified right."
    by = f", those of the largest {_sureness(wrong)} first" if _sureness(wrong) else ""
    if len(wrong) > MOST_ROWS:
        return (
            f"The first {MOST_ROWS:,} of {len(wrong):,} wrong test points{by}; "
            "all of them are in test_predictions.parquet."
        )
    return f"{count(len(wrong), 'wrong test point')}{by}."


def images_note(run: Run[Any]) -> str:
    """How many of them are drawn."""
    wrong = wrong_points(run)
    if wrong is None or len(wrong) <= MOST_IMAGES:
        return wrong_note(run)
    by = f", those of the largest {_sureness(wrong)}" if _sureness(wrong) else ""
    return f"The first {MOST_IMAGES} of {len(wrong):,} wrong test points{by}; the table has all."


def class_table(run: Run[Any]) -> Table:
    """A row for each class that is there or was predicted, and one of their means."""
    names = ("class", "test points", "found", "recall", "precision", "F1")
    if run.predictions is None or run.predictions.empty:
        return Table.of(names, [])
    true, predicted = (run.predictions[name].to_numpy(dtype=int) for name in ("true", "predicted"))
    counts = confusion_counts(true, predicted, int(max(true.max(), predicted.max())) + 1)
    right, there, said = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        recall, precision, f1 = right / there, right / said, 2 * right / (there + said)
    shares = recall, precision, f1
    rows: list[list[Value]] = [
        [
            class_name(run.classes, int(code)),
            *((int(one[code]), f"{one[code]:,}") for one in (there, right)),
            *((float(one[code]), percent(one[code])) for one in shares),
        ]
        for code in np.flatnonzero(there + said)
    ]
    total = [(int(one.sum()), f"{one.sum():,}") for one in (there, right)]
    means = [(mean, percent(mean)) for mean in (float(pd.Series(one).mean()) for one in shares)]
    return Table.of(names, [*rows, [Cell("mean", ""), *total, *means]])
