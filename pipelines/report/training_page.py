"""The page of a run of ``data_parallel``: its figures, its answers, its words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.report.figures import Made, of_any_run
from pipelines.report.kind import Answer, Kind
from pipelines.report.table import Table, Value
from pipelines.report.training_figures import convergence, pipeline_steps, speed_up, training_times
from pipelines.report.wording import count, significant
from pipelines.run_folder import names
from pipelines.run_folder.reading import Run, read_run
from pipelines.run_folder.records.data_parallel import TrainingRecord

PLACE = ("strategy", "ranks", "repeat", "epoch")
TIMES = ("compute", "communication", "wait")


@dataclass(frozen=True)
class TrainingRun(Run[TrainingRecord]):
    """A run of trainings: ``cells`` has a row for each epoch of each."""

    @property
    def epochs(self) -> pd.DataFrame:
        """Epochs that ended, of trainings that did not fail."""
        if "seconds" not in self.cells:
            return self.cells.iloc[:0]
        return self.cells[self.cells["seconds"].notna()]


def read_training_run(folder: Path) -> TrainingRun:
    """Read the folder of a run of ``data_parallel``; raises what ``read_run`` raises."""
    return TrainingRun(**vars(read_run(folder, place=PLACE, cells_file=names.EPOCHS)))


def _convergence(run: TrainingRun) -> Made:
    shown = run.epochs[run.epochs["validation_loss"] > 0]
    if shown.empty:
        return None
    n_kinds = shown.groupby(["strategy", "ranks"]).ngroups
    alt = (
        f"Validation loss against epochs, steps and seconds of {count(n_kinds, 'kind')} of "
        f"training; the lowest is {significant(float(shown['validation_loss'].min()))}."
    )
    return convergence(shown, run.record.options.until_loss), alt


def times_of(run: TrainingRun) -> pd.DataFrame:
    """Return a row for each strategy and number of ranks: milliseconds of a step, rows a second.

    The first epoch of each training is left out where there are others: ranks warm up in it.
    """
    epochs = run.epochs
    if epochs.empty:
        return pd.DataFrame(columns=["label", *TIMES, "strategy", "ranks", "rows_a_second",
                                     "noise_scale"])  # fmt: skip
    epochs = epochs.sort_values(list(PLACE))
    trainings = epochs.groupby(["strategy", "ranks", "repeat"], sort=False)
    steps = trainings["step"].diff().fillna(epochs["step"])
    timed = epochs.assign(steps=steps, only=trainings["epoch"].transform("size") == 1)
    timed = timed[(timed["epoch"] > 1) | timed["only"]]
    rows, n_train = [], run.record.dataset.n_train or 0
    kinds: list[tuple[Any, pd.DataFrame]] = list(timed.groupby(["strategy", "ranks"], sort=False))
    for (strategy, ranks), some in kinds:
        n_steps = max(1.0, float(some["steps"].sum()))
        spent = {name: float(some[f"{name}_seconds"].sum()) for name in TIMES}
        rows.append(
            {
                "label": f"{strategy}, {ranks}",
                **{name: 1000 * seconds / n_steps for name, seconds in spent.items()},
                "strategy": strategy,
                "ranks": int(ranks),
                "rows_a_second": n_train * len(some) / max(1e-9, sum(spent.values())),
                "noise_scale": _middle(some["noise_scale"]) if "noise_scale" in some else None,
            }
        )
    return pd.DataFrame(rows)


def _middle(numbers: pd.Series) -> float | None:
    """Return the median, or None where there is no number."""
    return None if numbers.isna().all() else float(numbers.median())


def _times(run: TrainingRun) -> Made:
    times = times_of(run)
    if times.empty:
        return None
    alt = (
        f"Time of a step of {count(len(times), 'kind')} of training, in three parts; the table "
        "says the same in numbers."
    )
    return training_times(times), alt


def _speed_up(run: TrainingRun) -> Made:
    times = times_of(run)
    if times["ranks"].nunique() < 2:
        return None
    fewest = times[times["ranks"] == times["ranks"].min()].set_index("strategy")["rows_a_second"]
    rates = times.assign(
        speed_up=times["rows_a_second"] / times["strategy"].map(fewest)
    )  # fmt: skip
    best = rates.sort_values("speed_up").iloc[-1]
    alt = (
        f"Rows a second against ranks; the most is {significant(float(best['speed_up']))} times "
        f"that of the fewest, {best['strategy']} on {best['ranks']}."
    )
    return speed_up(rates), alt


def _size(run: TrainingRun) -> str:
    trainings, network = run.record.trainings or (), run.record.options.network or "a network"
    return f"{count(len(trainings), 'training')} of {network}"


def _answers(run: TrainingRun) -> list[Answer]:
    record, answers = run.record, []
    ended = [one for one in record.trainings or () if one.validation_loss is not None]
    if ended:
        best = min(ended, key=lambda one: one.validation_loss or 0.0)
        note = f"{best.strategy} on {count(best.ranks, 'rank')}, validation"
        answers.append(Answer("lowest loss", significant(best.validation_loss or 0.0), note))
        if best.test_metric is not None:
            metric = significant(best.test_metric)
            answers.append(Answer(f"test {record.metric}", metric, "of the same network"))
    times = times_of(run)
    if not times.empty:
        most = times.sort_values("rows_a_second").iloc[-1]
        note = f"{most['strategy']} on {count(int(most['ranks']), 'rank')}"
        answers.append(Answer("rows a second", f"{most['rows_a_second']:,.0f}", note))
    if record.restarts:
        lost = sum(one.steps_lost for one in record.restarts)
        answers.append(Answer("restarts", str(len(record.restarts)), f"{lost} steps done again"))
    return answers


def _times_table(run: TrainingRun) -> Table:
    rows: list[list[Value]] = []
    for row in times_of(run).to_dict("records"):
        parts = [float(row[name]) for name in TIMES]
        share = 100 * parts[1] / max(1e-9, sum(parts))
        noise = None if pd.isna(row["noise_scale"]) else float(row["noise_scale"])
        rows.append([row["label"], sum(parts), *parts, share, float(row["rows_a_second"]), noise])
    return Table.of(
        ("strategy and ranks", "ms a step", *TIMES, "communication %", "rows a second",
         "noise scale, rows"), rows,
    )  # fmt: skip


def _pipeline_steps(run: TrainingRun) -> Made:
    if not run.record.pipelines:
        return None
    shown = run.record.pipelines[0]
    alt = (
        f"One step of {shown.schedule} on {count(shown.n_ranks, 'rank')} with "
        f"{count(shown.micro_batches, 'micro-batch', 'micro-batches')}: what each rank computes "
        f"when; {100 * shown.measured:.1f} % of the ranks' time is idle."
    )
    return pipeline_steps(shown.usual_step), alt


def _content(run: TrainingRun) -> dict[str, Any]:
    return {
        "trainings": Table.of(
            ("strategy", "ranks", "repeat", "epochs", "steps", "seconds", "best epoch",
             "validation loss", "test loss", "status"),
            [
                (one.strategy, (one.ranks, str(one.ranks)), (one.repeat, str(one.repeat + 1)),
                 one.epochs, one.steps, one.seconds, one.best_epoch, one.validation_loss,
                 one.test_loss, one.status)
                for one in run.record.trainings or ()
            ],
        ),
        "restarts": Table.of(
            ("training", "why", "ranks before", "after", "from step", "steps done again",
             "seconds"),
            [
                (one.training, one.reason, one.ranks_before, one.ranks_after, one.step,
                 one.steps_lost, one.seconds)
                for one in run.record.restarts
            ],
        ),
        "times": _times_table(run),
        "bubbles": Table.of(
            ("training", "schedule", "micro-batches", "ms a micro-batch", "ideal %", "measured %",
             "imbalance %", "communication %"),
            [
                (one.training, one.schedule, one.micro_batches,
                 1000 * one.compute / one.micro_batches, 100 * one.ideal, 100 * one.measured,
                 100 * one.imbalance, 100 * one.communication)
                for one in run.record.pipelines
            ],
        ),
        "stages": Table.of(
            ("training", "stage", "rank", "layers", "ms a micro-batch", "activations, KiB",
             "kept by its rank", "in all, KiB"),
            [
                (one.training, s + 1, stage.rank, stage.layers, 1000 * stage.seconds,
                 stage.activation_bytes / 1024, one.kept[stage.rank].micro_batches,
                 one.kept[stage.rank].bytes / 1024)
                for one in run.record.pipelines
                for s, stage in enumerate(one.stages)
            ],
        ),
    }  # fmt: skip


TRAINING = Kind(
    title="Data-parallel training",
    template="data_parallel.html",
    read=read_training_run,
    figures={
        "convergence": _convergence,
        "training_times": _times,
        "speed_up": _speed_up,
        "pipeline_steps": _pipeline_steps,
        **{name: of_any_run()[name] for name in ("confusion_matrix", "timeline")},
    },
    size=_size,
    answers=_answers,
    content=_content,
    place=PLACE,
    cell_name=lambda cell: f"{cell['strategy']} on {cell['ranks']}, repeat {cell['repeat'] + 1}",
)
