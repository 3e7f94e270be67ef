"""Test samples on a page: confusion matrix, table of classes, wrong samples; or residuals."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import partial
from io import BytesIO

import numpy as np
import pandas as pd
import PIL.Image
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from pipelines.report.charts import (
    Panel,
    Series,
    class_name,
    dashed,
    dots,
    matrix,
    name_ticks,
    series_chart,
)
from pipelines.report.figure_values import add_values
from pipelines.report.parts import (
    MOST_ROWS,
    Chart,
    Folded,
    Gallery,
    Listing,
    Part,
    Section,
    SideBySide,
    Text,
)
from pipelines.report.style import BLUE, SKY
from pipelines.report.wording import count, percent, shorten, significant
from pipelines.run_folder.names import PREDICTIONS
from pipelines.run_folder.reading import RunData

MOST_BESIDE = 15  # classes up to which a confusion matrix fits into half the page
MOST_NUMBERED = 30  # classes up to which a cell has room for its count
MOST_IMAGES = 40  # of wrong test samples on a page
BEST = "by the best candidate, fitted on all training rows"
SURENESS = ("margin", "certainty")  # columns that say how sure a prediction was


def test_section(run: RunData, by: str = BEST) -> Section:  # noqa: PT028  it is not a test
    """The section on the test samples of a classifier or a regressor.

    Parameters
    ----------
    run : RunData
    by : str, default ``BEST``
        What predicted the samples of a regression, for the caption.

    Returns
    -------
    Section
        Without parts where the run has no predictions.
    """
    parts: list[Part | None] = []
    if run.residuals is not None and len(run.residuals):
        parts = [residuals_chart(run.residuals, by)]
    elif run.predictions is not None and len(run.predictions):
        true, predicted = (run.predictions[name].to_numpy() for name in ("true", "predicted"))
        n_classes = max(len(run.classes), int(max(true.max(), predicted.max())) + 1)
        names = [class_name(run.classes, code) for code in range(n_classes)]
        counts = np.bincount(true * n_classes + predicted, minlength=n_classes**2)
        counts = counts.reshape(n_classes, n_classes)
        table, shares = class_table(counts, names)
        classes = Listing("Classes", table, dict.fromkeys(shares, percent), tall=False)
        parts = [SideBySide([_confusion(counts, names), classes]), *_wrong_parts(run)]
    return Section("test", "Test samples", parts)


def class_table(counts: np.ndarray, names: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """A table of recall, precision and F1 for each class, with their means in the last row.

    Parameters
    ----------
    counts : int array of shape (n_classes, n_classes)
        Number of samples by true class (row) and predicted class (column).
    names : sequence of str
        Names of the classes.

    Returns
    -------
    table : DataFrame
        Classes without samples and without predictions are left out.
    fractions : list of str
        Names of the columns that are fractions.
    """
    right, present, predicted = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    table = pd.DataFrame({"class": names, "samples": present, "correct": right})
    # A class that was never predicted has no precision: it is NaN.
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = {
            "recall": right / present,
            "precision": right / predicted,
            "F1": 2 * right / (present + predicted),
        }
    table = table.assign(**shares)[present + predicted > 0]
    total = {"class": "mean", "samples": present.sum(), "correct": right.sum()}
    means = pd.DataFrame([total | {name: table[name].mean() for name in shares}])
    return pd.concat([table, means], ignore_index=True), list(shares)


def confusion_matrix(counts: np.ndarray, names: Sequence[str]) -> Figure:
    """Draw the confusion matrix: counts of test samples by true and predicted class.

    Only errors are on the colour scale. Correct samples, on the diagonal, are so many that on a
    common scale every error would look like zero.

    Parameters
    ----------
    counts : int array of shape (n_classes, n_classes)
        True class by row, predicted class by column.
    names : sequence of str

    Returns
    -------
    Figure
    """
    n_classes, n_samples = len(counts), int(counts.sum())
    n_wrong, is_numbered = n_samples - int(np.trace(counts)), n_classes <= MOST_NUMBERED
    side = min(max(0.37 * n_classes, 2.6), 9.4)
    labels = [shorten(name, 14) for name in names]
    longest = max(map(len, labels))
    margin = 0.75 + 0.08 * longest
    size = (side + margin + (0 if is_numbered else 0.9), side + margin)
    figure = Figure(figsize=size, layout="constrained")
    space = "\n" if n_classes < 8 else " "  # a figure of few classes is narrow
    title = (
        f"{n_wrong:,} of {n_samples:,} test samples wrong{space}({percent(n_wrong / n_samples)})"
    )
    figure.suptitle(title, x=0.02, ha="left", fontsize=10.5)
    axes = figure.add_subplot(xlabel="predicted class", ylabel="true class")
    errors = np.where(np.eye(n_classes, dtype=bool) | (counts == 0), np.nan, counts)
    texts = np.array(
        [
            [f"{cell_count:,}" if cell_count and is_numbered else "" for cell_count in row]
            for row in counts
        ]
    )
    n_digits = max(2, len(f"{counts.max():,}"))
    # The scale ends a little above the most frequent error, and at 4 or more: one error is pale.
    top = max(4.0, 1.15 * float(np.nan_to_num(errors).max()))
    # As large as the longest count fits into a cell: a digit is about 0.64 of the font size wide.
    fontsize = min(11.0, 72 * side / n_classes * 0.85 / (0.64 * n_digits))
    image = matrix(axes, errors, texts, fontsize, cmap="YlOrRd", vmin=0, vmax=top, gid="errors")
    for class_code in range(n_classes):
        axes.add_patch(
            Rectangle((class_code - 0.5, class_code - 0.5), 1, 1, color=SKY, alpha=0.5, lw=0)
        )
    rows, columns = np.nonzero(counts)
    of_cells = [
        f"true {names[row]}, predicted {names[column]}: {count(counts[row, column], 'test sample')}"
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    ]
    add_values(axes, columns, rows, of_cells, (0.5, 0.5))
    if not is_numbered:
        figure.colorbar(image, ax=axes, shrink=0.6, label="test samples")
    for axis in (axes.xaxis, axes.yaxis):
        name_ticks(axis, labels, MOST_NUMBERED)
    if not is_numbered or 0.09 * longest >= side / n_classes:
        axes.tick_params("x", rotation=90)
    boundaries, ends = np.arange(n_classes + 1) - 0.5, (-0.5, n_classes - 0.5)
    axes.vlines(boundaries, *ends, color="#D3DAE1", lw=0.5)
    axes.hlines(boundaries, *ends, color="#D3DAE1", lw=0.5)
    return figure


def _confusion(counts: np.ndarray, names: Sequence[str]) -> Chart:
    errors = counts - np.diag(np.diag(counts))
    alt = f"Confusion matrix of {count(counts.sum(), 'test sample')}, {errors.sum()} of them wrong"
    if errors.any():
        row, column = np.unravel_index(errors.argmax(), errors.shape)
        alt += (
            f"; the most frequent error is {names[row]} taken for {names[column]}, "
            f"{count(int(errors.max()), 'time')}"
        )
    caption = "Counts of test samples: correct ones in blue, errors in yellow to red."
    draw = partial(confusion_matrix, counts, names)
    return Chart("confusion_matrix", draw, caption, len(names) > MOST_BESIDE, f"{alt}.")


def _wrong_parts(run: RunData) -> list[Part | None]:
    """The wrong test samples, the most certain ones first: their number, images and a table."""
    assert run.predictions is not None
    wrong = run.predictions[run.predictions["true"] != run.predictions["predicted"]]
    heading = Text("Wrong test samples", "h3")
    if wrong.empty:
        return [heading, Text("Every test sample was classified correctly.")]
    by = [name for name in SURENESS if name in wrong][:1]
    wrong = wrong.sort_values(by, ascending=False, kind="stable") if by else wrong
    wrong = wrong[["row", "true", "predicted", *by]].copy()
    for column in ("true", "predicted"):
        wrong[column] = [class_name(run.classes, code) for code in wrong[column]]
    data_uris, images = pictures(run.wrong_images), []
    for row, true, predicted in zip(wrong["row"], wrong["true"], wrong["predicted"], strict=True):
        if row in data_uris:
            alt = f"Test sample {row}: {true} taken for {predicted}"
            images.append((data_uris[row], f"{row}: {true} → {predicted}", alt))
    images = images[:MOST_IMAGES]
    note = count(len(wrong), "wrong test sample")
    if len(wrong) > MOST_ROWS:
        note = f"The first {MOST_ROWS:,} of {note} (all of them are in {PREDICTIONS})"
    note += f", those of the largest {by[0]} first." if by else "."
    table = Listing("Wrong test samples", wrong, dict.fromkeys(by, "{:.3f}".format))
    if not images:
        return [heading, Text(note), table]
    if len(images) < len(wrong):
        note = f"{note} The first {len(images)} are shown; the table has more."
    legend = "Under each image: row: true → predicted."
    return [heading, Text(f"{note} {legend}"), Gallery(images), Folded("As a table", [table])]


def pictures(images: Mapping[int, np.ndarray]) -> dict[int, str]:
    """Encode images as data URIs of PNGs.

    Parameters
    ----------
    images : mapping of int to array
        By row number: of shape (h, w) with large values for ink, which is drawn dark, or (h, w, 3)
        in colour. All grey images share one scale, up to the brightest pixel of all.

    Returns
    -------
    dict of int to str
    """
    brightest = max((1.0, *(float(pixels.max()) for pixels in images.values())))
    uris = {}
    for row, pixels in images.items():
        shades = pixels  # colour images stay as they are; a single channel is ink
        if pixels.ndim == 2:
            shades = 255 - np.clip(255 * pixels.astype(float) / brightest, 0, 255)
        file = BytesIO()
        PIL.Image.fromarray(shades.astype(np.uint8)).save(file, format="png")
        encoded = base64.b64encode(file.getvalue()).decode("ascii")
        uris[row] = f"data:image/png;base64,{encoded}"
    return uris


def residuals_chart(residuals: pd.DataFrame, by: str) -> Chart:
    """A chart of predicted against true numbers, and of the residuals.

    Parameters
    ----------
    residuals : DataFrame
        With the columns ``true`` and ``predicted``.
    by : str
        What made the predictions, for the caption.

    Returns
    -------
    Chart
    """
    true, predicted = (residuals[name].to_numpy(float) for name in ("true", "predicted"))
    ends = [min(true.min(), predicted.min()), max(true.max(), predicted.max())]
    look = dots(BLUE, ".", alpha=0.5)
    exact, zero = (Series(ends, heights, look=dashed()) for heights in (ends, [0, 0]))
    residual_series = Series(predicted, true - predicted, look=look)
    panels = [
        Panel([exact, Series(true, predicted, look=look)], "true", "predicted"),
        Panel([zero, residual_series], "predicted", "true − predicted"),
    ]
    alt = (
        f"Predicted against true numbers of {count(len(true), 'test sample')}, and the residuals, "
        f"whose mean size is {significant(float(np.abs(true - predicted).mean()))}."
    )
    caption = f"Test samples {by}: predicted against true, and the residuals."
    return Chart("residuals", partial(series_chart, panels), caption, wide=True, alt=alt)
