"""How the members of an ensemble learned, and all their candidates at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from pipelines.report.boxes import grid_lines, title_and_key
from pipelines.report.style import BLUE, GREY, INK, SKY, VERMILLION, WIDE, is_phone, one_axes
from pipelines.report.wording import percent, significant


def member_losses(losses: Mapping[int, Sequence[float]], best: int | None) -> Figure:
    """Mean training loss of every member after each epoch; the best on the test is orange.

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
    """A line for each candidate through its hyper-parameters, to its error.

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
    """Places between 0 and 1; of the logarithm, where values span more than a decade."""
    if values.min() > 0 and values.max() > 10 * values.min():
        values = np.log10(values)
    span = float(values.max() - values.min())
    return (values - values.min()) / span if span else np.full(len(values), 0.5)
