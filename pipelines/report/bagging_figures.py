"""The figures of an ensemble: its certainty, its size, and how its members were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from pipelines.report.charts import add_boxes, grid_lines, mark_failed, title_and_key
from pipelines.report.classification import class_name
from pipelines.report.style import (
    BLUE,
    GREY,
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
from pipelines.report.wording import percent, shortened, significant
from pipelines.run_folder.statistics import wilson

MOST_LABELS = 20  # classes whose names have room under their boxes
# Of a panel, in inches.
HEIGHT, TITLE, FOOT, IMAGE, AXIS, EDGE = 1.55, 0.42, 0.42, 1.3, 0.6, 0.12


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
    """Draw a panel for each sample: its image, and a box of the members' certainty of every class.

    The box of the vote is orange; every member is a dot. After the box plots of
    the study this program grew from.

    Parameters
    ----------
    samples : at least one
    classes : names of the class codes
    """
    n_columns = 1 if len(samples) == 1 or is_phone() else 2
    n_rows = -(-len(samples) // n_columns)
    width = fitting(NARROW if n_columns == 1 else WIDE)
    panel, step = width / n_columns, TITLE + HEIGHT + FOOT
    height = n_rows * step
    figure = Figure(figsize=(width, height))
    for place, sample in enumerate(samples):
        left = (place % n_columns) * panel + EDGE
        bottom = height - (place // n_columns + 1) * step + FOOT
        if sample.image is not None:
            box = (left / width, (bottom + 0.1) / height, IMAGE / width, (HEIGHT - 0.1) / height)
            _draw_image(figure.add_axes(box), sample.image)
        start = left + AXIS + (IMAGE if sample.image is not None else 0)
        box = (start / width, bottom / height, (panel - EDGE - start + left - EDGE) / width,
               HEIGHT / height)  # fmt: skip
        _draw_boxes(figure.add_axes(box), sample, classes)
        figure.text(
            left / width, (bottom + HEIGHT + 0.1) / height, _title(sample, classes),
            weight="bold", fontsize=9, color=VERMILLION if sample.deferred else INK,
        )  # fmt: skip
    return figure


def describe_prediction(sample: ExplainedSample, classes: Sequence[str]) -> str:
    """Describe the ensemble's prediction for a sample in words."""
    n_members = len(sample.probabilities)
    text = f"vote {class_name(classes, sample.vote)}, {sample.n_agree} of {n_members} members"
    return f"{text}; defer to a human" if sample.deferred else text


def _title(sample: ExplainedSample, classes: Sequence[str]) -> str:
    true = "" if sample.true is None else f", true {shortened(class_name(classes, sample.true), 8)}"
    between = ":\n" if is_phone() else ": "  # no room for it in one line
    return f"{shortened(sample.name, 24)}{true}{between}{describe_prediction(sample, classes)}"


def _draw_image(axes: Axes, image: np.ndarray) -> None:
    axes.imshow(image, cmap="gray_r", vmin=0, vmax=max(1.0, float(image.max())),
                interpolation="none")  # fmt: skip
    height, width = image.shape[:2]
    axes.add_patch(
        Rectangle((-0.5, -0.5), width, height, fill=False, edgecolor=GREY, lw=0.5, clip_on=False)
    )
    axes.set_axis_off()
    axes.set_anchor("C")


