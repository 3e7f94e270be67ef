"""The figures of an ensemble: its size, its certainty, and how its members were found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from pipelines.report.boxes import grid_lines, mark_failed, title_and_key
from pipelines.report.style import (
    BLUE,
    INK,
    NARROW,
    PALE,
    SKY,
    VERMILLION,
    WIDE,
    fitting,
    is_phone,
    one_axes,
    percent_labels,
    percent_y_axis,
)
from pipelines.report.wording import percent
from pipelines.run_folder.judgement import wilson

N_BINS = 15  # of the calibration error
MOST_MEMBERS_NAMED = 24


@dataclass(frozen=True)
class Referred:
    """What the rule did to the test points: the share it kept, and the error among those."""

    kept: float
    error: float


def ensemble_size(sizes: pd.DataFrame, vote_error: float | None) -> Figure:
    """Test error of the vote against the number of members, over subsets of them.

    Parameters
    ----------
    sizes : table with a row for each subset: size, vote_error, mean_error (fractions)
    vote_error : of all members
    """
    figure, axes = one_axes(4.0, xlabel="members", ylabel="test error")
    by_size = sizes.groupby("size")["vote_error"]
    x = np.unique(sizes["size"].to_numpy(dtype=float))
    low, high, middle = by_size.min(), by_size.max(), by_size.mean()
    axes.fill_between(x, low.to_numpy(), high.to_numpy(), color=SKY, alpha=0.45, lw=0)
    axes.plot(x, middle.to_numpy(), color=BLUE, marker="o", ms=4, gid="vote")
    by_mean = sizes.groupby("size")["mean_error"].mean()
    axes.plot(x, by_mean.to_numpy(), color=INK, lw=1.2, ls=(0, (4, 3)), gid="mean")
    percent_y_axis(axes, np.concatenate([low.to_numpy(), high.to_numpy(), by_mean.to_numpy()]))
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    grid_lines(axes)
    key: list[Patch | Line2D] = [
        Line2D([], [], color=BLUE, marker="o", ms=4, label="vote, mean of subsets"),
        Patch(facecolor=SKY, alpha=0.45, label="best to worst"),
        Line2D([], [], color=INK, lw=1.2, ls=(0, (4, 3)), label="mean probability"),
    ]
    title = "Error against ensemble size"
    if vote_error is not None:
        title += f": {percent(vote_error)} by all {int(x[-1])}"
    title_and_key(figure, title, key)
    return figure


@dataclass(frozen=True)
class Bins:
    """Points in bins of equal width by certainty; shape (n_bins,), NaN where a bin is empty."""

    certainty: np.ndarray
    right: np.ndarray
    n_points: np.ndarray


def calibration_bins(certainty: np.ndarray, is_right: np.ndarray, n_bins: int = N_BINS) -> Bins:
    """Mean certainty and share of right answers in each bin.

    Guo et al., On calibration of modern neural networks (ICML 2017).

    Parameters
    ----------
    certainty : float array of shape (n_points,), in [0, 1]
    is_right : bool array of shape (n_points,)
    """
    bins = np.clip(np.ceil(certainty * n_bins).astype(int) - 1, 0, n_bins - 1)
    n_points = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        means = [
            np.bincount(bins, weights=values, minlength=n_bins) / n_points
            for values in (certainty, is_right)
        ]
    return Bins(means[0], means[1], n_points)


def calibration(certainty: np.ndarray, is_right: np.ndarray, error: float | None) -> Figure:
    """Share of right answers in bins of certainty, how sure it is, and of how many points."""
    bins = calibration_bins(certainty, is_right)
    there = bins.n_points > 0
    figure = Figure(figsize=(fitting(NARROW), 4.6), layout="constrained")
    axes, counts = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    edges = np.linspace(0, 1, len(bins.n_points) + 1)
    width = 0.92 / len(bins.n_points)
    place, right, n = edges[:-1][there], bins.right[there], bins.n_points[there]
    axes.bar(place, right, width=width, align="edge", color=SKY, gid="calibration")
    low, high = np.array([wilson(round(s * k), int(k)) for s, k in zip(right, n, strict=True)]).T
    middle = place + width / 2
    axes.vlines(middle, low, high, color=BLUE, lw=1.6, gid="interval")
    axes.plot([0, 1], [0, 1], color=INK, lw=1, ls=(0, (4, 3)))
    axes.set(ylabel="right", xlim=(0, 1), ylim=(0, 1.03))
    percent_labels(axes.yaxis, [0, 0.25, 0.5, 0.75, 1])
    counts.bar(edges[:-1], bins.n_points, width=width, align="edge", color=SKY, gid="counts")
    for x, number in zip(middle, n, strict=True):
        size = 6 if is_phone() else 7.5
        counts.text(x, number, f"{number:,}", ha="center", va="bottom", fontsize=size)
    counts.set(ylabel="test points", xlabel="certainty of the mean probability")
    counts.set_yscale("symlog", linthresh=10)
    counts.set_ylim(0, 6 * max(10, bins.n_points.max()))
    counts.set_yticks([value for value in (0, 10, 100, 1000, 10_000, 100_000)
                       if value <= max(10, bins.n_points.max())])  # fmt: skip
    counts.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    counts.yaxis.set_minor_locator(MaxNLocator(1))
    percent_labels(counts.xaxis, [0, 0.25, 0.5, 0.75, 1])
    for each in (axes, counts):
        grid_lines(each)
    title = "Calibration" + ("" if error is None else f": expected error {percent(error)}")
    key: list[Patch | Line2D] = [
        Patch(facecolor=SKY, label="test points"),
        Line2D([], [], color=BLUE, lw=1.6, label="95 % interval"),
        Line2D([], [], color=INK, lw=1, ls=(0, (4, 3)), label="as certain as right"),
    ]
    title_and_key(figure, title, key)
    return figure


def kept_errors(certainty: np.ndarray, is_right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Error among the most certain points, for every share of points kept.

    Points of equal certainty are kept or referred together.

    Returns
    -------
    kept, error : float arrays of shape (number of different certainties,), fractions
    """
    order = np.argsort(-certainty, kind="stable")
    n_kept = np.arange(1, len(order) + 1)
    errors = np.cumsum(~is_right[order]) / n_kept
    last = np.append(np.diff(certainty[order]) != 0, True)
    return n_kept[last] / len(order), errors[last]


