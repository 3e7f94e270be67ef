"""The picture of uncertainty: what every member makes of a point, beside the point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from pipelines.report.bagging_folder import ExplainedPoint
from pipelines.report.boxes import add_boxes, grid_lines
from pipelines.report.classification_figures import class_name
from pipelines.report.style import GREY, INK, NARROW, VERMILLION, WIDE, fitting, is_phone
from pipelines.report.wording import shortened

MOST_LABELS = 20  # classes whose names have room under their boxes
# Of a panel, in inches.
HEIGHT, TITLE, FOOT, IMAGE, AXIS, EDGE = 1.55, 0.42, 0.42, 1.3, 0.6, 0.12


def certainty_panels(points: Sequence[ExplainedPoint], classes: Sequence[str]) -> Figure:
    """A panel for each point: its image, and a box of the members' certainty of every class.

    The box of the vote is orange; every member is a dot. After the box plots of
    the study this program grew from.

    Parameters
    ----------
    points : at least one
    classes : names of the class codes
    """
    n_columns = 1 if len(points) == 1 or is_phone() else 2
    n_rows = -(-len(points) // n_columns)
    width = fitting(NARROW if n_columns == 1 else WIDE)
    panel, step = width / n_columns, TITLE + HEIGHT + FOOT
    height = n_rows * step
    figure = Figure(figsize=(width, height))
    for place, point in enumerate(points):
        left = (place % n_columns) * panel + EDGE
        bottom = height - (place // n_columns + 1) * step + FOOT
        if point.image is not None:
            box = (left / width, (bottom + 0.1) / height, IMAGE / width, (HEIGHT - 0.1) / height)
            _draw_image(figure.add_axes(box), point.image)
        start = left + AXIS + (IMAGE if point.image is not None else 0)
        box = (start / width, bottom / height, (panel - EDGE - start + left - EDGE) / width,
               HEIGHT / height)  # fmt: skip
        _draw_boxes(figure.add_axes(box), point, classes)
        figure.text(
            left / width, (bottom + HEIGHT + 0.1) / height, _title(point, classes),
            weight="bold", fontsize=9, color=VERMILLION if point.refer else INK,
        )  # fmt: skip
    return figure


def said(point: ExplainedPoint, classes: Sequence[str]) -> str:
    """What the ensemble says of a point, in words."""
    n_members = len(point.probabilities)
    text = f"vote {class_name(classes, point.vote)}, {point.n_agree} of {n_members} members"
    return f"{text}; refer to a person" if point.refer else text


def _title(point: ExplainedPoint, classes: Sequence[str]) -> str:
    true = "" if point.true is None else f", true {shortened(class_name(classes, point.true), 8)}"
    between = ":\n" if is_phone() else ": "  # no room for it in one line
    return f"{shortened(point.name, 24)}{true}{between}{said(point, classes)}"


def _draw_image(axes: Axes, image: np.ndarray) -> None:
    axes.imshow(image, cmap="gray_r", vmin=0, vmax=max(1.0, float(image.max())),
                interpolation="none")  # fmt: skip
    height, width = image.shape
    axes.add_patch(
        Rectangle((-0.5, -0.5), width, height, fill=False, edgecolor=GREY, lw=0.5, clip_on=False)
    )
    axes.set_axis_off()
    axes.set_anchor("C")


def _draw_boxes(axes: Axes, point: ExplainedPoint, classes: Sequence[str]) -> None:
    n_members, n_classes = point.probabilities.shape
    half = 0.36
    grid_lines(axes)
    boxes = [
        (float(code), point.probabilities[:, code], code == point.vote) for code in range(n_classes)
    ]
    add_boxes(axes, boxes, half)
    # Side by side, as points one above the other would hide each other.
    offsets = np.linspace(-0.7, 0.7, n_members) * half if n_members > 1 else np.zeros(1)
    axes.scatter(
        (np.arange(n_classes) + offsets[:, None]).ravel(), point.probabilities.ravel(),
        s=max(2.0, min(9.0, 90 / n_members)), color=INK, alpha=0.7, lw=0, zorder=4, gid="members",
        clip_on=False,
    )  # fmt: skip
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
