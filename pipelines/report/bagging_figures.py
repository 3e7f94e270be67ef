"""The figure that only an ensemble has: the certainty of its members of each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.report.charts import Sample, add_samples, grid_lines
from pipelines.report.classification import class_name
from pipelines.report.style import GREY, INK, NARROW, VERMILLION, WIDE
from pipelines.report.wording import shortened

MOST_LABELS = 20  # classes whose names have room under their boxes
HEIGHT, IMAGE = 2.2, 1.4  # of a panel, in inches


@dataclass(frozen=True)
class ExplainedSample:
    """A sample, and how certain every member is of every class.

    Attributes
    ----------
    name : str
    true : int, or None where nobody knows
    image : array of shape (h, w), or uint8 (h, w, 3) if coloured, or None for a row of a table
    probabilities : float array of shape (n_members, n_classes)
    vote : int, class code
    deferred : bool
        Whether the rule defers the sample to a human.
    """

    name: str
    true: int | None
    image: np.ndarray | None
    probabilities: np.ndarray
    vote: int
    deferred: bool

    @property
    def n_agree(self) -> int:
        """Members whose most probable class is the vote."""
        return int(np.sum(self.probabilities.argmax(axis=1) == self.vote))


def certainty_panels(samples: Sequence[ExplainedSample], classes: Sequence[str]) -> Figure:
    """Draw a panel for each sample: its image, and the members' certainty of every class.

    The class of the vote is orange; every member is a dot, many are in a box. After the box plots
    of the study this program grew from.

    Parameters
    ----------
    samples : at least one
    classes : names of the class codes
    """
    n_columns = min(2, len(samples))
    n_rows = -(-len(samples) // n_columns)
    has_images = any(sample.image is not None for sample in samples)
    panels = ["image", "certainty"] if has_images else ["certainty"]
    widths = [IMAGE, 3.5] if has_images else [1.0]
    width, height = NARROW if n_columns == 1 else WIDE, HEIGHT * n_rows
    figure = Figure(figsize=(width, height))
    grid = figure.subplots(
        n_rows, n_columns * len(panels), squeeze=False, width_ratios=widths * n_columns,
        gridspec_kw={
            "left": 0.1 / width if has_images else 0.6 / width, "right": 1 - 0.1 / width,
            "top": 1 - 0.4 / height, "bottom": 0.35 / height, "hspace": 0.5, "wspace": 0.25,
        },
    )  # fmt: skip
    for sample, row in zip(samples, grid.reshape(-1, len(panels)), strict=False):
        if sample.image is not None:
            brightest = max(1.0, float(sample.image.max()))
            row[0].imshow(sample.image, cmap="gray_r", vmin=0, vmax=brightest, interpolation="none")
            row[0].set(xticks=[], yticks=[])
            row[0].spines[:].set(visible=True, edgecolor=GREY, lw=0.5)
        elif has_images:
            row[0].set_axis_off()
        _draw_certainty(row[-1], sample, classes)
        true = "" if sample.true is None else class_name(classes, sample.true)
        title = f"{shortened(sample.name, 24)}{f', true {shortened(true, 8)}' if true else ''}"
        box = row[0].get_position(original=True)
        figure.text(
            box.x0, box.y1 + 0.12 / height, f"{title}: {describe_prediction(sample, classes)}",
            weight="bold", fontsize=9, color=VERMILLION if sample.deferred else INK,
        )  # fmt: skip
    for axes in grid.flat[len(samples) * len(panels) :]:
        axes.set_axis_off()
    return figure


def describe_prediction(sample: ExplainedSample, classes: Sequence[str]) -> str:
    """Describe the ensemble's prediction for a sample in words."""
    n_members = len(sample.probabilities)
    text = f"vote {class_name(classes, sample.vote)}, {sample.n_agree} of {n_members} members"
    return f"{text}; defer to a human" if sample.deferred else text


def _draw_certainty(axes: Axes, sample: ExplainedSample, classes: Sequence[str]) -> None:
    n_members, n_classes = sample.probabilities.shape
    grid_lines(axes)
    of_classes = [
        Sample(float(code), sample.probabilities[:, code], code == sample.vote)
        for code in range(n_classes)
    ]
    add_samples(axes, of_classes, 0.36, max(1.5, min(3.0, 30 / n_members)))
    axes.set(xlim=(-0.6, n_classes - 0.4), ylim=(-0.03, 1.03))
    axes.set_ylabel("certainty", labelpad=2, fontsize=9)
    axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"], fontsize=8.5)
    step = -(-n_classes // MOST_LABELS)
    names = [shortened(class_name(classes, code), 10) for code in range(0, n_classes, step)]
    is_long = sum(map(len, names)) > 40
    axes.set_xticks(
        range(0, n_classes, step), names, fontsize=6.5 if is_long else 8.5,
        rotation=25 if is_long else 0, ha="right" if is_long else "center",
    )  # fmt: skip
    axes.tick_params(axis="x", length=0, pad=2)
