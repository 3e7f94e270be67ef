"""Boxes of numbers after Tukey, and what every figure with axes has around them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cbook import boxplot_stats
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pipelines.report.style import BLUE, PALE, SKY, VERMILLION, is_phone

# What a caption says of boxes.
BOX_PLOT = (
    "a box spans their quartiles, its line is the median; the whiskers reach the furthest within "
    "1.5 box lengths, what lies beyond is an outlier"
)


def add_boxes(axes: Axes, boxes: Sequence[tuple[float, np.ndarray, bool]], half: float) -> None:
    """Draw boxes after Tukey, each of some finite numbers at a place, some that stand out.

    They are collections: hundreds of boxes one by one would take seconds.

    Parameters
    ----------
    axes : Axes
    boxes : places on the x axis, numbers of shape (n,) with n >= 1, whether it stands out
    half : float
        Half the width of a box.
    """
    places = [x for x, *_ in boxes]
    found = [one for _, values, _ in boxes for one in boxplot_stats(values)]
    both_of = list(zip(places, found, strict=True))
    bodies = [
        [(x - half, s["q1"]), (x + half, s["q1"]), (x + half, s["q3"]), (x - half, s["q3"])]
        for x, s in both_of
    ]
    whiskers = [
        [(x, start), (x, end)]
        for x, s in both_of
        for start, end in ((s["whislo"], s["q1"]), (s["q3"], s["whishi"]))
    ]
    medians = [[(x - half, s["med"]), (x + half, s["med"])] for x, s in both_of]
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


def mark_failed(axes: Axes, places: np.ndarray | Sequence[float], size: float) -> None:
    """Mark each failure by a cross at the top, as it has no height."""
    axes.scatter(
        places, np.full(len(places), 0.97), s=size, marker="x", color=VERMILLION, lw=1,
        transform=axes.get_xaxis_transform(), zorder=4, clip_on=False, gid="failed",
    )  # fmt: skip


def grid_lines(axes: Axes) -> None:
    """Draw quiet horizontal lines behind what is drawn."""
    axes.grid(axis="y", color=PALE, lw=0.8)
    axes.set_axisbelow(True)


def title_and_key(figure: Figure, title: str, handles: Sequence[Patch | Line2D]) -> None:
    """Set the title, and under it a legend of the marks, so that neither covers the other."""
    figure.legend(
        handles=list(handles), title=title, title_fontproperties={"weight": "bold", "size": 11.5},
        alignment="left", loc="outside upper left",
        ncols=1 if is_phone() else max(1, len(handles)), columnspacing=1.2, handlelength=1.2,
        handleheight=0.9,
    )  # fmt: skip
