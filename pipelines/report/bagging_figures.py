"""The figures that only an ensemble has: certainty of its members, and its calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from pipelines.report.charts import Sample, add_samples, grid_lines, title_and_key
from pipelines.report.classification import class_name
from pipelines.report.style import BLUE, GREY, INK, NARROW, SKY, VERMILLION, WIDE, percent_labels
from pipelines.report.wording import percent, shortened
from pipelines.run_folder.statistics import wilson

MOST_LABELS = 20  # classes whose names have room under their boxes
N_BINS = 15  # of the calibration error
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
    """Draw a panel for each sample: its image, and the members' certainty of every class.

    The class of the vote is orange; every member is a dot, many are in a box. After the box plots
    of the study this program grew from.

    Parameters
    ----------
    samples : at least one
    classes : names of the class codes
    """
    n_columns = min(2, len(samples))
    n_rows = -(-len(samples) // n_columns)
    width = NARROW if n_columns == 1 else WIDE
    panel, step = width / n_columns, TITLE + HEIGHT + FOOT
    height = n_rows * step
    figure = Figure(figsize=(width, height))
    for place, sample in enumerate(samples):
        left = (place % n_columns) * panel + EDGE
        bottom = height - (place // n_columns + 1) * step + FOOT
        if sample.image is not None:
            box = (left / width, (bottom + 0.1) / height, IMAGE / width, (HEIGHT - 0.1) / height)
            image = figure.add_axes(box)
            brightest = max(1.0, float(sample.image.max()))
            image.imshow(sample.image, cmap="gray_r", vmin=0, vmax=brightest, interpolation="none")
            rows, columns = sample.image.shape[:2]
            image.add_patch(
                Rectangle((-0.5, -0.5), columns, rows, fill=False, edgecolor=GREY, lw=0.5,
                          clip_on=False)
            )  # fmt: skip
            image.set_axis_off()
        start = left + AXIS + (IMAGE if sample.image is not None else 0)
        box = (start / width, bottom / height, (panel - EDGE - start + left - EDGE) / width,
               HEIGHT / height)  # fmt: skip
        _draw_certainty(figure.add_axes(box), sample, classes)
        true = "" if sample.true is None else class_name(classes, sample.true)
        title = f"{shortened(sample.name, 24)}{f', true {shortened(true, 8)}' if true else ''}"
        figure.text(
            left / width, (bottom + HEIGHT + 0.1) / height,
            f"{title}: {describe_prediction(sample, classes)}",
            weight="bold", fontsize=9, color=VERMILLION if sample.deferred else INK,
        )  # fmt: skip
    return figure


def describe_prediction(sample: ExplainedSample, classes: Sequence[str]) -> str:
    """Describe the ensemble's prediction for a sample in words."""
    n_members = len(sample.probabilities)
    text = f"vote {class_name(classes, sample.vote)}, {sample.n_agree} of {n_members} members"
    return f"{text}; defer to a human" if sample.deferred else text


def _draw_certainty(axes: Axes, sample: ExplainedSample, classes: Sequence[str]) -> None:
    n_members, n_classes = sample.probabilities.shape
    grid_lines(axes)
    of_classes = [
        Sample(float(code), sample.probabilities[:, code], code == sample.vote)
        for code in range(n_classes)
    ]
    add_samples(axes, of_classes, 0.36, max(1.5, min(3.0, 30 / n_members)))
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
    figure = Figure(figsize=(NARROW, 4.6), layout="constrained")
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
        counts.text(x, number, f"{number:,}", ha="center", va="bottom", fontsize=7.5)
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
