"""What a run of ``data_parallel`` leaves: its files and their schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from pipelines.run_folder.record import Answer, OptionMetadata, Record
from pipelines.run_folder.rows import Metric, Row
from pipelines.run_folder.schema import Count, Number, RecordPart, Scalar, Seconds

EPOCHS = "epochs.parquet"
CHECKPOINTS = "checkpoints"  # a folder: where each training stands, or ended

EPOCH = ("strategy", "ranks", "repeat", "epoch")  # what tells one row from another


def training_name(training: str) -> str:
    """A training's name as a person reads it: ``every-step, 2 ranks, repeat 1``."""
    strategy, _, numbers = training.rpartition(" on ")
    n_ranks, comma, repeat = numbers.partition(",")
    return f"{strategy}, {n_ranks} rank{'s' * (n_ranks != '1')}{comma}{repeat}"


class EpochRow(Row):
    """An epoch of a training of ``data_parallel``; one that failed has a row without numbers.

    ``seconds`` are of training since its beginning, the other times of this epoch, the mean of
    its ranks: of communication and waiting those in which a rank could compute nothing, and not
    what ran beside a backward pass. Losses that are not finite are left out.
    """

    strategy: str
    ranks: Count
    repeat: Count
    epoch: Count
    step: Count | None = None
    n_ranks: Count | None = None
    loss: Number | None = None
    validation_loss: Number | None = None
    validation_metric: Number | None = None
    seconds: Seconds | None = None
    compute_seconds: Number | None = None
    communication_seconds: Number | None = None
    wait_seconds: Number | None = None
    test_loss: Number | None = None
    test_metric: Number | None = None
    worker: str = ""
    status: str

    @classmethod
    def metrics(cls, row: Mapping[str, Any], number: int) -> Iterator[Metric]:
        """Yield losses and times of an epoch, in a curve for each training."""
        series = f"{row['strategy']} on {row['ranks']}, repeat {row['repeat'] + 1}"
        for metric in super().metrics(row, number):
            yield metric._replace(step=row["epoch"], series=series)


class ParallelOptionMetadata(OptionMetadata):
    """Options of ``data_parallel``."""

    network: str | None = None
    until_loss: Number | None = None


class TrainingMetadata(RecordPart):
    """A training, with the losses of its best epoch, whose network it keeps.

    ``wait_share`` is the share of its seconds in which ranks waited for others, their mean,
    without the first epoch where there are more.
    """

    __pydantic_extra__: dict[str, Scalar] = Field(init=False)

    strategy: str
    ranks: Count
    repeat: Count
    validation_loss: Number | None = None
    test_metric: Number | None = None
    wait_share: Number | None = None


class ParallelAnswer(Answer):
    """What ``data_parallel`` answers.

    Attributes
    ----------
    trainings : each with its losses
    restarts : process groups that followed one which lost a rank
    metric : what is measured beside the loss
    """

    needed: ClassVar[tuple[str, ...]] = ("trainings", "metric", "dataset.n_test")

    trainings: list[TrainingMetadata] | None = None
    restarts: list[dict[str, Scalar]] = []
    metric: str | None = None


class ParallelRecord(ParallelAnswer, Record):
    """``run.json`` of ``data_parallel``.

    Attributes
    ----------
    stages : of the network
    bubble : the share of a step in which a rank of a pipeline is idle by the schedule alone
    """

    stages: Count = 1
    bubble: Number | None = None
    options: ParallelOptionMetadata = ParallelOptionMetadata()
