"""Page of a run of ``data_parallel``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.parallel.record import EPOCH, ParallelRecord, TrainingMetadata
from pipelines.report.base import Report
from pipelines.report.charts import (
    COLOURS,
    Panel,
    Series,
    dashed,
    grid_lines,
    series_chart,
    title_and_key,
)
from pipelines.report.classification import test_section
from pipelines.report.figure_values import add_values
from pipelines.report.parts import Card, Chart, Listing, Part, Section, Text
from pipelines.report.style import GREY, SKY, VERMILLION, one_axes
from pipelines.report.wording import count, percent, significant

OF_TRAINING = [
    "strategy",
    "ranks",
    "repeat",
    "epochs",
    "steps",
    "seconds",
    "best_epoch",
    "validation_loss",
    "test_loss",
    "status",
]
OF_RESTART = {
    "training": "training",
    "reason": "why",
    "ranks_before": "ranks before",
    "ranks_after": "after",
    "step": "from step",
    "steps_lost": "steps done again",
    "seconds": "seconds",
}
TIMES = ["compute", "communication", "wait"]
ACROSS = (("epoch", "epochs"), ("step", "steps"), ("seconds", "seconds of training"))
STYLES = ("-", "--", ":", "-.")
LOSSES = dict.fromkeys(("validation_loss", "test_loss"), "{:#.4g}".format)  # 2.000 beside 1.473
ERROR = "error"  # the metric for a classification, a fraction


@dataclass(frozen=True)
class TrainingReport(Report):
    """A run of ``data_parallel``: ``cells`` has a row for each epoch of each training."""

    title = "Data-parallel training"
    noun = "epoch"
    key_columns = EPOCH

    record: ParallelRecord

    @property
    def epochs(self) -> pd.DataFrame:
        """Epochs that have ended, without the epochs of failed trainings."""
        if "seconds" not in self.cells:
            return self.cells.iloc[:0]
        return self.cells[self.cells["seconds"].notna()]

    @property
    def best_training(self) -> TrainingMetadata | None:
        """The training with the lowest validation loss; None before the first epoch has ended."""
        ended_trainings = [
            training
            for training in self.record.trainings or ()
            if training.validation_loss is not None
        ]
        return (
            min(ended_trainings, key=lambda training: training.validation_loss or 0.0)
            if ended_trainings
            else None
        )

    def size(self) -> str:
        """Number of trainings, and the network."""
        trainings, network = self.record.trainings or (), self.record.options.network
        return f"{count(len(trainings), 'training')} of {network or 'a network'}"

    def conclusion(self) -> str:
        """The training with the lowest validation loss."""
        best = self.best_training
        if best is None:
            return "No epoch has ended yet."
        training_name, loss = (
            f"{best.strategy} on {count(best.ranks, 'rank')}",
            best.validation_loss,
        )
        if len(self.record.trainings or ()) == 1:
            return f"The training ({training_name}) reaches a validation loss of {loss:.4g}."
        return f"{training_name} reaches the lowest validation loss."

    def cards(self) -> list[Card]:
        """Cards for losses, rows per second and restarts."""
        cards, best = [], self.best_training
        if best is not None:
            epoch = best.model_dump().get("best_epoch")
            note = f"after epoch {epoch}" if epoch else ""
            cards.append(Card("validation loss", f"{best.validation_loss:.4g}", note))
            if best.test_metric is not None:
                in_words = percent if self.record.metric == ERROR else significant
                value = in_words(best.test_metric)
                cards.append(Card(f"test {self.record.metric}", value, "of the same network"))
        cards += self.baseline_cards()
        if not self.times.empty:
            fastest = self.times.sort_values("rows per second").iloc[-1]
            note = f"{fastest['strategy']} on {count(fastest['ranks'], 'rank')}"
            cards.append(Card("rows per second", f"{fastest['rows per second']:,.0f}", note))
        if restarts := self.record.restarts:
            cards.append(Card("restarts", str(len(restarts)), "of process groups that lost a rank"))
        return cards

    def cell_name(self, cell: Any) -> str:
        """Strategy, ranks and repeat of a training."""
        return f"{cell['strategy']} on {cell['ranks']}, repeat {cell['repeat'] + 1}"

    @cached_property
    def times(self) -> pd.DataFrame:
        """Mean milliseconds per step and rows per second, for each strategy and number of ranks.

        The first epoch of a training is left out if there are others, since ranks warm up in it.
        """
        epochs = self.epochs
        if epochs.empty:
            return pd.DataFrame()
        epochs = epochs.sort_values(list(EPOCH))
        trainings = epochs.groupby(["strategy", "ranks", "repeat"], sort=False)
        epochs = epochs.assign(
            steps=trainings["step"].diff().fillna(epochs["step"]).astype(float),
            only=trainings["epoch"].transform("size") == 1,
            n=self.record.dataset.n_train or 0,
        ).rename(columns={f"{name}_seconds": name for name in TIMES})
        timed_epochs = epochs[(epochs["epoch"] > 1) | epochs["only"]]
        table = timed_epochs.groupby(["strategy", "ranks"], sort=False)[
            ["steps", "n", *TIMES]
        ].sum()
        seconds, steps = table[TIMES].sum(axis=1).clip(lower=1e-9), table["steps"].clip(lower=1)
        table = table.assign(**{"rows per second": table["n"] / seconds})
        table[TIMES] = table[TIMES].div(steps, axis=0) * 1000
        return table.drop(columns=["steps", "n"]).reset_index()

    def sections(self) -> list[Section]:
        """Sections on trainings, convergence, test samples, restarts and the time per step."""
        trainings = pd.DataFrame(
            [training.model_dump() for training in self.record.trainings or ()]
        )
        if not trainings.empty:
            trainings = trainings.reindex(columns=OF_TRAINING)
            trainings["repeat"] += 1
        repeats = "Trainings of one repeat share their first weights and the order of the rows."
        restarts = pd.DataFrame(self.record.restarts, columns=list(OF_RESTART))
        restart_listing = Listing("Restarts", restarts.rename(columns=OF_RESTART), tall=False)
        words = (
            "A process group that lost a rank was followed by one that began where all ranks had "
            "last been equal. Seconds are from the loss being noticed to the new ranks' beginning."
        )
        return [
            Section(
                "trainings", "Trainings", [Text(repeats), Listing("Trainings", trainings, LOSSES)]
            ),
            Section("convergence", "Convergence", [self._convergence()]),
            test_section(self),
            Section("restarts", "Restarts", [Text(words), restart_listing]),
            Section("times", "Where the time goes", self._times(), link="Steps"),
        ]

    def _convergence(self) -> Chart | None:
        shown = self.epochs
        shown = shown[shown["validation_loss"] > 0] if len(shown) else shown
        if shown.empty:
            return None
        caption = (
            "Validation loss after each epoch, against epochs, steps and seconds. Of several "
            "repeats the line is the median, the band goes from the lowest to the highest."
        )
        # For a single training, steps and seconds are proportional to epochs: one panel is enough.
        is_compared = shown[["strategy", "ranks"]].drop_duplicates().shape[0] > 1
        across = ACROSS if is_compared else ACROSS[:1]
        if not is_compared:
            caption = "Validation loss after each epoch."
            if shown["repeat"].nunique() > 1:
                caption += " The line is the median of the repeats, the band spans them."
        panels = [self._panel(shown, column, label) for column, label in across]
        draw = partial(series_chart, panels, "Validation loss")
        return Chart("convergence", draw, caption, wide=is_compared)

    def _panel(self, epochs: pd.DataFrame, column: str, label: str) -> Panel:
        most_ranks, series = epochs["ranks"].max(), []
        colours = dict(zip(epochs["strategy"].unique(), cycle(COLOURS), strict=False))
        groups: Any = epochs.groupby(["strategy", "ranks"], sort=False)
        for (strategy, ranks), group in groups:
            by_epoch = group.groupby("epoch").agg(
                x=(column, "median"),
                middle=("validation_loss", "median"),
                low=("validation_loss", "min"),
                high=("validation_loss", "max"),
            )
            style = "-" if ranks == most_ranks else STYLES[1 + int(ranks) % 3]
            look = {"color": colours[strategy], "linestyle": style}
            band = (by_epoch["low"], by_epoch["high"]) if group["repeat"].nunique() > 1 else None
            name = f"{strategy}, {count(int(ranks), 'rank')}"
            series.append(Series(by_epoch["x"], by_epoch["middle"], name, band, look))
        if (goal := self.record.options.until_loss) is not None and goal > 0:
            ends = [min(curve.x.min() for curve in series), max(curve.x.max() for curve in series)]
            series.append(Series(ends, [goal, goal], f"goal {goal:g}", look=dashed()))
        return Panel(series, label, "validation loss", scales=("linear", "log"))

    def _times(self) -> list[Part | None]:
        times = self.times
        if times.empty:
            return []
        words = (
            "All ranks leave a collective operation together: the time that the last to arrive "
            "spends in it is communication, what the others spend beyond that is waiting. Compute "
            "is the rest, including the gathering of batches. The table has milliseconds of a "
            "step, means over the ranks, without the first epoch."
        )
        if self.record.stages > 1:
            wait_fractions = [
                training.wait_share
                for training in self.record.trainings or ()
                if training.wait_share
            ]
            idle = (
                f", {percent(float(np.median(wait_fractions)))} of a step" if wait_fractions else ""
            )
            words = (
                f"The network is cut into {self.record.stages} stages. Compute is the time in "
                f"which a rank's stages compute; the rest is waiting{idle}. The schedule alone, "
                f"with equal stages and no time for messages, leaves a rank idle for "
                f"{percent(self.record.bubble)} of a step. The table has milliseconds of a step, "
                "means over the ranks, without the first epoch."
            )
        caption = "Milliseconds of a step; strategy and ranks at the left."
        chart = Chart("training_times", partial(training_times, times), caption)
        table = Listing("Times", times, {"rows per second": "{:,.0f}".format}, tall=False)
        return [Text(words), chart, table]


def training_times(times: pd.DataFrame) -> Figure:
    """Draw the milliseconds per step as stacked bars: compute, communication and wait.

    Parameters
    ----------
    times : DataFrame
        With the columns ``strategy``, ``ranks``, ``compute``, ``communication`` and ``wait``.

    Returns
    -------
    Figure
    """
    names = [f"{strategy}, {ranks}" for strategy, ranks in times[["strategy", "ranks"]].to_numpy()]
    figure, axes = one_axes(1.4 + 0.34 * len(times), xlabel="ms of a step, mean of the ranks")
    left_edges, bars = np.zeros(len(times)), []
    for name, colour in zip(TIMES, (SKY, VERMILLION, GREY), strict=True):
        bars.append(
            axes.barh(names, times[name], left=left_edges, height=0.6, color=colour, label=name)
        )
        widths = times[name].to_numpy(float)
        texts = [
            f"{bar}: {name} {significant(width)} ms"
            for bar, width in zip(names, widths, strict=True)
        ]
        add_values(axes, left_edges + widths / 2, np.arange(len(names)), texts, (widths / 2, 0.3))
        left_edges += widths
    axes.invert_yaxis()
    grid_lines(axes)
    title_and_key(figure, "Time of a step", bars)
    return figure
