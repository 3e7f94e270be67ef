"""Charts of all commands: series in panels, samples side by side, heat maps, and certainty."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cbook import boxplot_stats
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Affine2D

from pipelines.report.figure_values import MOST_OF_LINE, add_values
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
    WARM_INK,
    WIDE,
    one_axes,
    percent_axis,
    percent_labels,
    powers_of_ten,
    spans_a_decade,
)
from pipelines.report.wording import percent, shorten, significant
from pipelines.run_folder.measures import Measure

# For groups side by side. Each also has a mark of its own, as not all readers see all colours.
COLOURS = (BLUE, VERMILLION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK, GREY)
MARKS = "osD^vPX*"
MOST_MARKS = 2_000  # in a series; more are stored as pixels, since an SVG lists every mark
MOST_NUMBERED = 10  # rows or columns of a heat map whose cells still have room for a number
MOST_LABELS = 20  # classes whose names have room under their boxes
HEIGHT, IMAGE = 2.2, 1.4  # height of a certainty panel and width of its image, in inches
MOST_NAMED = 8  # ticks of an axis that get a label; with more, labels overlap
HATCH = "\\\\\\"  # of cells that were not tried on all folds
LEGEND: dict[str, Any] = {"columnspacing": 1.2, "handlelength": 1.2, "handleheight": 0.9}
LEGEND |= {"alignment": "left", "title_fontproperties": {"weight": "bold", "size": 11.5}}
DOT_LENGTH = 1e-6  # of a dot drawn as a line; in a PNG, lines of no length are left out
HALF = 0.36  # half the width of a box; samples are 1 apart
FEWEST_OF_A_BOX = 10  # numbers; quartiles of five folds tell less than the five numbers

DOTS = "a dot is one {one}; the line is their mean, the bar reaches one standard deviation from it"
BOXES = (
    "a dot is one {one}; a box spans their quartiles, its line is the median; the whiskers reach "
    "the furthest within 1.5 box lengths, what lies beyond is an outlier"
)


def how_to_read(n: int, noun: str) -> str:
    """A phrase for a caption that explains how samples of numbers are drawn.

    Parameters
    ----------
    n : int
        Numbers in a sample; from ``FEWEST_OF_A_BOX`` on, it is drawn as a box plot.
    noun : str
        What one number stands for, such as "fold" or "member".

    Returns
    -------
    str
    """
    return (BOXES if n >= FEWEST_OF_A_BOX else DOTS).format(one=noun)


@dataclass(frozen=True)
class Series:
    """Points of a chart, joined by a line or not.

    Attributes
    ----------
    x, y : array-like of shape (n,)
        Coordinates of the points.
    label : str
        Entry in the legend; empty for none.
    band : tuple of two array-likes of shape (n,), or None
        Lower and upper ends of the band that is shaded around the line.
    look : mapping
        Keyword arguments of ``Axes.plot``.
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
    series : sequence of Series
    xlabel, ylabel, title : str
    scales : tuple of two str
        Scales of x and y: "linear", "log", or "percent" for fractions, which is logarithmic where
        these span a decade.
    ticks : tuple of positions and labels, or None
        Ticks of an x axis that has labels in place of numbers.
    """

    series: Sequence[Series]
    xlabel: str
    ylabel: str
    title: str = ""
    scales: tuple[str, str] = ("linear", "linear")
    ticks: tuple[Sequence[float], Sequence[str]] | None = None


def dots(colour: str, mark: str = "o", size: float = 5, **look: Any) -> dict[str, Any]:
    """The look of a series whose points are marked and not joined."""
    return {"color": colour, "marker": mark, "markersize": size, "linestyle": "none", **look}


def dashed(colour: str = GREY) -> dict[str, Any]:
    """The look of a reference line, such as the diagonal of a calibration curve."""
    return {"color": colour, "linestyle": (0, (4, 3)), "linewidth": 1, "zorder": 1}


def series_chart(panels: Sequence[Panel], title: str = "", height: float = 3.8) -> Figure:
    """Draw panels of series, up to three in a row, with one legend for all.

    Panels that all have the same y label share the y axis.

    Parameters
    ----------
    panels : sequence of Panel
        At least one.
    title : str, default ""
    height : float, default 3.8
        Height of the figure in inches if there is one panel; otherwise it follows from the rows.

    Returns
    -------
    Figure
    """
    n_columns = min(3, len(panels))
    n_rows = -(-len(panels) // n_columns)
    size = (NARROW, height) if len(panels) == 1 else (WIDE, 0.6 + 2.9 * n_rows)
    figure = Figure(figsize=size, layout="constrained")
    is_shared = len({panel.ylabel for panel in panels}) == 1
    grid = figure.subplots(n_rows, n_columns, squeeze=False, sharey="all" if is_shared else "none")
    key: dict[str, Artist] = {}
    for axes, panel in zip(grid.flat, panels, strict=False):
        for series in panel.series:
            look = {"linewidth": 1.6} | dict(series.look)
            if series.band is not None and look.get("linestyle") == "none":
                axes.vlines(series.x, *series.band, color=look["color"], lw=2, alpha=0.4)
            elif series.band is not None:
                axes.fill_between(series.x, *series.band, color=look["color"], alpha=0.18, lw=0)
            if look.get("marker") and len(series.x) > MOST_MARKS:
                look["rasterized"] = True
            (line,) = axes.plot(series.x, series.y, **look)
            add_values(axes, *_values_of_series(panel, series))
            if series.label:
                line.set_label(series.label)
                key.setdefault(series.label, line)
        axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel, title=panel.title)
        if panel.scales[0] == "log":
            axes.set_xscale("log")
            powers_of_ten(axes.xaxis)
        elif panel.scales[0] == "percent":
            percent_axis(axes.xaxis)
        elif all(np.array_equal(curve.x, np.round(curve.x)) for curve in panel.series):
            axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        if panel.scales[1] == "log":
            axes.set_yscale("log")
            powers_of_ten(axes.yaxis)
        elif panel.scales[1] == "percent":
            y_values = np.concatenate(
                [
                    np.asarray(numbers, dtype=float)
                    for scaled_panel in (panels if is_shared else [panel])
                    for series in scaled_panel.series
                    for numbers in (series.y, *(series.band or ()))
                ]
            )
            percent_axis(axes.yaxis, y_values[np.isfinite(y_values) & (y_values >= 0)])
        if panel.ticks is not None:
            axes.set_xticks(*panel.ticks)
        grid_lines(axes)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    if title or len(key) > 1:
        title_and_key(figure, title, list(key.values()))
    return figure


def _values_of_series(panel: Panel, series: Series) -> tuple[Any, Any, list[str]]:
    """Coordinates and texts of the values of a series; of a long line, evenly spaced ones only."""
    x, y = (np.asarray(numbers, float) for numbers in (series.x, series.y))
    indices = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if series.look.get("linestyle") != "none" and len(indices) > MOST_OF_LINE:
        indices = indices[np.linspace(0, len(indices) - 1, MOST_OF_LINE).round().astype(int)]
    names = {} if panel.ticks is None else dict(zip(*panel.ticks, strict=True))
    in_words = [percent if scale == "percent" else significant for scale in panel.scales]
    texts, prefix = [], f"{series.label}: " if series.label else ""
    ends = [np.asarray(end, float) for end in series.band or ()]
    for i in indices:
        x_text = names.get(x[i]) or in_words[0](x[i])
        text = f"{prefix}{panel.xlabel} {x_text}, {panel.ylabel} {in_words[1](y[i])}"
        if ends:
            text += f" ({' to '.join(in_words[1](end[i]) for end in ends)})"
        texts.append(text)
    return x[indices], y[indices], texts


@dataclass(frozen=True)
class Sample:
    """Numbers drawn at one position of an axis.

    Attributes
    ----------
    position : float
        On the x axis.
    values : float array of shape (n,)
        NaN for a fit that failed.
    stands_out : bool
        Whether the sample is drawn in orange, as the best one is.
    """

    position: float
    values: np.ndarray
    stands_out: bool = False


def samples_chart(
    samples: Sequence[Sample],
    measure: Measure,
    title: str,
    names: Sequence[str],
    xlabel: str = "",
    width: float = NARROW,
) -> Figure:
    """Draw samples side by side, such as the folds of several candidates.

    Parameters
    ----------
    samples : sequence of Sample
        At positions 0, 1, ...
    measure : Measure
        Measure of the values.
    title : str
    names : sequence of str
        Label of each sample, on the x axis.
    xlabel : str, default ""
    width : float, default ``NARROW``
        Width of the figure in inches.

    Returns
    -------
    Figure
    """
    figure, axes = one_axes(4.5, width, xlabel=xlabel, ylabel=f"validation {measure.name}")
    add_samples(axes, samples, 3.5 if len(samples) < 16 else 2.5)
    names_by_position = dict(zip((sample.position for sample in samples), names, strict=False))
    for sample in samples:
        name = (
            f"{xlabel} = {names_by_position[sample.position]}"
            if xlabel
            else names_by_position[sample.position]
        )
        prefix = f"{name}: {measure.name}"
        add_sample_values(axes, sample, prefix, measure.text)
    if measure.is_error:
        all_values = np.concatenate([sample.values for sample in samples])
        percent_axis(axes.yaxis, all_values[np.isfinite(all_values)])
    axes.set_xlim(-0.7, len(samples) - 0.3)
    name_ticks(axes.xaxis, names)
    grid_lines(axes)
    title_and_key(figure, title, [])
    return figure


def add_sample_values(
    axes: Axes,
    sample: Sample,
    prefix: str,
    in_words: Callable[[float], str],
    each_value: bool = True,
) -> None:
    """Give the values of a sample a text that appears under the pointer.

    Parameters
    ----------
    axes : Axes
    sample : Sample
    prefix : str
        Beginning of every text.
    in_words : callable
        Writes a number as text.
    each_value : bool, default True
        Whether every number gets a text, besides the mean or the median.
    """
    x, is_finite = _positions_of(sample), np.isfinite(sample.values)
    values = sample.values[is_finite]
    if not len(values):
        return
    if len(values) >= FEWEST_OF_A_BOX:
        low, middle, high = np.percentile(values, [25, 50, 75])
        text = f"median {in_words(middle)}, quartiles {in_words(low)} and {in_words(high)}"
    else:
        middle = values.mean()
        text = f"mean {in_words(middle)}, standard deviation {in_words(values.std())}"
    add_values(axes, [sample.position], [middle], [f"{prefix}, {text}"])
    if each_value:
        texts = [f"{prefix} {in_words(value)}" for value in values]
        add_values(axes, x[is_finite], values, texts)


def _positions_of(sample: Sample) -> np.ndarray:
    """x coordinates of the dots of a sample, spread so that none hides another."""
    n = len(sample.values)
    return sample.position + (np.linspace(-0.6, 0.6, n) * HALF if n > 1 else np.zeros(1))


def name_ticks(axis: Axis, names: Sequence[str], max_ticks: int = MOST_NAMED) -> None:
    """Label the positions 0, 1, ... of an axis with at most ``max_ticks`` labels, evenly spaced."""
    step = -(-len(names) // max_ticks)
    axis.set_ticks(range(0, len(names), step), names[::step])


def add_samples(axes: Axes, samples: Sequence[Sample], dot: float) -> None:
    """Draw samples: every number as a dot, with their mean and standard deviation.

    Samples of ``FEWEST_OF_A_BOX`` numbers or more have a box plot instead. A failed fit is a cross
    at the top, as it has no value. Strokes that look alike are drawn as one path: with a path
    each, the 2,880 dots of a grid would make a page of half a megabyte.

    Parameters
    ----------
    axes : Axes
    samples : sequence of Sample
        At least one.
    dot : float
        Diameter of a dot in points.

    References
    ----------
    J. W. Tukey, Exploratory Data Analysis, Addison-Wesley, 1977.
    """
    dot_strokes, failed_positions = [], []
    look: dict[str, Any]
    for colour, stands_out in ((BLUE, False), (VERMILLION, True)):
        whiskers, middles, spreads = list[Any](), list[Any](), list[Any]()
        for sample in samples:
            if sample.stands_out is not stands_out:
                continue
            position, x = sample.position, _positions_of(sample)
            is_finite = np.isfinite(sample.values)
            failed_positions += list(x[~is_finite])
            values = sample.values[is_finite]
            dot_strokes += [
                ((dot_x, value), (dot_x + DOT_LENGTH, value))
                for dot_x, value in zip(x[is_finite], values, strict=True)
            ]
            if len(values) >= FEWEST_OF_A_BOX:
                box = boxplot_stats(values)[0]
                look = {"facecolor": SKY if colour == BLUE else colour, "edgecolor": colour}
                height = box["q3"] - box["q1"]
                axes.bar(position, height, 2 * HALF, box["q1"], alpha=0.5, gid="boxes", **look)
                whiskers += [
                    ((position, box[low]), (position, box[high]))
                    for low, high in (("whislo", "q1"), ("q3", "whishi"))
                ]
                middles.append(((position - HALF, box["med"]), (position + HALF, box["med"])))
            elif len(values):
                mean, std = values.mean(), values.std()
                spreads.append(((position, mean - std), (position, mean + std)))
                middles.append(((position - 0.7 * HALF, mean), (position + 0.7 * HALF, mean)))
        add_strokes(axes, spreads, color=colour, lw=3, alpha=0.35, gid="spread")
        add_strokes(axes, whiskers, color=colour, lw=0.9)
        add_strokes(axes, middles, color=colour, lw=1.8, zorder=3, gid="middles")
    look = {"lw": dot, "solid_capstyle": "round", "snap": False, "zorder": 4, "gid": "dots"}
    add_strokes(axes, dot_strokes, color=INK, alpha=0.7, **look)
    if failed_positions:
        look = {"marker": "x", "color": VERMILLION, "lw": 1, "zorder": 4, "clip_on": False}
        look |= {"transform": axes.get_xaxis_transform(), "gid": "failed"}
        axes.scatter(failed_positions, np.full(len(failed_positions), 0.97), s=4 * dot**2, **look)


def add_strokes(axes: Axes, strokes: Sequence[Any], **look: Any) -> None:
    """Draw straight lines as one path, which is broken between them.

    Parameters
    ----------
    axes : Axes
    strokes : sequence of shape (n, 2, 2)
        For each line, its two ends, each as x and y.
    **look
        Keyword arguments of ``Axes.plot``.
    """
    if len(strokes):
        ends = np.insert(np.asarray(strokes, dtype=float), 2, np.nan, axis=1)
        axes.plot(*ends.reshape(-1, 2).T, **look)


def matrix(
    axes: Axes, values: np.ndarray, texts: np.ndarray, size: float, **look: Any
) -> AxesImage:
    """Draw a matrix of coloured cells with a text on each, in black or white.

    Parameters
    ----------
    axes : Axes
    values : float array of shape (n_rows, n_columns)
        Values that the colours show; NaN for a cell without colour.
    texts : str array of shape (n_rows, n_columns)
        Empty for a cell without text.
    size : float
        Size of the texts in points.
    **look
        Keyword arguments of ``Axes.imshow``.

    Returns
    -------
    AxesImage
    """
    image = axes.imshow(np.ma.masked_invalid(values), **look)
    centred: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": size}
    centred["in_layout"] = False  # within the axes: the layout need not measure them
    is_dark = are_dark(np.asarray(image.cmap(image.norm(values)))[..., :3])
    for row, column in np.argwhere(texts != ""):
        on_colour = ON_DARK if is_dark[row, column] else ON_COLOUR
        colour = on_colour if np.isfinite(values[row, column]) else INK  # INK adapts to dark pages
        axes.text(column, row, texts[row, column], color=colour, **centred)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    return image


def are_dark(shades: np.ndarray) -> np.ndarray:
    """Whether white text has more contrast than black text on each colour.

    Parameters
    ----------
    shades : float array of shape (..., 3)
        sRGB values from 0 to 1.

    Returns
    -------
    bool array of shape (...)

    References
    ----------
    W3C, Web Content Accessibility Guidelines (WCAG) 2.2, 2023: relative luminance, contrast ratio.
    """
    linear = np.where(shades <= 0.04045, shades / 12.92, ((shades + 0.055) / 1.055) ** 2.4)
    luminance = linear @ (0.2126, 0.7152, 0.0722)
    return (luminance + 0.05) ** 2 < 1.05 * 0.05


def add_hatches(axes: Axes, image: AxesImage, values: np.ndarray, where: np.ndarray) -> None:
    """Hatch the cells of a matrix that ``where`` marks, in black or white by contrast.

    Texts on these cells get a plain background, so that the hatching does not cross them.
    """
    shades = np.asarray(image.cmap(image.norm(values)))[..., :3]
    is_dark = are_dark(shades)
    for colour, cells in ((ON_DARK, where & is_dark), (ON_COLOUR, where & ~is_dark)):
        squares = [
            Path.unit_rectangle().transformed(Affine2D().translate(column - 0.5, row - 0.5))
            for row, column in np.argwhere(cells)
        ]
        if squares:  # one path for all cells: a path for each takes ten times the bytes
            look = {"facecolor": "none", "edgecolor": colour, "hatch": HATCH, "lw": 0}
            axes.add_patch(PathPatch(Path.make_compound_path(*squares), gid="given up", **look))
    for text in axes.texts:
        column, row = map(int, text.get_position())
        if where[row, column]:
            text.set_bbox({"facecolor": shades[row, column], "edgecolor": "none", "pad": 1.2})


def norm_of(values: np.ndarray, measure: Measure) -> Normalize:
    """Normalisation of a colour map: logarithmic for errors that span a decade, else linear."""
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    if measure.name == "r2" and high > 0:  # below 0: worse than the mean of all
        low = max(0.0, low)
    if measure.is_error and spans_a_decade(finite[finite > 0]):
        return LogNorm(finite[finite > 0].min(), high, clip=True)
    return Normalize(low, high)


def add_colour_bar(figure: Figure, axes: Axes, coloured: Any, measure: Measure) -> None:
    """Draw the colour bar of an artist beside its axes."""
    bar = figure.colorbar(coloured, ax=axes, pad=0.02, fraction=0.06, aspect=28)
    bar.outline.set_visible(False)
    if measure.is_error:
        percent_labels(bar.ax.yaxis, isinstance(coloured.norm, LogNorm))


def scatter_map(
    points: pd.DataFrame,
    best: tuple[float, float] | None,
    measure: Measure,
    title: str,
    words: str,
) -> Figure:
    """Draw mean scores over two parameters that were drawn at random, the best with a ring.

    Parameters
    ----------
    points : DataFrame of three columns
        The parameter on the y axis and the parameter on the x axis, both above 0, and the mean
        score, NaN for a candidate without one.
    best : tuple of two floats, or None
        Parameters of the best candidate, in the order of ``points``.
    measure : Measure
        Measure of the means.
    title : str
    words : str
        Entry of the best candidate in the legend.

    Returns
    -------
    Figure
    """
    up, across, column = map(str, points.columns)
    figure, axes = one_axes(4.5, xlabel=across, ylabel=up, xscale="log", yscale="log")
    values, x, y = (points[name].to_numpy(float) for name in (column, across, up))
    is_finite, key = np.isfinite(values), list[Artist]()
    # The best are drawn last, so that no other mark hides them.
    order = np.argsort(values[is_finite] * (1 if measure.is_loss else -1), kind="stable")[::-1]
    finite_x, finite_y, shades = (axis_values[is_finite][order] for axis_values in (x, y, values))
    look: dict[str, Any] = {"cmap": COLOUR_MAP, "norm": norm_of(values, measure), "zorder": 3}
    look |= {"s": 58 if len(points) <= 200 else 24, "edgecolor": GREY, "lw": 0.8, "gid": "draws"}
    markers = axes.scatter(finite_x, finite_y, c=shades, **look)
    texts = [
        f"{across} = {significant(right)}, {up} = {significant(height)}: {measure.name} "
        f"{measure.text(shade)}"
        for right, height, shade in zip(finite_x, finite_y, shades, strict=True)
    ]
    add_values(axes, finite_x, finite_y, texts)
    if is_finite.any():
        add_colour_bar(figure, axes, markers, measure)
    if not is_finite.all():
        look = {"marker": "x", "color": GREY, "gid": "failed", "label": "failed, or not finished"}
        key.append(axes.scatter(x[~is_finite], y[~is_finite], **look))
    if best is not None:
        look = {"facecolor": "none", "edgecolor": VERMILLION, "zorder": 5, "clip_on": False}
        ring = axes.scatter([best[1]], [best[0]], s=150, lw=2.2, gid="best", label=words, **look)
        key.insert(0, ring)
    for axis in (axes.xaxis, axes.yaxis):
        powers_of_ten(axis)
    grid_lines(axes)
    axes.margins(0.06)
    title_and_key(figure, title, key)
    return figure


def heat_map(
    means: pd.DataFrame,
    best: tuple[float, float] | None,
    measure: Measure,
    title: str,
    words: str,
    parts: pd.DataFrame | None = None,
) -> Figure:
    """Draw mean scores over a grid of two parameters, the best in a frame.

    Cells without a mean are hatched.

    Parameters
    ----------
    means : DataFrame
        A row for each value of one parameter, a column for each value of the other. Both axes are
        ascending and have a name; NaN where there is no mean.
    best : tuple of two floats, or None
        Row and column of the best candidate.
    measure : Measure
        Measure of the means.
    title : str
    words : str
        Entry of the best candidate in the legend.
    parts : DataFrame, optional
        Like ``means``, for candidates that were not tried on all folds: the mean over the folds
        that they were tried on. These cells are coloured and hatched.

    Returns
    -------
    Figure
    """
    figure, axes = one_axes(4.5, xlabel=str(means.columns.name), ylabel=str(means.index.name))
    is_part = np.zeros(means.shape, bool)
    if parts is not None:
        is_part = (means.isna() & parts.notna()).to_numpy()
        means = means.fillna(parts)
    values = means.to_numpy(float)
    finite, norm = values[np.isfinite(values)], norm_of(values, measure)
    texts = np.full(values.shape, "", dtype="U12")
    if max(values.shape) <= MOST_NUMBERED:
        for cell_index, number in np.ndenumerate(100 * values if measure.is_error else values):
            texts[cell_index] = f"{number:#.3g}".rstrip(".") if np.isfinite(number) else ""
    image = matrix(
        axes, values, texts, 7.5, norm=norm, cmap=COLOUR_MAP, aspect="auto", origin="lower"
    )
    if finite.size:
        add_colour_bar(figure, axes, image, measure)
    key: list[Artist] = []
    look: dict[str, Any]
    if is_part.any():
        add_hatches(axes, image, values, is_part)
        look = {"facecolor": SKY, "edgecolor": INK, "hatch": HATCH, "lw": 0}
        key.append(Patch(label="not all folds", **look))
    if len(finite) < values.size:
        look = {"facecolor": PALE, "edgecolor": GREY, "hatch": "////", "lw": 0}
        axes.patch.set(**look)
        key.append(Patch(label="failed, or not finished", **look))
    add_cell_values(axes, means, measure, is_part)
    if best is not None:
        row, column = (
            int(np.abs(np.log(axis.to_numpy(float) / value)).argmin())
            for axis, value in zip((means.index, means.columns), best, strict=True)
        )
        look = {"fill": False, "edgecolor": VERMILLION, "lw": 2.2, "zorder": 5, "clip_on": False}
        frame = Rectangle((column - 0.5, row - 0.5), 1, 1, gid="best", **look)
        frame.set_path_effects([withStroke(linewidth=4.4, foreground="white")])
        axes.add_patch(frame)
        key.insert(0, Patch(facecolor="none", edgecolor=VERMILLION, lw=2, label=words))
    name_ticks(axes.xaxis, [*map(significant, means.columns.to_numpy(float))])
    name_ticks(axes.yaxis, [*map(significant, means.index.to_numpy(float))])
    title_and_key(figure, title, key)
    return figure


def add_cell_values(axes: Axes, means: pd.DataFrame, measure: Measure, is_part: np.ndarray) -> None:
    """Give every cell of a heat map a text to show under the pointer; see ``heat_map``."""
    texts = []
    up, across = means.index, means.columns
    heights, widths = up.to_numpy(float), across.to_numpy(float)
    for (row, column), value in np.ndenumerate(means.to_numpy(float)):
        text = f"{across.name} = {significant(widths.item(column))}, "
        text += f"{up.name} = {significant(heights.item(row))}: "
        text += f"{measure.name} {measure.text(value)}"
        if not np.isfinite(value):
            text = f"{text.rpartition(': ')[0]}: failed, or not finished"
        texts.append(f"{text}, not on all folds" if is_part[row, column] else text)
    rows, columns = np.indices(means.shape).reshape(2, -1)
    add_values(axes, columns, rows, texts, (0.5, 0.5))


def class_name(classes: Sequence[str], code: int) -> str:
    """Name of a class, or its code as text where the class has no name."""
    return classes[code] if 0 <= code < len(classes) else str(code)


@dataclass(frozen=True)
class ExplainedSample:
    """A sample, and how certain every member is of every class.

    Attributes
    ----------
    name : str
    true : int or None
        Class code; None where the true class is unknown.
    image : array of shape (h, w), uint8 array of shape (h, w, 3), or None
        Grey or coloured image; None for a row of a table.
    probabilities : float array of shape (n_members, n_classes)
    vote : int
        Class code of the ensemble's prediction.
    deferred : bool
        Whether the rule defers the sample to a human.
    """

    name: str
    true: int | None
    image: np.ndarray | None
    probabilities: np.ndarray
    vote: int
    deferred: bool


def certainty_panels(samples: Sequence[ExplainedSample], classes: Sequence[str]) -> Figure:
    """Draw a panel for each sample: its image, and the members' certainty of every class.

    Every member is a dot; from ``FEWEST_OF_A_BOX`` members on, there is also a box plot. The class
    of the vote is orange, and so is the title of a sample that is deferred. The panels follow the
    box plots of the study that this program grew from.
    """
    n_columns = min(2, len(samples))
    n_rows = -(-len(samples) // n_columns)
    has_images = any(sample.image is not None for sample in samples)
    panels = ["image", "certainty"] if has_images else ["certainty"]
    widths = [IMAGE, 3.5] if has_images else [1.0]
    width, height = NARROW if n_columns == 1 else WIDE, HEIGHT * n_rows
    figure = Figure(figsize=(width, height))
    left_margin = 0.1 / width if has_images else 0.6 / width
    margins = {"left": left_margin, "right": 1 - 0.1 / width, "hspace": 0.5, "wspace": 0.25}
    margins |= {"top": 1 - 0.4 / height, "bottom": 0.35 / height}
    shape, ratios = (n_rows, n_columns * len(panels)), widths * n_columns
    grid = figure.subplots(*shape, squeeze=False, width_ratios=ratios, gridspec_kw=margins)
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
        title = f"{shorten(sample.name, 24)}{f', true {shorten(true, 8)}' if true else ''}"
        box = row[0].get_position(original=True)
        text = f"{title}: {describe_prediction(sample, classes)}"
        colour, top = WARM_INK if sample.deferred else INK, box.y1 + 0.12 / height
        figure.text(box.x0, top, text, weight="bold", fontsize=9, color=colour)
    for axes in grid.flat[len(samples) * len(panels) :]:
        axes.set_axis_off()
    return figure


def describe_prediction(sample: ExplainedSample, classes: Sequence[str]) -> str:
    """The ensemble's prediction for a sample in words."""
    n_agree = np.sum(sample.probabilities.argmax(axis=1) == sample.vote)
    text = (
        f"vote {class_name(classes, sample.vote)}, {n_agree} of {len(sample.probabilities)} members"
    )
    return f"{text}; defer to a human" if sample.deferred else text


