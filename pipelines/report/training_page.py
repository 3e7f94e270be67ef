"""The page of a run of ``data_parallel``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

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
from pipelines.report.parts import Card, Chart, Columns, Listing, Part, Section, Table, Text, Value
from pipelines.report.style import GREY, SKY, VERMILLION, one_axes
from pipelines.report.wording import count, percent, significant
from pipelines.run_folder import names
from pipelines.run_folder.reading import read_run
from pipelines.run_folder.records.data_parallel import TrainingMetadata, TrainingRecord

PLACE = ("strategy", "ranks", "repeat", "epoch")
TIMES = ("compute", "communication", "wait")
ACROSS = (("epoch", "epochs"), ("step", "steps"), ("seconds", "seconds of training"))
STYLES = ("-", "--", ":", "-.")
ERROR = "error"  # the metric of classes, a fraction


@dataclass(frozen=True)
class TrainingReport(Report[TrainingRecord]):
    """A run of trainings: ``cells`` has a row for each epoch of each."""

    title = "Data-parallel training"
    place = PLACE

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the folder of a run of ``data_parallel``; raises what ``read_run`` raises."""
        return cls(**vars(read_run(folder, place=PLACE, cells_file=names.EPOCHS)))

    @property
    def epochs(self) -> pd.DataFrame:
        """Epochs that ended, of trainings that did not fail."""
        if "seconds" not in self.cells:
            return self.cells.iloc[:0]
        return self.cells[self.cells["seconds"].notna()]

    @property
    def best_training(self) -> TrainingMetadata | None:
        """The training of the lowest validation loss."""
        ended = [one for one in self.record.trainings or () if one.validation_loss is not None]
        return min(ended, key=lambda one: one.validation_loss or 0.0) if ended else None

    def size(self) -> str:
        """Count the trainings."""
        trainings, network = self.record.trainings or (), self.record.options.network
        return f"{count(len(trainings), 'training')} of {network or 'a network'}"

    def _metric(self, value: float) -> str:
        return percent(value) if self.record.metric == ERROR else significant(value)

    def conclusion(self) -> str:
        """Name the best training, with its loss and its error."""
        best = self.best_training
        if best is None:
            return "No epoch has ended yet."
        text = f"{best.strategy} on {count(best.ranks, 'rank')} reaches the lowest validation loss"
        text += f", {significant(best.validation_loss)}"
        if best.test_metric is not None:
            metric = self._metric(best.test_metric)
            text += f"; its {self.record.metric} on the test set is {metric}"
        return f"{text}."

    def cards(self) -> list[Card]:
        """Return losses, rows a second and restarts."""
        cards, best = [], self.best_training
        if best is not None:
            note = f"{best.strategy} on {count(best.ranks, 'rank')}, validation"
            cards.append(Card("lowest loss", significant(best.validation_loss), note))
            if best.test_metric is not None:
                value = self._metric(best.test_metric)
                cards.append(Card(f"test {self.record.metric}", value, "of the same network"))
        cards += self.baseline_cards()
        if not self.times.empty:
            most = self.times.sort_values("rows_a_second").iloc[-1]
            note = f"{most['strategy']} on {count(int(most['ranks']), 'rank')}"
            cards.append(Card("rows a second", f"{most['rows_a_second']:,.0f}", note))
        if restarts := self.record.restarts:
            lost = sum(one.steps_lost for one in restarts)
            cards.append(Card("restarts", str(len(restarts)), f"{lost} steps repeated"))
        return cards

    def cell_name(self, cell: Any) -> str:
        """Name a training."""
        return f"{cell['strategy']} on {cell['ranks']}, repeat {cell['repeat'] + 1}"

    @cached_property
    def times(self) -> pd.DataFrame:
        """A row for each strategy and number of ranks: milliseconds of a step, rows a second.

        The first epoch of each training is left out where there are others: ranks warm up in it.
        """
        epochs = self.epochs
        if epochs.empty:
            columns = ["label", *TIMES, "strategy", "ranks", "rows_a_second"]
            return pd.DataFrame(columns=columns)
        epochs = epochs.sort_values(list(PLACE))
        trainings = epochs.groupby(["strategy", "ranks", "repeat"], sort=False)
        steps = trainings["step"].diff().fillna(epochs["step"])
        timed = epochs.assign(steps=steps, only=trainings["epoch"].transform("size") == 1)
        timed = timed[(timed["epoch"] > 1) | timed["only"]]
        rows, n_train = [], self.record.dataset.n_train or 0
        by_kind: list[Any] = list(timed.groupby(["strategy", "ranks"], sort=False))
        for (strategy, ranks), some in by_kind:
            n_steps = max(1.0, float(some["steps"].sum()))
            spent = {name: float(some[f"{name}_seconds"].sum()) for name in TIMES}
            rows.append(
                {
                    "label": f"{strategy}, {ranks}",
                    **{name: 1000 * seconds / n_steps for name, seconds in spent.items()},
                    "strategy": strategy,
                    "ranks": int(ranks),
                    "rows_a_second": n_train * len(some) / max(1e-9, sum(spent.values())),
                }
            )
        return pd.DataFrame(rows)

    def sections(self) -> list[Section]:
        """Return the trainings, how they converge, and where their time goes."""
        return [
            Section("trainings", "Trainings", self._trainings()),
            Section("convergence", "Convergence", [self._convergence()]),
            test_section(self),
            Section("restarts", "Restarts", self._restarts()),
            Section("times", "Where the time goes", self._times(), link="Times"),
        ]

    def _trainings(self) -> list[Part | None]:
        table = Table.of(
            ("strategy", "ranks", "repeat", "epochs", "steps", "seconds", "best epoch",
             "validation loss", "test loss", "status"),
            [
                (one.strategy, (one.ranks, str(one.ranks)), (one.repeat, str(one.repeat + 1)),
                 one.epochs, one.steps, one.seconds, one.best_epoch, one.validation_loss,
                 one.test_loss, one.status)
                for one in self.record.trainings or ()
            ],
        )  # fmt: skip
        words = "Trainings of one repeat share their first weights and the order of the rows."
        return [Text(words), Listing("Trainings", table)]

    def _convergence(self) -> Chart | None:
        shown = self.epochs
        shown = shown[shown["validation_loss"] > 0] if len(shown) else shown
        if shown.empty:
            return None
        kinds: list[Any] = list(shown.groupby(["strategy", "ranks"], sort=False))
        alt = "Validation loss against epochs, steps and seconds."
        caption = (
            "Validation loss after each epoch, against epochs, steps and seconds. Of several "
            "repeats the line is the median, the band goes from the lowest to the highest."
        )
        panels = [self._panel(kinds, column, label) for column, label in ACROSS]
        draw = partial(series_chart, panels, "Validation loss")
        return Chart("convergence", draw, alt, caption, wide=True)

    def _panel(self, kinds: Sequence[Any], column: str, label: str) -> Panel:
        most = max(int(ranks) for (_, ranks), _ in kinds)
        strategies = list(dict.fromkeys(name for (name, _), _ in kinds))
        series = []
        for (strategy, ranks), some in kinds:
            across = some.groupby("epoch").agg(
                x=(column, "median"), middle=("validation_loss", "median"),
                low=("validation_loss", "min"), high=("validation_loss", "max"),
            )  # fmt: skip
            look = {
                "color": COLOURS[strategies.index(strategy) % len(COLOURS)],
                "linestyle": "-" if ranks == most else STYLES[1 + int(ranks) % 3],
            }
            band = (across["low"], across["high"]) if some["repeat"].nunique() > 1 else None
            name = f"{strategy}, {count(int(ranks), 'rank')}"
            series.append(Series(across["x"], across["middle"], name, band, look))
        if (goal := self.record.options.until_loss) is not None and goal > 0:
            ends = [min(one.x.min() for one in series), max(one.x.max() for one in series)]
            series.append(Series(ends, [goal, goal], f"goal {goal:g}", look=dashed()))
        return Panel(series, label, "validation loss", scales=("linear", "log"))

    def _times(self) -> list[Part | None]:
        if self.times.empty:
            return []
        words = (
            "All ranks leave a collective operation together: the time that the last to arrive "
            "spends in it is communication, what the others spend beyond that is waiting. Compute "
            "is the rest, including the gathering of batches. Times are means over the ranks, "
            "without the first epoch."
        )
        alt = "Time of a step in three parts; the table has the numbers."
        caption = "Milliseconds of a step; strategy and ranks at the left."
        chart = Chart("training_times", partial(training_times, self.times), alt, caption)
        rows: list[list[Value]] = []
        for row in self.times.to_dict("records"):
            parts = [float(row[name]) for name in TIMES]
            share = 100 * parts[1] / max(1e-9, sum(parts))
            rows.append([row["label"], sum(parts), *parts, share, float(row["rows_a_second"])])
        heads = ("strategy and ranks", "ms a step", *TIMES, "communication %", "rows a second")
        table = Listing("Times", Table.of(heads, rows), tall=False)
        return [Text(words), Columns([chart, self._speed_up()]), table]

    def _speed_up(self) -> Chart | None:
        times = self.times
        if times["ranks"].nunique() < 2:
            return None
        ranks = sorted(times["ranks"].unique())
        fewest = times[times["ranks"] == ranks[0]].set_index("strategy")["rows_a_second"]
        rates = times.assign(speed_up=times["rows_a_second"] / times["strategy"].map(fewest))
        alt = "Rows a second against ranks; the table has the numbers."
        series = [Series(ranks, np.array(ranks) / ranks[0], "each rank alike", look=dashed())]
        for i, (strategy, some) in enumerate(rates.groupby("strategy", sort=False)):
            ordered = some.sort_values("ranks")
            look = {"color": COLOURS[i % len(COLOURS)], "marker": "o"}
            series.append(Series(ordered["ranks"], ordered["speed_up"], str(strategy), look=look))
        panel = Panel(series, "ranks", "rows a second, against the fewest ranks")
        caption = "Rows a second against ranks, as a multiple of the fewest."
        return Chart("speed_up", partial(series_chart, [panel], "Speed-up"), alt, caption)

    def _restarts(self) -> list[Part | None]:
        words = (
            "A process group that lost a rank was followed by one that began where all ranks had "
            "last been equal. Seconds are from the loss being noticed to the new ranks' beginning."
        )
        table = Table.of(
            ("training", "why", "ranks before", "after", "from step", "steps done again",
             "seconds"),
            [
                (one.training, one.reason, one.ranks_before, one.ranks_after, one.step,
                 one.steps_lost, one.seconds)
                for one in self.record.restarts
            ],
        )  # fmt: skip
        return [Text(words), Listing("Restarts", table, tall=False)]


def training_times(times: pd.DataFrame) -> Figure:
    """Draw milliseconds of a step: computing, communicating, waiting for other ranks.

    Parameters
    ----------
    times : DataFrame
        label, compute, communication, wait.
    """
    place = np.arange(len(times))[::-1]
    figure, axes = one_axes(1.4 + 0.34 * len(times), xlabel="ms of a step, mean of the ranks")
    left, bars = np.zeros(len(times)), []
    for name, colour in (("compute", SKY), ("communication", VERMILLION), ("wait", GREY)):
        widths = times[name].to_numpy(dtype=float)
        bars.append(axes.barh(place, widths, left=left, height=0.6, color=colour)[0])
        bars[-1].set_label(name)
        left += widths
    axes.set_yticks(place, times["label"])
    grid_lines(axes)
    title_and_key(figure, "Time of a step", bars)
    return figure
