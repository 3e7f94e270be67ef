"""The test samples: confusion matrix, classes and the wrong ones; residuals of numbers."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
import PIL.Image
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from pipelines.report.charts import Panel, Series, dashed, dots, series_chart
from pipelines.report.parts import (
    MOST_ROWS,
    Cell,
    Chart,
    Columns,
    Folded,
    Gallery,
    Image,
    Listing,
    Part,
    Section,
    Table,
    Text,
    Value,
)
from pipelines.report.style import BLUE, INK, ON_COLOUR, ON_DARK, SKY
from pipelines.report.wording import count, percent, shortened, significant
from pipelines.run_folder.names import PREDICTIONS
from pipelines.run_folder.reading import RunData, WrongImages

MOST_BESIDE = 15  # classes whose confusion matrix is no wider than half the page
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
    # A little above the most frequent error; a lone error is no alarm.
    top = max(4.0, 1.15 * int((counts - np.diag(np.diag(counts))).max()))
    image = axes.imshow(errors, cmap="YlOrRd", vmin=0, vmax=top, gid="errors")
    for place in range(n_classes):
        axes.add_patch(Rectangle((place - 0.5, place - 0.5), 1, 1, color=SKY, alpha=0.5, lw=0))
    if n_classes <= MOST_NUMBERED:
        n_digits = max(2, len(f"{counts.max():,}"))
        size = min(11.0, 72 * side / n_classes * 0.85 / (0.64 * n_digits))
        for row, column in np.argwhere(counts > 0):
            value, is_error = int(counts[row, column]), row != column
            axes.text(
                column, row, f"{value:,}", ha="center", va="center", fontsize=size,
                color=INK if not is_error else ON_DARK if value > 0.55 * top else ON_COLOUR,
                weight="bold" if is_error else "normal",
            )  # fmt: skip
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


SURENESS = ("margin", "certainty")  # columns that say how sure a prediction was


def class_table(run: RunData[Any]) -> Table:
    """Return a row for each class that is there or was predicted, and one of their means."""
    names = ("class", "samples", "found", "recall", "precision", "F1")
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


def test_section(run: RunData[Any]) -> Section:
    """Return the section of the test samples of any classifier or regressor."""
    parts: list[Part | None] = [residuals_chart(run.residuals)]
    if run.residuals is None:
        classes = Listing("Classes", class_table(run), tall=False)
        parts = [Columns([_confusion(run), classes]), *_wrong_parts(run)]
    return Section("test", "Test samples", parts)


def _confusion(run: RunData[Any]) -> Chart | None:
    if run.predictions is None or run.predictions.empty:
        return None
    true, predicted = (run.predictions[name].to_numpy(dtype=int) for name in ("true", "predicted"))
    n_classes = max(len(run.classes), int(max(true.max(), predicted.max())) + 1)
    names = [class_name(run.classes, code) for code in range(n_classes)]
    counts = confusion_counts(true, predicted, n_classes)
    errors = counts - np.diag(np.diag(counts))
    alt = f"Confusion matrix of {count(len(true), 'test sample')}, {errors.sum()} of them wrong"
    if errors.any():
        row, column = np.unravel_index(errors.argmax(), errors.shape)
        alt += (
            f"; the most frequent error is {names[row]} taken for {names[column]}, "
            f"{count(int(errors.max()), 'time')}"
        )
    caption = "Counts of test samples: those classified right in blue, errors in yellow to red."
    draw = partial(confusion_matrix, counts, names)
    return Chart("confusion_matrix", draw, alt + ".", caption, wide=n_classes > MOST_BESIDE)


def _wrong_parts(run: RunData[Any]) -> list[Part | None]:
    """Return the wrong test samples, the surest first: how many, their images, a table."""
    if run.predictions is None:
        return []
    wrong = run.predictions[run.predictions["true"] != run.predictions["predicted"]]
    heading = Text("Wrong test samples", "h3")
    if wrong.empty:
        return [heading, Text("Every test sample was classified right.")]
    by = next((name for name in SURENESS if name in wrong), "")
    if by:
        wrong = wrong.sort_values(by, ascending=False, kind="stable")
    codes = [wrong[name].map(lambda code: class_name(run.classes, int(code)))
             for name in ("true", "predicted")]  # fmt: skip
    words = [*zip(wrong["row"], *codes, strict=True)]
    pictures = _pictures(run.wrong_images)
    images = [
        Image(pictures[row], f"{row}: {true} → {predicted}",
              f"Test sample {row}: {true} taken for {predicted}")
        for row, true, predicted in words if row in pictures
    ][:MOST_IMAGES]  # fmt: skip
    order = f", those of the largest {by} first" if by else ""
    note = f"{count(len(wrong), 'wrong test sample')}{order}."
    if len(words) > MOST_ROWS:
        note = (
            f"The first {MOST_ROWS:,} of {len(wrong):,} wrong test samples{order}; all of them "
            f"are in {PREDICTIONS}."
        )
    sureness = [(float(one), f"{one:.3f}") for one in wrong[by]] if by else None
    rows = [
        [(row, str(row)), true, predicted, *([sureness[i]] if sureness else [])]
        for i, (row, true, predicted) in enumerate(words[:MOST_ROWS])
    ]
    table = Listing(
        "Wrong test samples", Table.of(("row", "true", "predicted", *([by] if by else [])), rows)
    )
    if not images:
        return [heading, Text(note), table]
    if len(images) < len(words):
        note = f"{note} The first {len(images)} are shown; the table has more."
    how = "Under each image: row: true → predicted."
    return [heading, Text(f"{note} {how}"), Gallery(images), Folded("As a table", [table])]


def _pictures(wrong: WrongImages | None) -> dict[int, str]:
    """Return wrong test samples by their row as small images, ink dark on light."""
    if wrong is None or not len(wrong.row):
        return {}
    brightest = max(1.0, float(wrong.images.max()))
    found = {}
    for row, pixels in zip(wrong.row, wrong.images, strict=True):
        shades = pixels  # colours are as they are, a single channel is ink
        if pixels.ndim == 2:
            shades = 255 - np.clip(255 * pixels.astype(float) / brightest, 0, 255)
        file = BytesIO()
        PIL.Image.fromarray(shades.astype(np.uint8)).save(file, format="png")
        encoded = base64.b64encode(file.getvalue()).decode("ascii")
        found[int(row)] = f"data:image/png;base64,{encoded}"
    return found


def residuals_chart(residuals: pd.DataFrame | None) -> Chart | None:
    """Return predicted against true numbers of the test samples, and what is between them.

    Parameters
    ----------
    residuals : table of ``true`` and ``predicted``, or None
    """
    if residuals is None or residuals.empty:
        return None
    true, predicted = (residuals[name].to_numpy(float) for name in ("true", "predicted"))
    ends = [min(true.min(), predicted.min()), max(true.max(), predicted.max())]
    look = dots(BLUE, ".", alpha=0.5)
    panels = [
        Panel([Series(ends, ends, look=dashed()), Series(true, predicted, look=look)], "true",
              "predicted"),
        Panel([Series(ends, [0, 0], look=dashed()), Series(predicted, true - predicted, look=look)],
              "predicted", "true − predicted"),
    ]  # fmt: skip
    alt = (
        f"Predicted against true numbers of {count(len(true), 'test sample')}, and the residuals, "
        f"whose mean size is {significant(float(np.abs(true - predicted).mean()))}."
    )
    caption = (
        "Test samples by the best candidate, fitted on all training rows: predicted against true, "
        "and the residuals."
    )
    return Chart("residuals", partial(series_chart, panels), alt, caption, wide=True)