def _draw_certainty(axes: Axes, sample: ExplainedSample, classes: Sequence[str]) -> None:
    n_members, n_classes = sample.probabilities.shape
    grid_lines(axes)
    class_samples = [
        Sample(float(code), sample.probabilities[:, code], code == sample.vote)
        for code in range(n_classes)
    ]
    add_samples(axes, class_samples, max(1.5, min(3.0, 30 / n_members)))
    for code, class_sample in enumerate(class_samples):
        prefix = f"{sample.name}, class {class_name(classes, code)}: certainty"
        add_sample_values(axes, class_sample, prefix, "{:.3f}".format, each_value=False)
    axes.set(xlim=(-0.6, n_classes - 0.4), ylim=(-0.03, 1.03))
    axes.set_ylabel("certainty", labelpad=2, fontsize=9)
    axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"], fontsize=8.5)
    step = -(-n_classes // MOST_LABELS)
    names = [shorten(class_name(classes, code), 10) for code in range(0, n_classes, step)]
    look: dict[str, Any] = {"fontsize": 8.5, "ha": "center"}
    if sum(map(len, names)) > 40:  # characters that fit below the axis side by side
        look = {"fontsize": 6.5, "ha": "right", "rotation": 25}
    axes.set_xticks(range(0, n_classes, step), names, **look)
    axes.tick_params(axis="x", length=0, pad=2)


def grid_lines(axes: Axes) -> None:
    """Draw pale horizontal grid lines behind everything else."""
    axes.grid(axis="y", color=PALE, lw=0.8)
    axes.set_axisbelow(True)


def title_and_key(figure: Figure, title: str, handles: Sequence[Any]) -> None:
    """Set the title of a figure and, below it, the legend.

    The legend has fewer columns where long labels would be cut off at the edge of the figure.
    """
    most_columns = max(1, min(len(handles), 3 if figure.get_figwidth() < WIDE else 6))
    placement: dict[str, Any] = {"title": title, "loc": "outside upper left"}
    for n_columns in range(most_columns, 0, -1):
        legend = figure.legend(handles=list(handles), ncols=n_columns, **placement, **LEGEND)
        if n_columns == 1 or legend.get_window_extent().width <= 0.96 * figure.bbox.width:
            return
        legend.remove()
