"""The figures of a cross-validation: boxes of algorithms, validation and learning curves, cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pipelines.report.boxes import add_boxes, grid_lines
from pipelines.report.style import (
    BLUE,
    GREY,
    INK,
    NARROW,
    SKY,
    VERMILLION,
    WIDE,
    fitting,
    is_phone,
    one_axes,
    powers_of_ten,
)
from pipelines.report.wording import shortened

LINES = (VERMILLION, BLUE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK, GREY)
MARKS = "osD^vPX*"
MOST_CURVES = 9


def algorithm_boxes(scores: Mapping[str, np.ndarray], scoring: str) -> Figure:
    """A box of scores over the folds for the best candidate of each algorithm, best first.

    Parameters
    ----------
    scores : of each algorithm, float array of shape (n_folds,)
    """
    figure, axes = one_axes(3.8, WIDE if len(scores) > 5 else NARROW, ylabel=scoring)
    boxes = [(float(i), values, i == 0) for i, values in enumerate(scores.values())]
    add_boxes(axes, boxes, 0.3)
    for place, values, _ in boxes:
        axes.plot(np.full(len(values), place), values, "o", color=INK, markersize=3, alpha=0.6)
    axes.set_xticks(range(len(scores)), [shortened(name.split(".")[-1], 18) for name in scores])
    axes.set_xlim(-0.6, len(scores) - 0.4)
    if len(scores) > 4:
        axes.tick_params(axis="x", rotation=20)
    grid_lines(axes)
    return figure


def validation_curves(curves: Sequence[tuple[str, str, pd.DataFrame]], scoring: str) -> Figure:
    """The score against each parameter that has several values, the others at their best.

    Parameters
    ----------
    curves : algorithm, parameter, table of ``value``, ``score_mean``, ``score_std``
    """
    n = min(len(curves), MOST_CURVES)
    n_columns = 1 if is_phone() else min(3, n)
    n_rows = math.ceil(n / n_columns)
    figure = Figure(
        figsize=(fitting(WIDE if n > 1 else NARROW), 0.6 + 2.6 * n_rows), layout="constrained"
    )
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    for axes, (algorithm, parameter, table) in zip(grid.flat, curves[:n], strict=False):
        _curve(axes, table)
        axes.set(title=shortened(algorithm.split(".")[-1], 28), xlabel=parameter, ylabel=scoring)
    for axes in grid.flat[n:]:
        axes.set_axis_off()
    return figure


def _curve(axes: Axes, table: pd.DataFrame) -> None:
    mean, std = table["score_mean"].to_numpy(), table["score_std"].to_numpy()
    values = pd.to_numeric(table["value"], errors="coerce").to_numpy(float)
    if np.isfinite(values).all():
        order = np.argsort(values)
        values, mean, std = values[order], mean[order], std[order]
        if values[0] > 0 and values[-1] >= 20 * values[0]:
            axes.set_xscale("log")
        axes.fill_between(values, mean - std, mean + std, color=SKY, alpha=0.5, lw=0)
        axes.plot(values, mean, marker="." if len(values) < 40 else None, color=BLUE)
        best = int(np.nanargmax(mean))
        axes.plot(values[best], mean[best], "o", color=VERMILLION, zorder=3)
        if axes.get_xscale() == "log":
            powers_of_ten(axes.xaxis)
    else:
        places = np.arange(len(mean))
        axes.errorbar(places, mean, yerr=std, fmt="o", color=BLUE, ecolor=SKY, elinewidth=4)
        axes.set_xticks(places, [shortened(str(value), 10) for value in table["value"]])
    grid_lines(axes)


def learning_curve(table: pd.DataFrame, scoring: str) -> Figure:
    """The score against the number of training rows, a line for each algorithm.

    Parameters
    ----------
    table : ``algorithm``, ``n_train``, ``score_mean``, ``score_std``
    """
    figure, axes = one_axes(3.8, xlabel="training rows", ylabel=scoring)
    for i, (name, line) in enumerate(table.groupby("algorithm", sort=False)):
        colour, line = LINES[i % len(LINES)], line.sort_values("n_train")
        axes.fill_between(
            line["n_train"], line["score_mean"] - line["score_std"],
            line["score_mean"] + line["score_std"], color=colour, alpha=0.12, lw=0,
        )  # fmt: skip
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.plot(
            line["n_train"], line["score_mean"], marker=MARKS[i % len(MARKS)], markersize=5,
            color=colour, label=shortened(str(name).split(".")[-1], 24),
        )  # fmt: skip
    grid_lines(axes)
    axes.legend(loc="lower right")
    return figure


def time_against_score(table: pd.DataFrame, scoring: str) -> Figure:
    """Every candidate: seconds of a fit against its score; the best is orange.

    Parameters
    ----------
    table : ``algorithm``, ``fit_seconds``, ``score_mean``, best first
    """
    figure, axes = one_axes(
        3.8, xlabel="seconds of a fit, what is shared dealt out", ylabel=scoring, xscale="log"
    )
    for i, (name, some) in enumerate(table.groupby("algorithm", sort=False)):
        axes.plot(
            some["fit_seconds"].clip(lower=1e-5), some["score_mean"], MARKS[i % len(MARKS)],
            color=LINES[1:][i % (len(LINES) - 1)], alpha=0.75, markersize=6,
            label=shortened(str(name).split(".")[-1], 24),
        )  # fmt: skip
    powers_of_ten(axes.xaxis)
    first = table.iloc[0]
    axes.plot(
        max(first["fit_seconds"], 1e-5), first["score_mean"], "o", markersize=13,
        markerfacecolor="none", markeredgecolor=VERMILLION, markeredgewidth=2,
    )  # fmt: skip
    grid_lines(axes)
    figure.legend(loc="outside upper left", ncols=1 if is_phone() else 3)
    return figure


def residuals(true: np.ndarray, predicted: np.ndarray) -> Figure:
    """Predicted against true numbers of the test points, and what is between them.

    Parameters
    ----------
    true, predicted : float arrays of shape (n_test,)
    """
    stacked = is_phone()
    figure = Figure(figsize=(fitting(WIDE), 6.4 if stacked else 3.8), layout="constrained")
    left, right = figure.subplots(2, 1) if stacked else figure.subplots(1, 2)
    low, high = min(true.min(), predicted.min()), max(true.max(), predicted.max())
    left.plot([low, high], [low, high], color=GREY, lw=1)
    left.plot(true, predicted, ".", color=BLUE, alpha=0.5)
    left.set(xlabel="true", ylabel="predicted")
    right.axhline(0, color=GREY, lw=1)
    right.plot(predicted, true - predicted, ".", color=BLUE, alpha=0.5)
    right.set(xlabel="predicted", ylabel="true − predicted")
    for axes in (left, right):
        grid_lines(axes)
    return figure


def critical_difference(ranks: Mapping[str, float], cliques: Sequence[Sequence[str]]) -> Figure:
    """Mean ranks over data sets (1 is best); a bar joins those that cannot be told apart.

    Parameters
    ----------
    ranks : of each algorithm
    cliques : names that no test tells apart
    """
    names = sorted(ranks, key=lambda name: ranks[name])
    n, joined = len(names), [clique for clique in cliques if len(clique) > 1]
    figure, axes = one_axes(
        1.2 + 0.28 * n + 0.18 * len(joined), WIDE, xlabel="mean rank over the data sets"
    )
    places = np.arange(n)
    axes.plot([ranks[name] for name in names], places, "o", color=BLUE)
    axes.set_yticks(places, [shortened(name.split(".")[-1], 28) for name in names])
    for i, clique in enumerate(joined):
        ends = [ranks[name] for name in clique]
        axes.plot([min(ends), max(ends)], [n + 0.6 * i] * 2, color=VERMILLION, lw=4,
                  solid_capstyle="butt")  # fmt: skip
    handles = [Line2D([], [], color=VERMILLION, lw=4, label="not told apart")] if joined else []
    if handles:
        axes.legend(handles=handles, loc="upper right")
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.margins(x=0.08)
    return figure
