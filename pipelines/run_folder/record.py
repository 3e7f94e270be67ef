"""What ``run.json`` says of a run, held against its schema."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import from_json

from pipelines.errors import InputError
from pipelines.run_folder.names import RECORD
from pipelines.run_folder.schema import (
    MOST_CLASSES,
    Count,
    Number,
    Part,
    Positive,
    Scalar,
    Seconds,
    Share,
    Side,
    one_line,
    read_bytes,
)

WAY_OUT = "name a folder that a command wrote with --results"


class TableFacts(Part):
    """Columns of a table by kind, as they were learned from."""

    target: str
    missing: str = "impute"
    without_header: bool = False
    numbers: list[str]
    categories: list[str]
    left_out: list[list[str]] = []


class DatasetFacts(Part):
    """The data of a run."""

    name: str | None = None
    n_train: Count | None = None
    n_test: Count | None = None
    n_features: Count | None = None
    n_classes: Count | None = None
    classes: list[str] = []
    image_shape: list[Side] | None = None
    scaling: dict[str, Any] | None = None
    fingerprint: str | None = None
    table: TableFacts | None = None


class WorkerFacts(Part):
    """A worker of a run."""

    address: str
    host: str | None = None
    gpu: str | None = None


class ClusterFacts(Part):
    """Where a run was carried out."""

    kind: str = "cluster"
    n_workers: Count | None = None
    workers: list[WorkerFacts] = []


class Failure(Part):
    """The cells that share a status other than ``ok``."""

    status: str = "failed"
    count: Count = 0
    cells: list[dict[str, Number | str]] = []


class OptionFacts(Part):
    """The options of a run; what a command does not say here is any scalar, or a list of them."""

    __pydantic_extra__: dict[str, Scalar | list[Scalar]] = Field(init=False)

    folds: Count | None = None
    seed: Count | None = None
    solver: str | None = None


class BestFacts(Part):
    """The best candidate, by the mean over its folds."""

    error_mean: Share | None = None
    error_std: Number | None = None
    score_mean: Number | None = None
    score_std: Number | None = None


class Record(Part):
    """What every run says of itself. What is missing was not known yet."""

    # What a finished run has said at its end, and is said again when it is resumed.
    answer: ClassVar[Sequence[str]] = ()
    tests_rows: ClassVar[bool] = True  # its answer counts errors on test rows

    command: str
    argv: list[str] = []
    status: str = "finished"
    reason: str | None = None
    started: str | None = None
    finished: str | None = None
    session_began: Number | None = None
    wall_seconds: Seconds | None = None
    busy_share: Number | None = None
    compile_seconds: Seconds | None = None
    seed: Count | None = None
    fingerprint: str | None = None
    solver: str | None = None
    commit: str | None = None
    options: OptionFacts = OptionFacts()
    dataset: DatasetFacts = DatasetFacts()
    cluster: ClusterFacts = ClusterFacts()
    versions: dict[str, Scalar] = {}
    machine: dict[str, Scalar] = {}
    n_cells: Count | None = None
    n_failed: Count = 0
    failures: list[Failure] = []
    best: BestFacts | None = None
    test_error: Share | None = None
    n_test_errors: Count | None = None
    test_log_loss: Number | None = None
    test_calibration_error: Number | None = None

    def missing(self) -> list[str]:
        """What a run with this status should have said, and did not."""
        if "status" not in self.model_fields_set or self.status != "finished":
            return []
        wanted = ("wall_seconds", "n_cells", *self.answer)
        lacks = [name for name in wanted if getattr(self, name) is None]
        if self.tests_rows and self.dataset.n_test is None:
            lacks.append("dataset.n_test")
        return lacks


class SvmOptions(OptionFacts):
    """The grid of ``svm_grid``."""

    n_c: Count | None = None
    n_gamma: Count | None = None
    log_c: list[Number] | None = None
    log_gamma: list[Number] | None = None
    scoring: str = "accuracy"


class BestOfSvm(BestFacts):
    """The best candidate of ``svm_grid``."""

    C: Positive
    gamma: Positive


class SvmRecord(Record):
    """What ``svm_grid`` says of a run."""

    answer: ClassVar[Sequence[str]] = ("best", "test_error", "n_test_errors")

    options: SvmOptions = SvmOptions()
    best: BestOfSvm | None = None


class ReferralFacts(Part):
    """What the rule leaves to a person."""

    rule: str = ""
    n_kept: Count | None = None
    n_wrong_kept: Count | None = None


class GuaranteeFacts(Part):
    """The threshold above which few answers are wrong, and how it does on test points."""

    error: Share
    confidence: Share
    threshold: Number | None = None
    bound: Share | None = None
    n_left_out: Count
    n_kept: Count
    n_wrong: Count
    n_kept_test: Count
    n_wrong_kept_test: Count
    line: str = ""
    assumption: str = ""


class SetFacts(Part):
    """Sets of classes: how large they are on test points, and how many hold the true class."""

    confidence: Share
    mean_size: Number | None = None
    coverage: Share | None = None
    least_coverage: Share | None = None


class StrangerFacts(Part):
    """How many test points were named as foreign, and the rate that was allowed."""

    rate: Share
    n_named: Count


class ImageForm(Part):
    """The form of the images of an ensemble, as ``bagging.pictures`` measures it."""

    height: Side
    width: Side
    brightest: Positive
    ink_side: Side


class BaggingOptions(OptionFacts):
    """The size of the ensemble of ``nn_bagging``."""

    n_bootstrap: Count | None = None
    n_tuning: Count | None = None


class BaggingRecord(Record):
    """What ``nn_bagging`` says of a run."""

    answer: ClassVar[Sequence[str]] = (
        "vote_test_error", "n_vote_errors", "mean_test_error", "members_mean_test_error",
        "members_best_test_error", "test_calibration_error", "referral",
    )  # fmt: skip

    options: BaggingOptions = BaggingOptions()
    space: dict[str, Any] | None = None
    pictures: str | None = None
    image_form: ImageForm | None = None
    lost_members: list[Count] = []
    why_lost: str = ""
    vote_test_error: Share | None = None
    n_vote_errors: Count | None = None
    mean_test_error: Share | None = None
    n_mean_errors: Count | None = None
    members_mean_test_error: Share | None = None
    members_best_test_error: Share | None = None
    referral: ReferralFacts | None = None
    guarantee: GuaranteeFacts | None = None
    class_sets: SetFacts | None = None
    strangers: StrangerFacts | None = None


class GraphOptions(OptionFacts):
    """The walk of ``pagerank`` and where it ends."""

    alpha: Share | None = None
    tol: Number | None = None


class RankedNode(Part):
    """A node and its rank."""

    node: str
    rank: Share


class Distribution(Part):
    """How many nodes have a rank between one bound and the next."""

    bounds: list[Positive] = []
    counts: list[Count] = []

    @model_validator(mode="after")
    def _a_count_between_two_bounds(self) -> Self:
        if len(self.bounds) != len(self.counts) + bool(self.bounds):
            raise ValueError("a count lies between two bounds")
        return self


class GraphRecord(Record):
    """What ``pagerank`` says of a run."""

    answer: ClassVar[Sequence[str]] = (
        "top", "n_iterations", "change", "residual", "bound", "converged",
    )  # fmt: skip
    tests_rows: ClassVar[bool] = False

    options: GraphOptions = GraphOptions()
    n_nodes: Count | None = None
    n_edges: Count | None = None
    n_iterations: Count | None = None
    change: Number | None = None
    residual: Number | None = None
    bound: Number | None = None
    converged: bool | None = None
    top: list[RankedNode] | None = None
    distribution: Distribution = Distribution()
    left_out: dict[str, str] = {}


class ValidationOptions(OptionFacts):
    """What ``cross_validate`` was asked."""

    cv: str | None = None
    rope: Number | None = None


class BestValidated(BestFacts):
    """The best candidate of ``cross_validate``."""

    algorithm: str
    candidate: Count
    parameters: dict[str, Any] = {}


class ValidatedAlgorithm(Part):
    """The best candidate of an algorithm."""

    algorithm: str
    candidate: Count
    parameters: dict[str, Any] = {}
    score_mean: Number | None = None
    score_std: Number | None = None
    fit_seconds: Seconds | None = None
    score_seconds: Seconds | None = None


class FamilyFacts(Part):
    """Fits that were asked for, and made, by what they shared."""

    family: str
    asked: Count
    made: Count


class NestedFacts(Part):
    """The estimate of a nested cross-validation."""

    score_mean: Number
    score_std: Number
    n_outer: Count


class ValidationRecord(Record):
    """What ``cross_validate`` says of a run."""

    answer: ClassVar[Sequence[str]] = ("best", "algorithms", "scoring", "fits_asked", "fits_made")

    options: ValidationOptions = ValidationOptions()
    best: BestValidated | None = None
    task: str | None = None
    scoring: list[str] | None = None
    algorithms: list[ValidatedAlgorithm] | None = None
    n_candidates: Count | None = None
    fits_asked: Count | None = None
    fits_made: Count | None = None
    steps_asked: Count | None = None
    steps_made: Count | None = None
    families: list[FamilyFacts] = []
    nested: NestedFacts | None = None
    test_scores: dict[str, Number | None] = {}


class TrainingOptions(OptionFacts):
    """What ``data_parallel`` was asked."""

    network: str | None = None
    batch_size: Count | None = None
    epochs: Count | None = None
    until_loss: Number | None = None


class TrainingFacts(Part):
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


class RestartFacts(Part):
    """A gang that followed one which lost a worker."""

    training: str
    reason: str
    ranks_before: Count
    ranks_after: Count
    step: Count
    steps_lost: Count
    seconds: Seconds


class StageFacts(Part):
    """A stage of a network that is cut: where it is, and what a micro-batch costs in it."""

    rank: Count
    layers: str
    seconds: Seconds
    activation_bytes: Number


class KeptFacts(Part):
    """Micro-batches whose activations a rank keeps at once, at the most."""

    micro_batches: Count
    bytes: Number


class PipelineFacts(Part):
    """What a pipeline of stages left idle in its last epoch: shares of the ranks' time.

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
    stages: list[StageFacts]
    kept: list[KeptFacts]
    usual_step: list[list[list[float]]]


