"""The test samples of a classifier: confusion matrix, the wrong ones, classes."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from pipelines.report.kind import Chart, Columns, Listing, Part, Section, Text
from pipelines.report.style import (
    GREY,
    INK,
    NARROW,
    ON_COLOUR,
    ON_DARK,
    PHONE,
    SKY,
    fitting,
    is_phone,
)
from pipelines.report.table import MOST_ROWS, Cell, Table, Value
from pipelines.report.wording import count, percent, shortened
from pipelines.run_folder.reading import Run, WrongImages

MOST_NUMBERED = 30  # classes whose counts still have room
MOST_IMAGES = 40


def confusion_counts(true: np.ndarray, predicted: np.ndarray, n_classes: int) -> np.ndarray:
    """Count the samples of each true class (row) by predicted class (column).

    ``true`` and ``predicted`` are class codes of shape (n,); the counts have
    shape (n_classes, n_classes).
    """
    pairs = true.astype(np.int64) * n_classes + predicted.astype(np.int64)
    return np.bincount(pairs, minlength=n_classes**2).reshape(n_classes, n_classes)


def class_name(classes: Sequence[str], code: int) -> str:
    """Return the name of a class code, or the code itself where it has no name."""
    return classes[code] if 0 <= code < len(classes) else str(code)


def confusion_matrix(counts: np.ndarray, names: Sequence[str]) -> Figure:
    """Draw counts of true against predicted class.

    The colours belong to the errors alone: the right ones on the diagonal are
    so many that on a common scale every error would look like none.
    """
    n_classes, n_samples = len(counts), int(counts.sum())
    n_wrong = n_samples - int(np.trace(counts))
    side = min(max(0.37 * n_classes, 2.6), 9.4)
    labels = [shortened(name, 14) for name in names]
    longest = max(map(len, labels))
    margin = 0.75 + 0.08 * longest
    if is_phone():
        side = min(side, PHONE - margin)
    figure = Figure(
        figsize=(side + margin + (0 if n_classes <= MOST_NUMBERED else 0.9), side + margin),
        layout="constrained",
    )
    figure.suptitle(
        f"{n_wrong:,} of {n_samples:,} test samples wrong"
        + (f" ({percent(n_wrong / n_samples)})" if n_samples else ""),
        x=0.02, ha="left", fontsize=10.5,
    )  # fmt: skip
    axes = figure.add_subplot(xlabel="predicted class", ylabel="true class")
    errors = np.ma.masked_array(counts, mask=np.eye(n_classes, dtype=bool) | (counts == 0))
    image = axes.imshow(errors, cmap="YlOrRd", vmin=0, vmax=_top_of_scale(counts), gid="errors")
    for place in range(n_classes):
        axes.add_patch(Rectangle((place - 0.5, place - 0.5), 1, 1, color=SKY, alpha=0.5, lw=0))
    if n_classes <= MOST_NUMBERED:
        _write_counts(figure, counts, side / n_classes)
        axes.set_xticks(
            range(n_classes), labels, rotation=0 if 0.09 * longest < side / n_classes else 90
        )
        axes.set_yticks(range(n_classes), labels)
    else:
        figure.colorbar(image, ax=axes, shrink=0.6, label="test samples")
        step = math.ceil(n_classes / MOST_NUMBERED)
        axes.set_xticks(range(0, n_classes, step), labels[::step], rotation=90)
        axes.set_yticks(range(0, n_classes, step), labels[::step])
    axes.set_xticks(np.arange(n_classes + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(n_classes + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#D3DAE1", lw=0.5)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    return figure


def _top_of_scale(counts: np.ndarray) -> float:
    """Return a little above the most frequent error; a lone error is no alarm."""
    return max(4.0, 1.15 * int((counts - np.diag(np.diag(counts))).max()))


def _write_counts(figure: Figure, counts: np.ndarray, cell: float) -> None:
    axes = figure.axes[0]
    digits = len(f"{counts.max():,}")
    size = min(11.0, 72 * cell * 0.85 / (0.64 * max(digits, 2)))
    top = _top_of_scale(counts)
    for row, column in np.argwhere(counts > 0):
        value = int(counts[row, column])
        is_error = row != column
        axes.text(
            column, row, f"{value:,}", ha="center", va="center", fontsize=size,
            color=INK if not is_error else ON_DARK if value > 0.55 * top else ON_COLOUR,
            weight="bold" if is_error else "normal",
        )  # fmt: skip


def wrong_test_samples(wrong: WrongImages, classes: Sequence[str]) -> Figure:
    """Draw the first 40 wrong test samples, each titled ``row: true → predicted``."""
    shown = min(MOST_IMAGES, len(wrong.row))
    titles = [
        (
            str(wrong.row[i]),
            shortened(class_name(classes, int(wrong.true[i])), 12),
            shortened(class_name(classes, int(wrong.predicted[i])), 12),
        )
        for i in range(shown)
    ]
    is_long = max(len(f"{row}: {true} → {predicted}") for row, true, predicted in titles) > 13
    n_columns = (5 if is_long else 6) - 2 * is_phone()
    n_rows = math.ceil(shown / n_columns)
    height, width = wrong.images.shape[1:3]
    # Places in units of one image's width: the image, and its title above.
    high, gap = height / width, 0.12
    title = 0.34 if is_long else 0.22
    step = high + title + gap
    total = n_columns + (n_columns - 1) * gap
    whole = fitting(NARROW)
    inches = (whole - 0.1) / total
    figure = Figure(figsize=(whole, inches * n_rows * step + 0.1))
    axes = figure.add_axes((0.05 / whole, 0.0, 1 - 0.1 / whole, 1.0))
    brightest = max(1, int(wrong.images.max()))
    for place, (row, true, predicted) in enumerate(titles):
        left = (place % n_columns) * (1 + gap)
        top = (place // n_columns) * step + title
        axes.imshow(
            wrong.images[place], extent=(left, left + 1, top + high, top), cmap="gray_r",
            vmin=0, vmax=brightest, interpolation="none",
        )  # fmt: skip
        axes.add_patch(Rectangle((left, top), 1, high, fill=False, edgecolor=GREY, lw=0.5))
        text = f"{row}: {true}\n→ {predicted}" if is_long else f"{row}: {true} → {predicted}"
        axes.text(left + 0.5, top - 0.03, text, ha="center", va="bottom", fontsize=7.5)
    axes.set(xlim=(0, total), ylim=(n_rows * step, 0), aspect="equal")
    axes.set_axis_off()
    return figure


SURENESS = ("margin", "certainty")  # columns that say how sure a prediction was


def wrong_samples(run: Run[Any]) -> pd.DataFrame | None:
    """Return the wrong test samples, the surest first; None where nothing was predicted."""
    if run.predictions is None:
        return None
    wrong = run.predictions[run.predictions["true"] != run.predictions["predicted"]]
    by = _sureness(wrong)
    return wrong.sort_values(by, ascending=False, kind="stable") if by else wrong


def _sureness(table: pd.DataFrame) -> str:
    return next((name for name in SURENESS if name in table), "")


def wrong_images(run: Run[Any]) -> WrongImages | None:
    """Return their images, in that order."""
    images, wrong = run.wrong_images, wrong_samples(run)
    if images is None or wrong is None:
        return images
    place = {int(row): i for i, row in enumerate(wrong["row"])}
    order = np.argsort([place.get(int(row), len(place)) for row in images.row], kind="stable")
    return WrongImages(
        images.row[order], images.true[order], images.predicted[order], images.images[order]
    )


def wrong_table(run: Run[Any]) -> Table:
    """Build a table of wrong samples: image, if any, classes and certainty."""
    wrong, images = wrong_samples(run), run.wrong_images
    if wrong is None:
        return Table.of((), [])
    by = _sureness(wrong)
    names = ["row", "true", "predicted", *([by] if by else [])]
    if images is not None:
        names.insert(0, "image")
    by_row = {} if images is None else dict(zip(images.row, images.images, strict=True))
    brightest = 1.0 if images is None else max(1.0, float(images.images.max(initial=0)))
    rows: list[list[Value]] = []
    for row in wrong.head(MOST_ROWS).to_dict("records"):
        codes = int(row["true"]), int(row["predicted"])
        cells: list[Value] = [(row["row"], str(row["row"]))]
        cells += [class_name(run.classes, code) for code in codes]
        if by:
            cells.append((float(row[by]), f"{row[by]:.3f}"))
        if images is not None:
            image = by_row.get(row["row"])
            uri = "" if image is None else _image_uri(image, brightest)
            cells.insert(0, Cell(f"test sample {row['row']}", "", image=uri))
        rows.append(cells)
    return Table.of(names, rows)


def _image_uri(pixels: np.ndarray, brightest: float) -> str:
    """Return a small image: in its colours, or ink dark on light, as the figures show it."""
    shades = np.clip(255 * pixels.astype(float) / brightest, 0, 255)
    shades = 255 - shades if pixels.ndim == 2 else pixels
    file = BytesIO()
    Image.fromarray(shades.astype(np.uint8)).save(file, format="png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def wrong_note(run: Run[Any]) -> str:
    """State how many test samples are wrong, and how many of them are shown."""
    wrong = wrong_samples(run)
    if wrong is None:
        return ""
    if wrong.empty:
        return "Every test sample was classified right."
    by = f", those of the largest {_sureness(wrong)} first" if _sureness(wrong) else ""
    if len(wrong) > MOST_ROWS:
        return (
            f"The first {MOST_ROWS:,} of {len(wrong):,} wrong test samples{by}; "
            "all of them are in test_predictions.parquet."
        )
    return f"{count(len(wrong), 'wrong test sample')}{by}."


def images_note(run: Run[Any]) -> str:
    """State how many of the images are drawn."""
    wrong = wrong_samples(run)
    if wrong is None or len(wrong) <= MOST_IMAGES:
        return wrong_note(run)
    by = f", those of the largest {_sureness(wrong)}" if _sureness(wrong) else ""
    return f"The first {MOST_IMAGES} of {len(wrong):,} wrong test samples{by}; the table has all."


def class_table(run: Run[Any]) -> Table:
    """Return a row for each class that is there or was predicted, and one of their means."""
    names = ("class", "test samples", "found", "recall", "precision", "F1")
    if run.predictions is None or run.predictions.empty:
        return Table.of(names, [])
    true, predicted = (run.predictions[name].to_numpy(dtype=int) for name in ("true", "predicted"))
    counts = confusion_counts(true, predicted, int(max(true.max(), predicted.max())) + 1)
    right, present, predicted = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        recall, precision, f1 = (
            right / present,
            right / predicted,
            2 * right / (present + predicted),
        )
    shares = recall, precision, f1
    rows: list[list[Value]] = [
        [
            class_name(run.classes, int(code)),
            *((int(one[code]), f"{one[code]:,}") for one in (present, right)),
            *((float(one[code]), percent(one[code])) for one in shares),
        ]
        for code in np.flatnonzero(present + predicted)
    ]
    total = [(int(one.sum()), f"{one.sum():,}") for one in (present, right)]
    means = [(mean, percent(mean)) for mean in (float(pd.Series(one).mean()) for one in shares)]
    return Table.of(names, [*rows, [Cell("mean", ""), *total, *means]])


def test_section(run: Run[Any]) -> Section:
    """Return the section of the test samples of any classifier."""
    table = class_table(run)
    classes: list[Part] = [Text("Classes", "h3"), Listing("Classes", table)]
    wrong: list[Part] = [
        Text("Wrong test samples", "h3"),
        Text(wrong_note(run)),
        Listing("Wrong test samples", wrong_table(run)),
    ]
    matrix = "Counts of test samples: those classified right in blue, errors in yellow to red."
    images = f"{images_note(run)} Each title is row: true → predicted."
    return Section(
        "test", "Test samples",
        [
            Columns([Chart("confusion_matrix", matrix, wide=True), Chart("test_errors", images)]),
            Columns([classes, wrong] if table else [wrong]),
        ],
    )  # fmt: skip
