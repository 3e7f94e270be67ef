"""The figures of a search over C and gamma: heat map and box plots of the fold errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke

from pipelines.report.boxes import add_boxes, grid_lines, mark_failed, title_and_key
from pipelines.report.style import (
    COLOUR_MAP,
    GREY,
    INK,
    NARROW,
    ON_COLOUR,
    ON_DARK,
    PALE,
    VERMILLION,
    WIDE,
    error_norm,
    fitting,
    is_phone,
    log10_labels,
    log_ticks,
    one_axes,
    percent_labels,
    percent_y_axis,
    spans_a_decade,
)
from pipelines.report.wording import percent, significant
from pipelines.run_folder.records.svm_grid import BestOfSvm

LOG_C, LOG_GAMMA = "log₁₀ C", "log₁₀ gamma"
MOST_PANELS = 24  # gammas with a panel of their own; the table of the candidates has all
MOST_NUMBERED = 10  # rows or columns of a heat map whose cells still have room for a number


def heat_map(
    candidates: pd.DataFrame,
    best: BestOfSvm | None,
    all_C: Sequence[float] = (),
    all_gamma: Sequence[float] = (),
) -> Figure:
    """Mean validation error over log10 C x log10 gamma, the best candidate framed.

    Parameters
    ----------
    candidates : DataFrame
        C, gamma and error_mean, a fraction; NaN where every fold failed.
    best : Candidate or None
        The candidate to frame.
    all_C, all_gamma : sequence of float
        The whole grid, where the run did not come to all of it.
    """
    Cs, gammas = grid_values(candidates["C"], all_C), grid_values(candidates["gamma"], all_gamma)
    log_C, log_gamma = np.log10(Cs), np.log10(gammas)
    means = np.full((len(gammas), len(Cs)), np.nan)
    is_there = np.zeros(means.shape, dtype=bool)
    place = nearest(gammas, candidates["gamma"]), nearest(Cs, candidates["C"])
    means[place] = candidates["error_mean"].to_numpy(dtype=float)
    is_there[place] = True

    figure, axes = one_axes(4.5, xlabel=LOG_C, ylabel=LOG_GAMMA)
    x, y = _edges(log_C), _edges(log_gamma)
    norm = error_norm(means[np.isfinite(means)])
    mesh = axes.pcolormesh(
        x, y, np.ma.masked_invalid(means), norm=norm, cmap=COLOUR_MAP, edgecolors="face", lw=0.2
    )
    if np.isfinite(means).any():
        _error_colourbar(figure, axes, mesh, means[np.isfinite(means)])
    key: list[Patch] = []
    for label, where, hatch in (
        ("failed", is_there & np.isnan(means), "////"),
        ("not finished", ~is_there, ""),
    ):
        if where.any():
            face, edge = (PALE, GREY) if hatch else ("white", PALE)
            squares = [_square(x, y, row, column) for row, column in np.argwhere(where)]
            axes.add_collection(
                PolyCollection(
                    squares, facecolors=face, edgecolors=edge, hatch=hatch, lw=0.4, gid=label
                )
            )
            key.append(Patch(facecolor=face, edgecolor=GREY, hatch=hatch, lw=0.5, label=label))
    if max(means.shape) <= MOST_NUMBERED:
        _write_numbers(axes, mesh, log_C, log_gamma, means)
    if best is not None:
        row, column = int(nearest(gammas, [best.gamma])[0]), int(nearest(Cs, [best.C])[0])
        axes.add_patch(_frame(x, y, row, column))
        label = (
            f"best: C = {significant(best.C)}, gamma = {significant(best.gamma)}, "
            f"{percent(best.error_mean)}"
        )
        key.insert(0, Patch(facecolor="none", edgecolor=VERMILLION, lw=2, label=label))
    axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    axes.spines[:].set_visible(False)
    log10_labels(axes.xaxis, log_C)
    log10_labels(axes.yaxis, log_gamma)
    title_and_key(figure, "Mean validation error", key)
    return figure


def fold_errors_best(cells: pd.DataFrame, best: BestOfSvm) -> Figure:
    """Box plot of the fold errors against log10 C at the best gamma, each fold a point."""
    gammas = grid_values(cells["gamma"])
    gamma = gammas[nearest(gammas, [best.gamma])[0]]
    cells = cells[cells["gamma"] == gamma]
    figure, axes = one_axes(4.5, xlabel=LOG_C, ylabel="validation error")
    percent_y_axis(axes, _finite(cells["error"]))
    _draw_boxes(axes, cells, best.C, point=11)
    log10_labels(axes.xaxis, np.log10(grid_values(cells["C"])))
    grid_lines(axes)
    label = f"best: C = {significant(best.C)}, mean {percent(best.error_mean)}"
    key: list[Patch | Line2D] = [
        Patch(facecolor=VERMILLION, alpha=0.45, label=label),
        Line2D([], [], marker="o", ls="", color=INK, markersize=3.5, label="one fold"),
    ]
    if cells["error"].isna().any():
        key.append(
            Line2D([], [], marker="x", ls="", color=VERMILLION, markersize=5, label="failed fold")
        )
    title_and_key(figure, f"Fold errors at gamma = {significant(gamma)}", key)
    return figure


def fold_errors(cells: pd.DataFrame, best: BestOfSvm | None) -> Figure:
    """Box plots of the fold errors against log10 C, a panel for each gamma, on shared axes.

    Of more than ``MOST_PANELS`` gammas it shows the best, and others at equal steps.
    """
    every_gamma = grid_values(cells["gamma"])
    best_place = None if best is None else int(nearest(every_gamma, [best.gamma])[0])
    best_gamma = None if best_place is None else every_gamma[best_place]
    gammas = every_gamma[_shown(len(every_gamma), best_place)]
    cells = cells[cells["gamma"].isin(gammas)]
    n_columns = _columns(len(gammas))
    n_rows = -(-len(gammas) // n_columns)
    width = fitting(WIDE if n_columns > 2 else NARROW)
    # Margins in inches: a constrained layout of 24 panels takes seconds.
    left, right, top, bottom, gap, panel = 0.85, 0.15, 0.62, 0.6, 0.36, 1.45
    height = top + bottom + n_rows * panel + (n_rows - 1) * gap
    figure = Figure(figsize=(width, height))
    figure.suptitle(
        "Fold errors for each gamma"
        if len(gammas) == len(every_gamma)
        else f"Fold errors for {len(gammas)} of {len(every_gamma)} gammas",
        x=0.15 / width,
        y=1 - 0.12 / height,
        ha="left",
        va="top",
    )
    panels = figure.subplots(
        n_rows, n_columns, sharex=True, sharey=True, squeeze=False,
        gridspec_kw={
            "left": left / width, "right": 1 - right / width,
            "top": 1 - top / height, "bottom": bottom / height,
            "hspace": gap / panel, "wspace": 0.08,
        },
    ).ravel()  # fmt: skip
    percent_y_axis(panels[0], _finite(cells["error"]))
    by_gamma = dict(list(cells.groupby("gamma")))
    every_C = grid_values(cells["C"])
    for axes, gamma in zip(panels, gammas, strict=False):
        is_best = gamma == best_gamma
        best_C = best.C if best is not None and is_best else None
        _draw_boxes(axes, by_gamma[gamma], best_C, point=3, every_C=every_C)
        grid_lines(axes)
        log10_labels(axes.xaxis, np.log10(every_C), most=6)
        title = ("" if is_phone() else "gamma = ") + significant(gamma)
        axes.set_title(
            title + (" (best)" if is_best else ""),
            fontsize=9.5, pad=4, weight="bold" if is_best else "normal",
            color=VERMILLION if is_best else INK,
        )  # fmt: skip
        if is_best:
            axes.spines[["left", "bottom"]].set(color=VERMILLION, linewidth=1.6)
    for axes in panels[len(gammas) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(gammas) - n_columns) : len(gammas)]:
        axes.tick_params(labelbottom=True)
    figure.supxlabel(LOG_C, fontsize=10, y=0.12 / height, va="bottom")
    figure.supylabel("validation error", fontsize=10, x=0.12 / width, ha="left")
    return figure


def _shown(n_panels: int, best: int | None) -> np.ndarray:
    """Which panels are drawn: all, or ``MOST_PANELS`` at equal steps, the best in its place."""
    shown = np.unique(np.linspace(0, n_panels - 1, min(n_panels, MOST_PANELS)).round().astype(int))
    if best is not None:
        shown[np.abs(shown - best).argmin()] = best
    return shown


def _columns(n_panels: int) -> int:
    """Four panels a row, or three where that leaves fewer places empty."""
    if is_phone():
        return min(n_panels, 2)
    return n_panels if n_panels < 4 else min((4, 3), key=lambda columns: -n_panels % columns)


def grid_values(present: pd.Series, every: Sequence[float] = ()) -> np.ndarray:
    """The grid's values in order: every one of them, if those present are among them."""
    values = np.unique(present.to_numpy(dtype=float))
    grid = np.unique(np.asarray(every, dtype=float))
    if grid.size and np.allclose(grid[nearest(grid, values)], values, rtol=1e-6):
        return grid
    return values


