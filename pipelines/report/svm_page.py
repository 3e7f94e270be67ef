"""The page of a run of ``svm_grid``: its figures, its answers, its words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke

from pipelines.report.charts import BOX_PLOT, add_boxes, grid_lines, mark_failed, title_and_key
from pipelines.report.classification import test_section
from pipelines.report.figures import Made, of_any_run
from pipelines.report.kind import Answer, Chart, Columns, Kind, Listing, Part, Section, Text
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
from pipelines.report.table import AS_GOOD, MOST_ROWS, Table, number_cell
from pipelines.report.wording import count, describe_ties, log10, percent, significant, wrong_of
from pipelines.run_folder import ranking
from pipelines.run_folder.columns import SVM_CANDIDATE, SVM_CELL, SvmCandidate
from pipelines.run_folder.reading import Run, read_run
from pipelines.run_folder.records.svm_grid import BestOfSvm, SvmRecord
from pipelines.run_folder.statistics import on_grid_boundary, widen, within_one_standard_error

LOG_C, LOG_GAMMA = "log₁₀ C", "log₁₀ gamma"
MOST_PANELS = 24  # gammas with a panel of their own; the table of the candidates has all
MOST_NUMBERED = 10  # rows or columns of a heat map whose cells still have room for a number


def heat_map(
    candidates: pd.DataFrame,
    best: BestOfSvm | None,
    all_C: Sequence[float] = (),
    all_gamma: Sequence[float] = (),
) -> Figure:
    """Draw the mean validation error over log10 C x log10 gamma, the best candidate framed.

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
    """Draw box plot of the fold errors against log10 C at the best gamma, each fold a point."""
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
    """Draw box plots of the fold errors against log10 C, a panel for each gamma, on shared axes.

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
    """Choose the panels to draw: all, or ``MOST_PANELS`` evenly spaced, with the best in place."""
    shown = np.unique(np.linspace(0, n_panels - 1, min(n_panels, MOST_PANELS)).round().astype(int))
    if best is not None:
        shown[np.abs(shown - best).argmin()] = best
    return shown


def _columns(n_panels: int) -> int:
    """Return the panels of a row: four, or three where that leaves fewer places empty."""
    if is_phone():
        return min(n_panels, 2)
    return n_panels if n_panels < 4 else min((4, 3), key=lambda columns: -n_panels % columns)


def grid_values(present: pd.Series, every: Sequence[float] = ()) -> np.ndarray:
    """Return the grid's values in order: every one of them, if those present are among them."""
    values = np.unique(present.to_numpy(dtype=float))
    grid = np.unique(np.asarray(every, dtype=float))
    if grid.size and np.allclose(grid[nearest(grid, values)], values, rtol=1e-6):
        return grid
    return values


def nearest(grid: np.ndarray, values: pd.Series | Sequence[float] | np.ndarray) -> np.ndarray:
    """Return the position of the grid value nearest to each value, in log10."""
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
    """Draw a box for each C as collections: 24 x 24 separate boxes would take seconds."""
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


ACCURACY = "accuracy"  # the scoring of a run that names none: 1 - error
MOST_POINTS = 100_000  # of a grid's axis


class SvmRun(Run[SvmRecord]):
    """A run over C and gamma: ``candidates`` has one row per (C, gamma), best first."""

    @property
    def best(self) -> BestOfSvm | None:
        """The best candidate: as the run recorded it, else rank 1 of the candidates."""
        if self.record.best is not None and self.record.best.error_mean is not None:
            return self.record.best
        scored = self.candidates[self.candidates["error_mean"].notna()]
        if scored.empty:
            return None
        first = scored.iloc[0].dropna().to_dict()
        return BestOfSvm(**{name: float(first[name]) for name in BestOfSvm.model_fields
                            if name in first})  # fmt: skip

    @property
    def scoring(self) -> str:
        """The scoring by which the best candidate was chosen."""
        return str(self.record.options.scoring or "accuracy")


def read_svm_run(folder: Path) -> SvmRun:
    """Read the folder of a run of ``svm_grid``; raises what ``read_run`` raises."""
    run = read_run(folder, candidate=SvmCandidate, place=SVM_CELL, candidates_of=candidates_of)
    best_first = run.candidates.sort_values(["rank", *SVM_CANDIDATE], kind="stable")
    return SvmRun(**vars(run) | {"candidates": best_first.reset_index(drop=True)})