class TrainingRecord(Record):
    """What ``data_parallel`` says of a run."""

    answer: ClassVar[Sequence[str]] = ("trainings", "metric")

    options: TrainingOptions = TrainingOptions()
    trainings: list[TrainingFacts] | None = None
    restarts: list[RestartFacts] = []
    pipelines: list[PipelineFacts] = []
    metric: str | None = None
    n_weights: Count | None = None


RECORDS: dict[str, type[Record]] = {
    "svm_grid": SvmRecord, "nn_bagging": BaggingRecord, "pagerank": GraphRecord,
    "cross_validate": ValidationRecord, "data_parallel": TrainingRecord,
}  # fmt: skip


def read_record(folder: Path, argument: str = "RUN") -> tuple[dict[str, Any], Record]:
    """``run.json`` as it stands, and held against the schema of its command.

    Parameters
    ----------
    folder : Path
    argument : what the caller named the folder with, for the message

    Raises
    ------
    InputError
        There is none, or it breaks its schema.
    """
    path = folder / RECORD
    if not path.is_file():
        problem = f"with a {RECORD}" if folder.is_dir() else "that exists"
        raise InputError(
            f"{argument} must be a run folder {problem}, got {str(folder)!r}: {WAY_OUT}"
        )
    try:
        facts = from_json(content := read_bytes(path))
        if not isinstance(facts, dict):
            raise ValueError(f"it holds a {type(facts).__name__}, not one object")
        schema = RECORDS.get(str(facts.get("command")), Record)
        record = schema.model_validate_json(content)
        _refuse_impossible(record)
    except OSError as error:
        raise InputError(
            f"{argument} must be a run folder that can be read, got {str(path)!r} "
            f"({error.strerror}): {WAY_OUT}"
        ) from None
    except (ValueError, ValidationError) as error:
        raise InputError(
            f"{argument} must hold a {RECORD} as a command writes it, got {str(path)!r}, which is "
            f"damaged ({one_line(error)}): {WAY_OUT}"
        ) from None
    return facts, record


def _refuse_impossible(record: Record) -> None:
    dataset = record.dataset
    if len(dataset.classes) > MOST_CLASSES:
        raise ValueError(f"dataset.classes: more than {MOST_CLASSES:,} classes")
    if dataset.image_shape is not None and len(dataset.image_shape) != 2:
        raise ValueError("dataset.image_shape: not a height and a width")
