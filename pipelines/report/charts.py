"""The charts of all commands: series in panels, samples side by side, and maps of a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cbook import boxplot_stats
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from pipelines.report.style import (
    BLUE,
    COLOUR_MAP,
    GREY,
    INK,
    NARROW,
    ON_COLOUR,
    ON_DARK,
    PALE,
    SKY,
    VERMILLION,
    WIDE,
    decades,
    error_norm,
    log_ticks,
    one_axes,
    percent_labels,
    percent_y_axis,
    powers_of_ten,
    spans_a_decade,
)
from pipelines.run_folder.measures import Measure

# Of groups side by side, which differ in their mark as well: not all readers see all colours.
COLOURS = (BLUE, VERMILLION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK, GREY)
MARKS = "osD^vPX*"
MOST_MARKS = 2_000  # of a series; more are stored as pixels
MOST_LAID_OUT = 9  # panels with labels of their own
MOST_NUMBERED = 10  # rows or columns of a heat map whose cells still have room for a number
FEWEST_OF_A_BOX = 10  # numbers; the quartiles of five folds say less than the five do

DOTS = "a dot is one {one}; the line is their mean, the bar reaches one standard deviation from it"
BOXES = (
    "a dot is one {one}; a box spans their quartiles, its line is the median; the whiskers reach "
    "the furthest within 1.5 box lengths, what lies beyond is an outlier"
)


def how_to_read(n: int, one: str) -> str:
    """Say in a caption how samples of n numbers are drawn, each of which is one fold, or so."""
    return (BOXES if n >= FEWEST_OF_A_BOX else DOTS).format(one=one)


@dataclass(frozen=True)
class Series:
    """Numbers against numbers, joined by a line or not.

    Attributes
    ----------
    x, y : of equal length
    label : in the key; none where empty
    band : the lower and upper end of what is shaded about the line
    look : what ``Axes.plot`` takes
    """

    x: Any
    y: Any
    label: str = ""
    band: tuple[Any, Any] | None = None
    look: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """Series on one pair of axes.

    Attributes
    ----------
    scales : of x and y: "linear", "log", or "percent" of fractions, which is logarithmic where
        they span a decade
    ticks : places on the x axis and their names, where it has no numbers
    """

    series: Sequence[Series]
    xlabel: str
    ylabel: str
    title: str = ""
    scales: tuple[str, str] = ("linear", "linear")
    ticks: tuple[Sequence[float], Sequence[str]] | None = None


def dots(colour: str, mark: str = "o", size: float = 5, **look: Any) -> dict[str, Any]:
    """Return the look of a series whose points are not joined."""
    return {"color": colour, "marker": mark, "markersize": size, "linestyle": "none", **look}


def dashed(colour: str = GREY) -> dict[str, Any]:
    """Return the look of a line that others are compared with."""
    return {"color": colour, "linestyle": (0, (4, 3)), "linewidth": 1, "zorder": 1}


def series_chart(
    panels: Sequence[Panel], title: str = "", height: float = 3.8, width: float = NARROW
) -> Figure:
    """Draw series in panels with one key; panels of one y label have one y axis, too."""
    # Three in a row; four, where there are many and that leaves no more places empty.
    n_columns = min(3, len(panels))
    if len(panels) > MOST_LAID_OUT and -len(panels) % 4 <= -len(panels) % 3:
        n_columns = 4
    n_rows = -(-len(panels) // n_columns)
    if len(panels) > 1:
        height, width = 0.6 + (2.9 if n_columns < 4 else 1.9) * n_rows, WIDE
    figure = Figure(figsize=(width, height), layout="constrained")
    is_shared = len({panel.ylabel for panel in panels}) == 1
    grid = figure.subplots(n_rows, n_columns, squeeze=False, sharey="all" if is_shared else "none")
    key: dict[str, Artist] = {}
    for axes, panel in zip(grid.flat, panels, strict=False):
        for series in panel.series:
            look = {"linewidth": 1.6} | dict(series.look)
            if series.band is not None:
                axes.fill_between(series.x, *series.band, color=look["color"], alpha=0.18, lw=0)
            if look.get("marker") and len(series.x) > MOST_MARKS:
                look["rasterized"] = True
            (line,) = axes.plot(series.x, series.y, **look)
            if series.label:
                line.set_label(series.label)
                key.setdefault(series.label, line)
        _finish(axes, panel, panels if is_shared else [panel])
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    if title or len(key) > 1:
        title_and_key(figure, title, list(key.values()))
    if len(panels) > MOST_LAID_OUT:
        # Labels of their own would take the room, and a constrained layout seconds.
        for axes in grid.flat:
            axes.label_outer()
        figure.set_layout_engine(None)
        figure.subplots_adjust(
            left=0.85 / width, right=1 - 0.15 / width, top=1 - 0.6 / height, bottom=0.6 / height,
            hspace=0.35, wspace=0.08,
        )  # fmt: skip
    return figure


def _finish(axes: Axes, panel: Panel, of_one_axis: Sequence[Panel]) -> None:
    """Set scales, limits, ticks and labels of a panel, and of those that share its y axis."""
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel, title=panel.title)
    if panel.scales[0] == "log":
        axes.set_xscale("log")
        powers_of_ten(axes.xaxis)
    elif panel.scales[0] == "percent":
        percent_labels(axes.xaxis)
    elif all(np.array_equal(one.x, np.round(one.x)) for one in panel.series):
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    if panel.scales[1] == "log":
        axes.set_yscale("log")
        powers_of_ten(axes.yaxis)
    elif panel.scales[1] == "percent":
        every = np.concatenate(
            [
                np.asarray(numbers, dtype=float)
                for one in of_one_axis for series in one.series
                for numbers in (series.y, *(series.band or ()))
            ]
        )  # fmt: skip
        percent_y_axis(axes, every[np.isfinite(every) & (every >= 0)])
    if panel.ticks is not None:
        axes.set_xticks(*panel.ticks)
    grid_lines(axes)


@dataclass(frozen=True)
class Sample:
    """Some numbers at a place of an axis, NaN for what failed; whether they stand out."""

    place: float
    values: np.ndarray
    stands_out: bool = False


def samples_chart(
    samples: Sequence[Sample],
    measure: Measure,
    title: str,
    names: Sequence[str] = (),
    xlabel: str = "",
    width: float = NARROW,
) -> Figure:
    """Draw samples side by side.

    Parameters
    ----------
    samples : at least one; their places are 0, 1, ... or, without ``names``, logarithms of values
    measure : of their numbers
    title : str
    names : of the samples
    xlabel, width : of the figure
    """
    figure, axes = one_axes(4.5, width, xlabel=xlabel, ylabel=f"validation {measure.name}")
    places = np.array([one.place for one in samples])
    spacing = float(np.diff(places).min()) if len(places) > 1 else 1.0
    add_samples(axes, samples, 0.36 * spacing, dot=3.5 if len(samples) < 16 else 2.5)
    if measure.is_error:
        every = np.concatenate([one.values for one in samples])
        percent_y_axis(axes, every[np.isfinite(every)])
    else:
        axes.autoscale_view()
    axes.set_xlim(places[0] - 0.7 * spacing, places[-1] + 0.7 * spacing)
    if names:
        axes.set_xticks(places, names, rotation=20 if len(names) > 4 else 0)
    else:
        decades(axes.xaxis, 10**places)
    grid_lines(axes)
    title_and_key(figure, title, [])
    return figure


def add_samples(axes: Axes, samples: Sequence[Sample], half: float, dot: float) -> None:
    """Draw every number of some samples as a dot, and what they come to.

    That is the mean and the standard deviation, from ``FEWEST_OF_A_BOX`` numbers on a box after
    Tukey. A failed one is a cross at the top, as it has no height. All that look alike are one
    path: the 2,880 dots of a grid would be a page of half a megabyte.

    Parameters
    ----------
    axes : Axes
    samples : at least one
    half : half the room of a sample on the x axis
    dot : diameter of a dot in points
    """
    every, failed = [], []
    for sample in samples:
        n = len(sample.values)
        # Side by side, as dots one above the other would hide each other.
        x = sample.place + (np.linspace(-0.6, 0.6, n) * half if n > 1 else np.zeros(1))
        is_there = np.isfinite(sample.values)
        every.append(np.column_stack([x, sample.values])[is_there])
        failed += list(x[~is_there])
    for colour, stands_out in ((BLUE, False), (VERMILLION, True)):
        alike = [
            (one.place, one.values[np.isfinite(one.values)])
            for one in samples
            if one.stands_out is stands_out and np.isfinite(one.values).any()
        ]
        few = [one for one in alike if len(one[1]) < FEWEST_OF_A_BOX]
        _add_means(axes, few, half, colour)
        _add_boxes(axes, [one for one in alike if len(one[1]) >= FEWEST_OF_A_BOX], half, colour)
    places = np.concatenate(every)
    add_strokes(
        axes, places, places, color=INK, alpha=0.7, lw=dot, capstyle="round", zorder=4, gid="dots"
    )
    if failed:
        axes.scatter(
            failed, np.full(len(failed), 0.97), s=4 * dot**2, marker="x", color=VERMILLION, lw=1,
            transform=axes.get_xaxis_transform(), zorder=4, clip_on=False, gid="failed",
        )  # fmt: skip


def add_strokes(axes: Axes, starts: Any, ends: Any, color: str, **look: Any) -> None:
    """Draw lines from each start to its end as one path.

    Parameters
    ----------
    starts, ends : float arrays of shape (n, 2)
    """
    if len(starts):
        corners = np.stack([starts, ends], axis=1).reshape(-1, 2)
        path = Path(corners, np.tile([Path.MOVETO, Path.LINETO], len(starts)))
        axes.add_patch(PathPatch(path, facecolor="none", edgecolor=color, **look))


def _add_means(
    axes: Axes, samples: Sequence[tuple[float, np.ndarray]], half: float, colour: str
) -> None:
    ends = np.array([(x, v.mean(), v.std()) for x, v in samples]).reshape(-1, 3)
    x, mean, std = ends.T
    add_strokes(
        axes, np.column_stack([x, mean - std]), np.column_stack([x, mean + std]), color=colour,
        lw=3, alpha=0.35, gid="spread",
    )  # fmt: skip
    left, right = np.column_stack([x - 0.7 * half, mean]), np.column_stack([x + 0.7 * half, mean])
    add_strokes(axes, left, right, color=colour, lw=1.8, zorder=3, gid="means")


def _add_boxes(
    axes: Axes, samples: Sequence[tuple[float, np.ndarray]], half: float, colour: str
) -> None:
    if not samples:
        return
    found = [(x, boxplot_stats(values)[0]) for x, values in samples]
    bodies = [
        [(x - half, s["q1"]), (x + half, s["q1"]), (x + half, s["q3"]), (x - half, s["q3"])]
        for x, s in found
    ]
    face = SKY if colour == BLUE else colour
    boxes = PolyCollection(bodies, facecolors=face, edgecolors=colour, alpha=0.5, gid="boxes")
    axes.add_collection(boxes, autolim=False)
    ends = (("whislo", "q1"), ("q3", "whishi"))
    starts = [(x, s[low]) for x, s in found for low, _ in ends]
    add_strokes(axes, starts, [(x, s[high]) for x, s in found for _, high in ends], color=colour,
                lw=0.9)  # fmt: skip
    medians = [[(x + side * half, s["med"]) for x, s in found] for side in (-1, 1)]
    add_strokes(axes, medians[0], medians[1], color=colour, lw=1.8, zorder=3, gid="medians")


def heat_map(
    means: pd.DataFrame, best: tuple[float, float] | None, measure: Measure, title: str, words: str
) -> Figure:
    """Draw a mean for each pair of two parameters on logarithmic axes, the best framed.

    Parameters
    ----------
    means : a row for each value of one parameter, a column for each of the other, both
        ascending and named; NaN where there is no mean
    best : values of the row and the column that are framed
    measure : of the means
    title, words : what the map shows, and its best in words
    """
    figure, axes = one_axes(4.5, xlabel=str(means.columns.name), ylabel=str(means.index.name))
    values, rows, columns = means.to_numpy(float), means.index, means.columns
    x, y = _edges(np.log10(columns.to_numpy(float))), _edges(np.log10(rows.to_numpy(float)))
    finite = values[np.isfinite(values)]
    if measure.is_error or not finite.size:
        norm = error_norm(finite)
    else:  # an r2 below 0 is worse than the mean of all: how much so says nothing
        low = max(0.0, finite.min()) if measure.name == "r2" and finite.max() > 0 else finite.min()
        norm = Normalize(low, finite.max())
    mesh = axes.pcolormesh(
        x, y, np.ma.masked_invalid(values), norm=norm, cmap=COLOUR_MAP, rasterized=True
    )
    if finite.size:
        bar = figure.colorbar(mesh, ax=axes, pad=0.02, fraction=0.06, aspect=28)
        bar.outline.set_visible(False)
        if measure.is_error:
            is_log = spans_a_decade(finite)
            ticks = log_ticks(finite[finite > 0].min(), finite.max()) if is_log else None
            percent_labels(bar.ax.yaxis, ticks)
    key: list[Artist] = []
    if (where := np.argwhere(np.isnan(values))).size:
        squares = [
            [(x[i], y[j]), (x[i + 1], y[j]), (x[i + 1], y[j + 1]), (x[i], y[j + 1])]
            for j, i in where
        ]
        look: Any = {"edgecolor": GREY, "hatch": "////", "lw": 0.4}
        axes.add_collection(PolyCollection(squares, facecolor=PALE, gid="none", **look))
        key.append(Patch(facecolor=PALE, label="failed, or not finished", **look))
    if max(values.shape) <= MOST_NUMBERED:
        for j, i in np.argwhere(np.isfinite(values)):
            mean = values[j, i]
            red, green, blue, _ = mesh.cmap(mesh.norm(mean))
            is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            digits = 1 if measure.is_error and mean >= 0.0995 else 2
            axes.text(
                (x[i] + x[i + 1]) / 2, (y[j] + y[j + 1]) / 2,
                f"{100 * mean if measure.is_error else mean:.{digits}f}", ha="center",
                va="center", fontsize=7.5, color=ON_DARK if is_dark else ON_COLOUR,
            )  # fmt: skip
    if best is not None:
        j, i = (int(np.abs(np.log(axis / value)).argmin())
                for axis, value in zip((rows, columns), best, strict=True))  # fmt: skip
        frame = Rectangle(
            (x[i], y[j]), x[i + 1] - x[i], y[j + 1] - y[j],
            fill=False, edgecolor=VERMILLION, lw=2.2, zorder=5, clip_on=False, gid="best",
        )  # fmt: skip
        frame.set_path_effects([withStroke(linewidth=4.4, foreground="white")])
        axes.add_patch(frame)
        key.insert(0, Patch(facecolor="none", edgecolor=VERMILLION, lw=2, label=words))
    axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    axes.spines[:].set_visible(False)
    decades(axes.xaxis, columns.to_numpy())
    decades(axes.yaxis, rows.to_numpy())
    title_and_key(figure, title, key)
    return figure


def _edges(centres: np.ndarray) -> np.ndarray:
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middles = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middles[0]], middles, [2 * centres[-1] - middles[-1]]])


def grid_lines(axes: Axes) -> None:
    """Draw quiet horizontal lines behind what is drawn."""
    axes.grid(axis="y", color=PALE, lw=0.8)
    axes.set_axisbelow(True)


def title_and_key(figure: Figure, title: str, handles: Sequence[Any]) -> None:
    """Set the title, and under it a legend of the marks, so that neither covers the other."""
    n_columns = max(1, min(len(handles), 3 if figure.get_figwidth() < WIDE else 6))
    figure.legend(
        handles=list(handles), title=title, title_fontproperties={"weight": "bold", "size": 11.5},
        alignment="left", loc="outside upper left", ncols=n_columns, columnspacing=1.2,
        handlelength=1.2, handleheight=0.9,
    )  # fmt: skip