def _draw_boxes(axes: Axes, sample: ExplainedSample, classes: Sequence[str]) -> None:
    n_members, n_classes = sample.probabilities.shape
    half = 0.36
    grid_lines(axes)
    boxes = [
        (float(code), sample.probabilities[:, code], code == sample.vote)
        for code in range(n_classes)
    ]
    add_boxes(axes, boxes, half)
    # Side by side, as samples one above the other would hide each other.
    offsets = np.linspace(-0.7, 0.7, n_members) * half if n_members > 1 else np.zeros(1)
    axes.scatter(
        (np.arange(n_classes) + offsets[:, None]).ravel(), sample.probabilities.ravel(),
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


N_BINS = 15  # of the calibration error
MOST_MEMBERS_NAMED = 24


@dataclass(frozen=True)
class Deferred:
    """The effect of deferral on the test samples: share kept, and error among those kept."""

    kept: float
    error: float


def ensemble_size(sizes: pd.DataFrame, vote_error: float | None) -> Figure:
    """Draw the test error of the vote against the number of members, over subsets of them.

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
    n_samples: np.ndarray


def calibration_bins(certainty: np.ndarray, is_right: np.ndarray, n_bins: int = N_BINS) -> Bins:
    """Return mean certainty and share of right answers in each bin.

    Guo et al., On calibration of modern neural networks (ICML 2017).

    Parameters
    ----------
    certainty : float array of shape (n_samples,), in [0, 1]
    is_right : bool array of shape (n_samples,)
    """
    bins = np.clip(np.ceil(certainty * n_bins).astype(int) - 1, 0, n_bins - 1)
    n_samples = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        means = [
            np.bincount(bins, weights=values, minlength=n_bins) / n_samples
            for values in (certainty, is_right)
        ]
    return Bins(means[0], means[1], n_samples)


def calibration(certainty: np.ndarray, is_right: np.ndarray, error: float | None) -> Figure:
    """Draw the share of right answers in bins of certainty, its interval, and the bins' sizes."""
    bins = calibration_bins(certainty, is_right)
    there = bins.n_samples > 0
    figure = Figure(figsize=(fitting(NARROW), 4.6), layout="constrained")
    axes, counts = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    edges = np.linspace(0, 1, len(bins.n_samples) + 1)
    width = 0.92 / len(bins.n_samples)
    place, right, n = edges[:-1][there], bins.right[there], bins.n_samples[there]
    axes.bar(place, right, width=width, align="edge", color=SKY, gid="calibration")
    low, high = np.array([wilson(round(s * k), int(k)) for s, k in zip(right, n, strict=True)]).T
    middle = place + width / 2
    axes.vlines(middle, low, high, color=BLUE, lw=1.6, gid="interval")
    axes.plot([0, 1], [0, 1], color=INK, lw=1, ls=(0, (4, 3)))
    axes.set(ylabel="right", xlim=(0, 1), ylim=(0, 1.03))
    percent_labels(axes.yaxis, [0, 0.25, 0.5, 0.75, 1])
    counts.bar(edges[:-1], bins.n_samples, width=width, align="edge", color=SKY, gid="counts")
    for x, number in zip(middle, n, strict=True):
        size = 6 if is_phone() else 7.5
        counts.text(x, number, f"{number:,}", ha="center", va="bottom", fontsize=size)
    counts.set(ylabel="test samples", xlabel="certainty of the mean probability")
    counts.set_yscale("symlog", linthresh=10)
    counts.set_ylim(0, 6 * max(10, bins.n_samples.max()))
    counts.set_yticks([value for value in (0, 10, 100, 1000, 10_000, 100_000)
                       if value <= max(10, bins.n_samples.max())])  # fmt: skip
    counts.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    counts.yaxis.set_minor_locator(MaxNLocator(1))
    percent_labels(counts.xaxis, [0, 0.25, 0.5, 0.75, 1])
    for each in (axes, counts):
        grid_lines(each)
    title = "Calibration" + ("" if error is None else f": expected error {percent(error)}")
    key: list[Patch | Line2D] = [
        Patch(facecolor=SKY, label="test samples"),
        Line2D([], [], color=BLUE, lw=1.6, label="95 % interval"),
        Line2D([], [], color=INK, lw=1, ls=(0, (4, 3)), label="as certain as right"),
    ]
    title_and_key(figure, title, key)
    return figure


def kept_errors(certainty: np.ndarray, is_right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return error among the most certain samples, for every share of samples kept.

    Points of equal certainty are kept or deferred together.

    Returns
    -------
    kept, error : float arrays of shape (number of different certainties,), fractions
    """
    order = np.argsort(-certainty, kind="stable")
    n_kept = np.arange(1, len(order) + 1)
    errors = np.cumsum(~is_right[order]) / n_kept
    last = np.append(np.diff(certainty[order]) != 0, True)
    return n_kept[last] / len(order), errors[last]


def selective_prediction(
    certainty: np.ndarray, is_right: np.ndarray, by_rule: Deferred | None, rule: str
) -> Figure:
    """Draw the error of the predictions kept when the least certain are deferred to a human."""
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
    title_and_key(figure, "Deferring the uncertain to a human", key)
    return figure


def member_searches(candidates: pd.DataFrame, members: pd.DataFrame | None) -> Figure:
    """Draw the validation error of all candidates of all members; the test error of the chosen."""
    numbers = np.unique(candidates["member"].to_numpy(dtype=int))
    figure, axes = one_axes(3.8, WIDE, xlabel="member", ylabel="error")
    errors = candidates["error_mean"].to_numpy(dtype=float)
    tested = np.empty(0) if members is None else members["test_error"].to_numpy(dtype=float)
    every = np.concatenate([errors, tested])
    percent_y_axis(axes, every[np.isfinite(every)])
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


def member_losses(losses: Mapping[int, Sequence[float]], best: int | None) -> Figure:
    """Draw the mean training loss of each member by epoch; the best on the test is orange.

    Parameters
    ----------
    losses : of each member, its mean cross-entropy in each epoch
    """
    figure, axes = one_axes(3.8, xlabel="epoch", ylabel="mean cross-entropy")
    for member, values in losses.items():
        is_best = member == best
        axes.plot(
            np.arange(1, len(values) + 1), values, marker=".",
            color=VERMILLION if is_best else BLUE,
            alpha=1 if is_best else 0.5, lw=1.8 if is_best else 1.1, zorder=3 if is_best else 2,
            gid="losses",
        )  # fmt: skip
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_ylim(bottom=0)
    grid_lines(axes)
    key = [Line2D([], [], color=BLUE, alpha=0.5, label="a member")]
    if best in losses:
        key.append(Line2D([], [], color=VERMILLION, label=f"member {best}, the best on the test"))
    title_and_key(figure, "Training of the members", key)
    return figure


def parallel_coordinates(candidates: pd.DataFrame, parameters: Sequence[str]) -> Figure:
    """Draw a line for each candidate through its hyper-parameters, to its error.

    Parameters
    ----------
    candidates : ``parameters``, ``error_mean`` (a fraction) and ``is_best``
    parameters : names of columns of numbers that differ
    """
    names = [*parameters, "error_mean"]
    figure, axes = one_axes(3.6, WIDE)
    table = candidates[candidates["error_mean"].notna()]
    columns = [table[name].to_numpy(float) for name in names]
    heights = np.column_stack([_height(values) for values in columns])
    best = table["is_best"].to_numpy(bool)
    # What errs least is drawn last, and darkest.
    order = np.argsort(-columns[-1], kind="stable")
    for chosen, colour, width, alpha in ((False, BLUE, 0.9, 0.35), (True, VERMILLION, 1.8, 1.0)):
        rows = [heights[i] for i in order if best[i] == chosen]
        lines = [np.column_stack([np.arange(len(names)), row]) for row in rows]
        axes.add_collection(
            LineCollection(lines, colors=colour, linewidths=width, alpha=alpha,
                           gid="chosen" if chosen else "candidates"),
            autolim=False,
        )  # fmt: skip
    for place, (name, values) in enumerate(zip(names, columns, strict=True)):
        axes.axvline(place, color=GREY, lw=0.8)
        for value, y in ((values.min(), 0.0), (values.max(), 1.0)):
            text = percent(value) if name == "error_mean" else significant(value)
            axes.annotate(text, (place, y), (0, 5 if y else -5), textcoords="offset points",
                          ha="center", va="bottom" if y else "top", fontsize=8.5,
                          color=INK)  # fmt: skip
    labels = [name.removesuffix("_mean").removeprefix("n_").replace("_", " ") for name in names]
    axes.set_xticks(range(len(names)), labels, rotation=25 if is_phone() else 0)
    axes.set(xlim=(-0.3, len(names) - 0.7), ylim=(-0.14, 1.14), yticks=[])
    axes.tick_params(axis="x", length=0, pad=8)
    axes.spines[:].set_visible(False)
    key = [
        Line2D([], [], color=SKY, label="candidate"),
        Line2D([], [], color=VERMILLION, label="chosen by a member"),
    ]
    title_and_key(figure, "Candidates and their errors", key)
    return figure


def _height(values: np.ndarray) -> np.ndarray:
    """Return places between 0 and 1; of the logarithm, where values span more than a decade."""
    if values.min() > 0 and values.max() > 10 * values.min():
        values = np.log10(values)
    span = float(values.max() - values.min())
    return (values - values.min()) / span if span else np.full(len(values), 0.5)
