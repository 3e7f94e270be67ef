"""What a run of ``data_parallel`` leaves: its files and their schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from pipelines.run_folder.record import Answer, OptionMetadata, Record
from pipelines.run_folder.rows import Metric, Row
from pipelines.run_folder.schema import Count, Number, RecordPart, Scalar, Seconds

EPOCHS = "epochs.parquet"
CHECKPOINTS = "checkpoints"  # a folder with the last checkpoint of each training

EPOCH = ("strategy", "ranks", "repeat", "epoch")  # the key of a row


def training_name(training: str) -> str:
    """The name of a training in words: ``every-step, 2 ranks, repeat 1``."""
    strategy, _, numbers = training.rpartition(" on ")
    n_ranks, comma, repeat = numbers.partition(",")
    return f"{strategy}, {n_ranks} rank{'s' * (n_ranks != '1')}{comma}{repeat}"


class EpochRow(Row):
    """An epoch of a training of ``data_parallel``; a training that failed has one without numbers.

    ``seconds`` counts from the beginning of the training. The other times are of this epoch, as
    the mean of its ranks. Communication and waiting are the seconds in which a rank could compute
    nothing, without what ran beside a backward pass. Losses that are not finite are left out.
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
        """Losses and times of an epoch, for one curve of each training."""
        series = f"{row['strategy']} on {row['ranks']}, repeat {row['repeat'] + 1}"
        for metric in super().metrics(row, number):
            yield metric._replace(step=row["epoch"], series=series)


class ParallelOptionMetadata(OptionMetadata):
    """Options of ``data_parallel``."""

    network: str | None = None
    until_loss: Number | None = None


class TrainingMetadata(RecordPart):
    """A training, with the losses of its best epoch, whose network is kept.

    ``wait_share`` is the fraction of its seconds in which ranks waited for each other, as their
    mean. The first epoch is left out if there are more.
    """

    __pydantic_extra__: dict[str, Scalar] = Field(init=False)

    strategy: str
    ranks: Count
    repeat: Count
    validation_loss: Number | None = None
    test_metric: Number | None = None
    wait_share: Number | None = None


class ParallelAnswer(Answer):
    """The results of ``data_parallel`` in ``run.json``.

    Attributes
    ----------
    trainings : list of TrainingMetadata or None
    restarts : list of dict
        For each process group that followed a broken one, why and how many steps it cost.
    metric : str or None
        The name of what is measured beside the loss.
    """

    needed: ClassVar[tuple[str, ...]] = ("trainings", "metric", "dataset.n_test")

    trainings: list[TrainingMetadata] | None = None
    restarts: list[dict[str, Scalar]] = []
    metric: str | None = None


class ParallelRecord(ParallelAnswer, Record):
    """``run.json`` of ``data_parallel``.

    Attributes
    ----------
    stages : int, default 1
        Stages of the network.
    bubble : float or None
        The fraction of a step in which a rank of a pipeline is idle by the schedule alone; see
        ``Formation.bubble``.
    """

    stages: Count = 1
    bubble: Number | None = None
    options: ParallelOptionMetadata = ParallelOptionMetadata()
