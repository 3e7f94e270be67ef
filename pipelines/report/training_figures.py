"""The figures of data-parallel training: how it converges, where time goes, what ranks bring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.report.style import (
    BLUE,
    GREY,
    INK,
    ON_COLOUR,
    ON_DARK,
    SKY,
    VERMILLION,
    WHITE,
    WIDE,
    fitting,
    is_phone,
    one_axes,
    powers_of_ten,
)

COLOURS = (VERMILLION, BLUE, "#009E73", "#CC79A7", "#E69F00", INK)
STYLES = ("-", "--", ":", "-.")
ACTIONS = (
    ("forward", SKY), ("backward", BLUE), ("backward of inputs", BLUE),
    ("backward of weights", VERMILLION),
)  # fmt: skip
ACROSS = (("epoch", "epochs"), ("step", "steps"), ("seconds", "seconds of training"))


def convergence(epochs: pd.DataFrame, goal: float | None) -> Figure:
    """Draw the validation loss against epochs, steps and seconds.

    Parameters
    ----------
    epochs : DataFrame
        strategy, ranks, repeat, epoch, step, seconds, validation_loss. Of several repeats the
        median is a line in a band from the lowest to the highest.
    goal : float or None
        A loss at which training ended.
    """
    height, n_rows = (8.4, len(ACROSS)) if is_phone() else (3.8, 1)
    figure = Figure(figsize=(fitting(WIDE), height), layout="constrained")
    all_axes = figure.subplots(n_rows, len(ACROSS) // n_rows, sharey=True)
    kinds: list[tuple[Any, pd.DataFrame]] = list(epochs.groupby(["strategy", "ranks"], sort=False))
    most = max(int(ranks) for (_, ranks), _ in kinds)
    strategies = list(dict.fromkeys(name for (name, _), _ in kinds))
    for axes, (column, label) in zip(all_axes, ACROSS, strict=True):
        axes.set(xlabel=label, yscale="log")
        for (strategy, ranks), some in kinds:
            across = some.groupby("epoch").agg(
                x=(column, "median"), middle=("validation_loss", "median"),
                low=("validation_loss", "min"), high=("validation_loss", "max"),
            )  # fmt: skip
            colour = COLOURS[strategies.index(strategy) % len(COLOURS)]
            style = "-" if ranks == most else STYLES[1 + int(ranks) % 3]
            axes.plot(
                across["x"], across["middle"], color=colour, linestyle=style, linewidth=1.6,
                label=f"{strategy}, {ranks} rank" + "s" * (ranks != 1),
            )  # fmt: skip
            if some["repeat"].nunique() > 1:
                axes.fill_between(
                    across["x"], across["low"], across["high"], color=colour, alpha=0.18,
                    linewidth=0,
                )  # fmt: skip
        if goal is not None:
            axes.axhline(goal, color=GREY, linewidth=0.8, linestyle="--")
        axes.grid(alpha=0.3)
        powers_of_ten(axes.yaxis)
    all_axes[0].set_ylabel("validation loss")
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=min(2 if is_phone() else 4, len(labels))
    )
    return figure


def training_times(times: pd.DataFrame) -> Figure:
    """Draw milliseconds of a step: computing, communicating, waiting for other ranks.

    Parameters
    ----------
    times : DataFrame
        label, compute, communication, wait.
    """
    place = np.arange(len(times))[::-1]
    figure, axes = one_axes(1.4 + 0.34 * len(times), xlabel="ms of a step, mean of the ranks")
    left = np.zeros(len(times))
    for name, colour in (("compute", SKY), ("communication", VERMILLION), ("wait", GREY)):
        widths = times[name].to_numpy(dtype=float)
        axes.barh(place, widths, left=left, height=0.6, color=colour, label=name)
        left += widths
    axes.set_yticks(place, times["label"])
    axes.grid(alpha=0.3, axis="x")
    # Of the figure, not of the axes: these are narrower on a phone than the three names.
    figure.legend(frameon=False, loc="outside upper center", ncols=3, columnspacing=1)
    return figure


def speed_up(rates: pd.DataFrame) -> Figure:
    """Draw rows a second of each strategy against the number of ranks, relative to the fewest.

    Parameters
    ----------
    rates : DataFrame
        strategy, ranks, speed_up.
    """
    figure, axes = one_axes(3.6, xlabel="ranks", ylabel="rows a second, against the fewest ranks")
    ranks = sorted(rates["ranks"].unique())
    ideal = np.array(ranks, dtype=float) / ranks[0]
    axes.plot(ranks, ideal, color=GREY, linewidth=0.8, linestyle="--", label="each rank alike")
    for i, (strategy, some) in enumerate(rates.groupby("strategy", sort=False)):
        ordered = some.sort_values("ranks")
        axes.plot(
            ordered["ranks"], ordered["speed_up"], marker="o", color=COLOURS[i % len(COLOURS)],
            label=str(strategy),
        )  # fmt: skip
    axes.set_xticks(ranks, [str(one) for one in ranks])
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure


def pipeline_steps(ranks: Sequence[Sequence[Sequence[float]]]) -> Figure:
    """Draw what each rank of a pipeline does during a step.

    Parameters
    ----------
    ranks : of each rank the actions: kind (place in ``ACTIONS``), stage, micro-batch, beginning
        and end in seconds
    """
    n_stages = 1 + max(int(action[1]) for rank in ranks for action in rank)
    figure = Figure(figsize=(WIDE, 1.5 + 0.5 * len(ranks)), layout="constrained")
    axes = figure.add_subplot(xlabel="milliseconds of a step", ylabel="rank")
    named = set()
    for r, rank in enumerate(ranks):
        for kind, stage, micro, began, ended in rank:
            name, colour = ACTIONS[int(kind)]
            # The later of a rank's two stages is paler.
            later = n_stages > len(ranks) and stage >= len(ranks)
            axes.barh(
                r, 1000 * (ended - began), left=1000 * began, height=0.7, color=colour,
                alpha=0.6 if later else 1.0, edgecolor=WHITE, linewidth=0.6,
                label=None if name in named else name,
            )  # fmt: skip
            named.add(name)
            axes.text(
                500 * (began + ended), r, str(int(micro) + 1), ha="center", va="center",
                fontsize=7, color=ON_COLOUR if kind == 0 else ON_DARK, clip_on=True,
            )  # fmt: skip
    axes.set_yticks(range(len(ranks)), [str(r) for r in range(len(ranks))])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4)
    return figure
