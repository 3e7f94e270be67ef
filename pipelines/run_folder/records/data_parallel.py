"""The ``run.json`` schema of ``data_parallel``."""

from __future__ import annotations

from pipelines.run_folder.record import Record
from pipelines.run_folder.schema import Count, Number, Part, Seconds


class TrainingMetadata(Part):
    """A training: its end, and the losses of its best epoch, whose network it keeps."""

    strategy: str
    ranks: Count
    repeat: Count
    epochs: Count | None = None
    best_epoch: Count | None = None
    steps: Count | None = None
    seconds: Seconds | None = None
    validation_loss: Number | None = None
    test_loss: Number | None = None
    test_metric: Number | None = None
    status: str = "ok"


class RestartMetadata(Part):
    """A process group that followed one which lost a worker."""

    training: str
    reason: str
    ranks_before: Count
    ranks_after: Count
    step: Count
    steps_lost: Count
    seconds: Seconds


class TrainingRecord(Record):
    """The ``run.json`` of a run of ``data_parallel``."""

    answer = ("trainings", "metric")

    trainings: list[TrainingMetadata] | None = None
    restarts: list[RestartMetadata] = []
    metric: str | None = None
    n_weights: Count | None = None
