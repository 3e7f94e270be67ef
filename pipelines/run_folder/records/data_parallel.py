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


class StageMetadata(Part):
    """A stage of a network that is cut: where it is, and what a micro-batch costs in it."""

    rank: Count
    layers: str
    seconds: Seconds
    activation_bytes: Number


class KeptMetadata(Part):
    """Micro-batches whose activations a rank keeps at once, at the most."""

    micro_batches: Count
    bytes: Number


class PipelineMetadata(Part):
    """Idle shares of the ranks' time in the last epoch of a pipeline of stages.

    ``usual_step`` has the actions of each rank in a step of median length: kind, stage,
    micro-batch, beginning and end in seconds.
    """

    training: str
    schedule: str
    n_ranks: Count
    micro_batches: Count
    rows_of_micro_batch: Count
    ideal: Number
    measured: Number
    imbalance: Number
    communication: Number
    seconds: Seconds
    compute: Seconds
    stages: list[StageMetadata]
    kept: list[KeptMetadata]
    usual_step: list[list[list[float]]]


class TrainingRecord(Record):
    """The ``run.json`` of a run of ``data_parallel``."""

    answer = ("trainings", "metric")

    trainings: list[TrainingMetadata] | None = None
    restarts: list[RestartMetadata] = []
    pipelines: list[PipelineMetadata] = []
    metric: str | None = None
    n_weights: Count | None = None