def referral(
    certainty: np.ndarray, is_right: np.ndarray, by_rule: Referred | None, rule: str
) -> Figure:
    """Error of the predictions kept when the least certain are referred to a person."""
    figure, axes = one_axes(4.0, xlabel="predictions kept", ylabel="error among those kept")
    kept, errors = kept_errors(certainty, is_right)
    axes.step(kept, errors, color=BLUE, where="post", gid="kept")
    key: list[Patch | Line2D] = [Line2D([], [], color=BLUE, label="by certainty of the vote")]
    shown = errors
    if by_rule is not None:
        axes.plot([by_rule.kept], [by_rule.error], "o", color=VERMILLION, ms=7, gid="rule")
        label = f"{rule}: {percent(by_rule.error)} of {percent(by_rule.kept)}"
        key.append(Line2D([], [], marker="o", ls="", color=VERMILLION, ms=7, label=label))
        shown = np.append(errors, by_rule.error)
    axes.set_ylim(-0.03 * max(shown.max(), 1e-3), 1.08 * max(shown.max(), 1e-3))
    start = max(0.0, min(0.5, float(kept[np.argmax(errors > 0)])))
    if by_rule is not None:
        start = min(start, max(0.0, by_rule.kept - 0.03))
    axes.set_xlim(start, 1 + 0.01 * (1 - start))
    percent_labels(axes.yaxis)
    percent_labels(axes.xaxis)
    grid_lines(axes)
    title_and_key(figure, "Referring the uncertain to a person", key)
    return figure


def member_searches(candidates: pd.DataFrame, members: pd.DataFrame | None) -> Figure:
    """Validation error of every candidate of every member; the test error of the chosen one."""
    numbers = np.unique(candidates["member"].to_numpy(dtype=int))
    figure, axes = one_axes(3.8, WIDE, xlabel="member", ylabel="error")
    errors = candidates["error_mean"].to_numpy(dtype=float)
    percent_y_axis(axes, _shown_errors(errors, members))
    place = np.searchsorted(numbers, candidates["member"].to_numpy(dtype=int))
    best = candidates["is_best"].to_numpy(dtype=bool)
    axes.scatter(place[~best], errors[~best], s=16, color=SKY, edgecolor=BLUE, lw=0.6,
                 gid="candidates", zorder=3)  # fmt: skip
    axes.scatter(place[best], errors[best], s=42, color=VERMILLION, lw=0, gid="best", zorder=4)
    mark_failed(axes, place[np.isnan(errors)], 24)
    key: list[Patch | Line2D] = [
        Line2D([], [], marker="o", ls="", color=SKY, mec=BLUE, ms=4, label="candidate, cv error"),
        Line2D([], [], marker="o", ls="", color=VERMILLION, ms=6, label="chosen, cv error"),
    ]
    if members is not None:
        at = np.searchsorted(numbers, members["member"].to_numpy(dtype=int))
        axes.scatter(at, members["test_error"], marker="_", s=220, color=INK, lw=1.6, zorder=5,
                     gid="test")  # fmt: skip
        key.append(
            Line2D([], [], marker="_", ls="", color=INK, ms=11, mew=1.6, label="refitted, test")
        )
    if np.isnan(errors).any():
        key.append(Line2D([], [], marker="x", ls="", color=VERMILLION, ms=5, label="failed"))
    step = -(-len(numbers) // MOST_MEMBERS_NAMED)
    axes.set_xticks(range(0, len(numbers), step), [str(number) for number in numbers[::step]])
    axes.set_xlim(-0.6, len(numbers) - 0.4)
    axes.grid(axis="y", color=PALE, lw=0.8)
    axes.set_axisbelow(True)
    title_and_key(figure, "The search of every member", key)
    return figure


def _shown_errors(errors: np.ndarray, members: pd.DataFrame | None) -> np.ndarray:
    tested = np.empty(0) if members is None else members["test_error"].to_numpy(dtype=float)
    every = np.concatenate([errors, tested])
    return every[np.isfinite(every)]