def candidates_of(cells: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """Return the candidates of a run that has ranked none, best first."""
    if cells.empty:
        return pd.DataFrame(columns=list(SvmCandidate.columns()), dtype=float)
    accuracy = 1 - cells["error"]  # a run begun before there were scorings has errors alone
    score = cells["score"].fillna(accuracy) if "score" in cells else accuracy
    return ranking.candidates_of(cells.assign(score=score), SVM_CANDIDATE, n_folds)


def _heat_map(run: SvmRun) -> Made:
    candidates = run.candidates
    if candidates.empty:
        return None
    alt = f"Heat map of the mean validation error of {count(len(candidates), 'candidate')}"
    if run.best is not None:
        alt += (
            f"; the best{_by_scoring(run)} is C = {significant(run.best.C)}, "
            f"gamma = {significant(run.best.gamma)} with an error of {percent(run.best.error_mean)}"
        )
    options = run.record.options
    grids = _grid(options.log_c, options.n_c), _grid(options.log_gamma, options.n_gamma)
    return heat_map(candidates, run.best, *grids), alt + "."


def _by_scoring(run: SvmRun) -> str:
    return "" if run.scoring == ACCURACY else f" by {run.scoring}"


def _grid(ends: Sequence[float] | None, n_samples: int | None) -> list[float]:
    """Return the whole grid of C or gamma as the options say it; empty where they do not."""
    if ends is None or len(ends) != 2 or not n_samples or n_samples > MOST_POINTS:
        return []
    if max(map(abs, ends)) > 300:  # beyond what a double can hold
        return []
    return [float(value) for value in np.logspace(ends[0], ends[1], n_samples)]


def _fold_errors_best(run: SvmRun) -> Made:
    if run.best is None or run.cells.empty:
        return None
    alt = (
        f"Box plot of the validation errors of the folds against log10 C at the best gamma, "
        f"{significant(run.best.gamma)}; the best C{_by_scoring(run)} is "
        f"{significant(run.best.C)}, with a mean error of {percent(run.best.error_mean)}."
    )
    return fold_errors_best(run.cells, run.best), alt


def _fold_errors(run: SvmRun) -> Made:
    if run.cells.empty:
        return None
    n_gamma = run.cells["gamma"].nunique()
    alt = (
        "Box plots of the validation errors of the folds against log10 C, "
        f"{count(min(n_gamma, MOST_PANELS), 'panel')}, one for each gamma"
        + ("" if n_gamma <= MOST_PANELS else f" of {MOST_PANELS} among {n_gamma}")
        + ", on the same axes."
    )
    return fold_errors(run.cells, run.best), alt


def _size(run: SvmRun) -> str:
    n_C, n_gamma = run.record.options.n_c, run.record.options.n_gamma
    if not run.candidates.empty and None in (n_C, n_gamma):
        n_C, n_gamma = run.candidates["C"].nunique(), run.candidates["gamma"].nunique()
    return f"{n_C} C × {n_gamma} gamma" if n_C and n_gamma else "A search"


def _answers(run: SvmRun) -> list[Answer]:
    answers = []
    if (best := run.best) is not None:
        answers += [
            Answer("best C", significant(best.C), f"log₁₀ C = {log10(best.C)}"),
            Answer("best gamma", significant(best.gamma), f"log₁₀ gamma = {log10(best.gamma)}"),
            Answer(
                "cv error",
                percent(best.error_mean),
                f"± {percent(best.error_std)}, standard deviation of {run.n_folds} folds"
                if best.error_std is not None
                else "mean over the folds",
            ),
        ]
        if run.scoring != ACCURACY and best.score_mean is not None:
            note = f"± {best.score_std or 0:.4f}; it chose the best candidate"
            answers.append(Answer(f"cv {run.scoring}", f"{best.score_mean:.4f}", note))
    record = run.record
    if record.nested is not None:
        note = f"± {record.nested.score_std:.4f} over {record.nested.n_outer} outer folds"
        answers.append(Answer(f"nested {run.scoring}", f"{record.nested.score_mean:.4f}", note))
    if (test_error := record.test_error) is not None:
        n_wrong, n_test = record.n_test_errors, record.dataset.n_test
        answers.append(Answer("test error", percent(test_error), wrong_of(n_wrong, n_test)))
    if (log_loss := record.test_log_loss) is not None:
        error = record.test_calibration_error
        note = f"calibration error {percent(error)}" if error is not None else ""
        answers.append(Answer("test log loss", f"{log_loss:.4f}", note))
    return answers


def grid_warnings(run: SvmRun) -> list[tuple[str, str]]:
    """Warn of a best candidate on the boundary of the grid, as the console does."""
    record = run.record
    found = on_grid_boundary(run.candidates, run.n_folds or 0)
    if record.status != "finished" or not found:
        return []
    text = f"The best candidate has {' and '.join(map(str, found))} of the grid, and is better than"
    text += " its neighbour by more than one standard error: a better one may lie beyond. To widen:"
    return [(text, widen(record.argv, run.metadata["options"], found) if record.argv else "")]


def _within_one_standard_error(run: SvmRun) -> str:
    """State how many candidates tie with the best, and which is the simplest of them."""
    found = within_one_standard_error(run.candidates, run.n_folds or 0, SVM_CANDIDATE)
    if found is None:
        return ""
    C, gamma = significant(found.simplest["C"]), significant(found.simplest["gamma"])
    error = percent(found.simplest["error_mean"])
    return describe_ties(
        found, "the best is the simplest of all these",
        f"the simplest of all these has C = {C}, gamma = {gamma} and a cv error of {error}"
        " (rule of one standard error: smaller C, then smaller gamma)",
    )  # fmt: skip


def _candidates(run: SvmRun) -> Table:
    """Build the table of candidates, best first; a score other than accuracy has a column."""
    with_score = run.scoring != ACCURACY and "score_mean" in run.candidates
    names = ("rank", "C", "gamma", *([f"cv {run.scoring}"] if with_score else []), "cv error",
             "standard deviation", "folds with a score", "support vectors", "fit time (s)",
             AS_GOOD)  # fmt: skip
    if run.candidates.empty:
        return Table.of(names, [])
    if run.cells.empty:
        table = run.candidates.assign(n_support=math.nan, fit_seconds=math.nan)
    else:
        by_candidate = run.cells.astype({"n_support": "float64"}).groupby(["C", "gamma"])
        work = by_candidate.agg(n_support=("n_support", "mean"), fit_seconds=("fit_seconds", "sum"))
        table = run.candidates.merge(work.reset_index(), on=["C", "gamma"], how="left")
    found = within_one_standard_error(run.candidates, run.n_folds or 0, SVM_CANDIDATE)
    marks = found.marks() if found else [""] * len(table)
    return Table.of(
        names,
        [
            [
                (row["rank"], f"{row['rank']:,.0f}"),
                row["C"],
                row["gamma"],
                *([(row["score_mean"], f"{row['score_mean']:.4f}")] if with_score else []),
                number_cell(row["error_mean"], percent(row["error_mean"]), missing="failed"),
                (row["error_std"], percent(row["error_std"])),
                (row["n_ok"], f"{row['n_ok']:.0f}"),
                (row["n_support"], f"{row['n_support']:,.0f}"),
                (row["fit_seconds"], f"{row['fit_seconds']:,.2f}"),
                mark,
            ]
            for row, mark in zip(table.head(MOST_ROWS).to_dict("records"), marks, strict=False)
        ],
    )


def _cell_name(cell: Mapping[str, Any]) -> str:
    C, gamma = significant(cell["C"]), significant(cell["gamma"])
    return f"C = {C}, gamma = {gamma}, fold {cell['fold']:.0f}"


def _answer(run: SvmRun) -> list[Part]:
    chosen = f", chosen by {run.scoring}," if run.scoring != ACCURACY else ""
    sentences = [
        "" if run.best else "No candidate has a score yet.",
        _within_one_standard_error(run),
    ]
    return [
        *(Text(sentence) for sentence in sentences if sentence),
        Columns(
            [
                Chart(
                    "fold_errors_best",
                    f"Each point is the validation error of one fold; {BOX_PLOT}. "
                    "The best C is orange.",
                ),
                Chart(
                    "heat_map",
                    "Mean validation error of every candidate in percent, lowest in yellow; "
                    f"the best candidate{chosen} is framed in orange.",
                ),
            ]
        ),
    ]


def _sections(run: SvmRun) -> list[Section]:
    table, n = _candidates(run), len(run.candidates)
    which = f"The first {MOST_ROWS:,} of {n:,}" if len(table) < n else f"All {n:,}"
    which += ", best first"
    which += f", by the mean {run.scoring}" if run.scoring != ACCURACY else ""
    which += f"; each on {run.n_folds} folds" if run.n_folds else ""
    panels = (
        "The same against log₁₀ C, one panel for each gamma, all on the same axes: each point is "
        f"one fold; {BOX_PLOT}."
    )
    note = (
        f"{which}. Candidates marked 1 SE are within one standard error of the best. Support "
        "vectors are the mean over the folds, fit time is their sum, without compiling; the "
        "standard deviation is that of the folds, divided by their number, as everywhere on this "
        "page."
    )
    paper = "On paper: the first 30. All of them are in candidates.parquet."
    return [
        Section("gammas", "Every gamma", [Chart("fold_errors", panels, wide=True)]),
        test_section(run),
        Section(
            "candidates", "Candidates",
            [Text(note), Listing("Candidates", table), Text(paper, style="paper")],
        ),
    ]  # fmt: skip


SVM = Kind(
    title="SVM grid search",
    read=read_svm_run,
    figures={
        "heat_map": _heat_map,
        "fold_errors_best": _fold_errors_best,
        "fold_errors": _fold_errors,
        **of_any_run(colour_by="gamma"),
    },
    size=_size,
    sizes=("n_c", "n_gamma", "folds"),
    answers=_answers,
    warnings=grid_warnings,
    place=SVM_CELL,
    cell_name=_cell_name,
    answer=_answer,
    sections=_sections,
)