def nearest(grid: np.ndarray, values: pd.Series | Sequence[float] | np.ndarray) -> np.ndarray:
    """Place of the nearest grid value, in log10, to each of the values."""
    places, wanted = np.log10(grid), np.log10(np.asarray(values, dtype=float))
    after = np.clip(np.searchsorted(places, wanted), 1, max(1, len(grid) - 1))
    if len(grid) == 1:
        return np.zeros(len(wanted), dtype=int)
    is_after = places[after] - wanted < wanted - places[after - 1]
    return np.where(is_after, after, after - 1)


def _finite(errors: pd.Series) -> np.ndarray:
    values = errors.to_numpy(dtype=float)
    return values[np.isfinite(values)]


def _edges(centres: np.ndarray) -> np.ndarray:
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middles = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middles[0]], middles, [2 * centres[-1] - middles[-1]]])


def _square(x: np.ndarray, y: np.ndarray, row: int, column: int) -> list[tuple[float, float]]:
    left, right, bottom, top = x[column], x[column + 1], y[row], y[row + 1]
    return [(left, bottom), (right, bottom), (right, top), (left, top)]


def _frame(x: np.ndarray, y: np.ndarray, row: int, column: int) -> Rectangle:
    frame = Rectangle(
        (x[column], y[row]), x[column + 1] - x[column], y[row + 1] - y[row],
        fill=False, edgecolor=VERMILLION, lw=2.2, zorder=5, clip_on=False, gid="best",
    )  # fmt: skip
    frame.set_path_effects([withStroke(linewidth=4.4, foreground="white")])
    return frame


