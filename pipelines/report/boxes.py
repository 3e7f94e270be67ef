"""Boxes of numbers after Tukey, and what every figure with axes has around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pipelines.report.style import BLUE, PALE, SKY, VERMILLION


@dataclass(frozen=True)
class BoxStatistics:
    """Quartiles of some numbers, and the furthest of them within 1.5 box lengths."""

    low: float
    q1: float
    median: float
    q3: float
    high: float


def box_statistics(values: np.ndarray) -> BoxStatistics:
    """What a box shows of the finite values, shape (n,) with n >= 1, after Tukey."""
    q1, median, q3 = (float(value) for value in np.percentile(values, [25, 50, 75]))
    reach = 1.5 * (q3 - q1)
    inside = values[(values >= q1 - reach) & (values <= q3 + reach)]
    return BoxStatistics(
        low=min(q1, float(inside.min())), q1=q1, median=median, q3=q3,
        high=max(q3, float(inside.max())),
    )  # fmt: skip


def add_boxes(axes: Axes, boxes: list[tuple[float, BoxStatistics, bool]], half: float) -> None:
    """Draw boxes, each with its place on the x axis and whether it stands out.

    They are collections: hundreds of boxes one by one would take seconds.
    """
    bodies = [
        [(x - half, s.q1), (x + half, s.q1), (x + half, s.q3), (x - half, s.q3)]
        for x, s, _ in boxes
    ]
    whiskers = [
        [(x, start), (x, end)]
        for x, s, _ in boxes
        for start, end in ((s.low, s.q1), (s.q3, s.high))
    ]
    medians = [[(x - half, s.median), (x + half, s.median)] for x, s, _ in boxes]
    faces = [VERMILLION if is_best else SKY for *_, is_best in boxes]
    edges = [VERMILLION if is_best else BLUE for *_, is_best in boxes]
    both = [edge for edge in edges for _ in range(2)]
    add = axes.add_collection
    add(LineCollection(whiskers, colors=both, linewidths=0.9, zorder=2), autolim=False)
    add(
        PolyCollection(bodies, facecolors=faces, edgecolors="none", alpha=0.45, gid="boxes"),
        autolim=False,
    )
    add(PolyCollection(bodies, facecolors="none", edgecolors=edges, lw=0.8), autolim=False)
    add(
        LineCollection(medians, colors=edges, linewidths=1.8, zorder=3, gid="medians"),
        autolim=False,
    )


def grid_lines(axes: Axes) -> None:
    """Quiet horizontal lines behind what is drawn."""
    axes.grid(axis="y", color=PALE, lw=0.8)
    axes.set_axisbelow(True)


def title_and_key(figure: Figure, title: str, handles: Sequence[Patch | Line2D]) -> None:
    """The title, and under it what the marks mean; a legend, so that neither covers the other."""
    figure.legend(
        handles=list(handles),
        title=title,
        title_fontproperties={"weight": "bold", "size": 11.5},
        alignment="left",
        loc="outside upper left",
        ncols=max(1, len(handles)),
        columnspacing=1.2,
        handlelength=1.2,
        handleheight=0.9,
    )