def _write_numbers(
    axes: Axes, mesh: QuadMesh, log_C: np.ndarray, log_gamma: np.ndarray, means: np.ndarray
) -> None:
    for row, column in np.argwhere(np.isfinite(means)):
        error = means[row, column]
        red, green, blue, _ = mesh.cmap(mesh.norm(error))
        is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        axes.text(
            log_C[column], log_gamma[row], f"{100 * error:.{1 if error >= 0.0995 else 2}f}",
            ha="center", va="center", fontsize=7.5, color=ON_DARK if is_dark else ON_COLOUR,
        )  # fmt: skip


def _error_colourbar(figure: Figure, axes: Axes, mesh: QuadMesh, errors: np.ndarray) -> None:
    bar = figure.colorbar(mesh, ax=axes, pad=0.02, fraction=0.06, aspect=28)
    bar.outline.set_visible(False)
    positive = errors[errors > 0]
    is_log = spans_a_decade(errors)
    percent_labels(bar.ax.yaxis, log_ticks(positive.min(), errors.max()) if is_log else None)


def _draw_boxes(
    axes: Axes,
    cells: pd.DataFrame,
    best_C: float | None,
    point: float,
    every_C: np.ndarray | None = None,
) -> None:
    """One box for each C, as collections: 24 x 24 boxes one by one would take seconds."""
    log_C = np.log10(grid_values(cells["C"]) if every_C is None else every_C)
    spacing = np.diff(log_C).min() if len(log_C) > 1 else 1.0
    half = 0.36 * spacing
    boxes: list[tuple[float, np.ndarray, bool]] = []
    points: list[np.ndarray] = []
    failed: list[float] = []
    by_C = dict(list(cells.sort_values("fold").groupby("C")))
    for C in grid_values(cells["C"]):
        of_C = by_C[C]
        x, errors = float(np.log10(C)), of_C["error"].to_numpy(dtype=float)
        offsets = x + np.linspace(-0.6, 0.6, len(errors)) * half if len(errors) > 1 else [x]
        points.append(np.column_stack([offsets, errors]))
        failed += list(np.asarray(offsets)[np.isnan(errors)])
        if np.isfinite(errors).any():
            is_best = best_C is not None and bool(np.isclose(C, best_C))
            boxes.append((x, errors[np.isfinite(errors)], is_best))
    add_boxes(axes, boxes, half)
    every_point = np.concatenate(points)
    axes.scatter(
        every_point[:, 0], every_point[:, 1], s=point, color=INK, alpha=0.75, lw=0,
        zorder=4, gid="folds",
    )  # fmt: skip
    mark_failed(axes, failed, 3 * point)
    axes.set_xlim(log_C[0] - 0.7 * spacing, log_C[-1] + 0.7 * spacing)
