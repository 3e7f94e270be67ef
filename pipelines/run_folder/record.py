"""``run.json``: the schema of a run of any command, and its reading."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import from_json

from pipelines.errors import InputError
from pipelines.run_folder.digests import FileDigest, FileName
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
)

WAY_OUT = "name a folder that a command wrote with --results"

# What a finished run has said at its end, and is said again when it is resumed.
ANSWERS = {
    "svm_grid": ("best", "dataset.n_test"),
    "cross_validate": (
        "best",
        "algorithms",
        "scoring",
        "fits_asked",
        "fits_made",
        "dataset.n_test",
    ),
    "nn_bagging": (
        "vote_test_error",
        "n_vote_errors",
        "mean_test_error",
        "members_mean_test_error",
        "members_best_test_error",
        "test_calibration_error",
        "selective_prediction",
        "dataset.n_test",
    ),
    "pagerank": ("top", "n_iterations", "change", "residual", "bound", "converged"),
    "data_parallel": ("trainings", "metric", "dataset.n_test"),
}
# What the best candidate of a command is told by.
BEST = {"svm_grid": ("C", "gamma"), "cross_validate": ("algorithm", "candidate")}


class TableMetadata(Part):
    """Columns of a table by kind, as they were learned from."""

    target: str
    missing: str = "impute"
    without_header: bool = False
    missing_values: list[str] = []
    units: dict[str, str] = {}
    levels: dict[str, list[str]] = {}
    numbers: list[str]
    categories: list[str]
    left_out: list[list[str]] = []


class DatasetMetadata(Part):
    """The data of a run."""

    name: str | None = None
    task: str | None = None
    n_train: Count | None = None
    n_test: Count | None = None
    n_features: Count | None = None
    n_classes: Count | None = None
    classes: list[str] = Field(default=[], max_length=MOST_CLASSES)
    # Height and width, of coloured images their channels before them.
    image_shape: tuple[Side, Side] | tuple[Side, Side, Side] | None = None
    scaling: dict[str, Any] | None = None
    fingerprint: str | None = None
    table: TableMetadata | None = None
    notes: list[str] = []


class ImageForm(Part):
    """The form of the images of a data set, as ``ImageFormat`` describes it."""

    height: Side
    width: Side
    brightest: Positive
    ink_side: Side | None
    channels: Literal[1, 3] = 1
    strokes: tuple[Positive, Positive] | None = None
    white: dict[str, Positive] = {}


class FeatureMetadata(Part):
    """What images were turned into before they were learned from, as ``Extractor`` describes it."""

    name: str
    size: Side | None = None
    weights: str = ""
    weights_name: str = ""


class WorkerMetadata(Part):
    """A worker of a run; memory in bytes, the most in use during a task."""

    address: str
    host: str | None = None
    gpu: str | None = None
    gpu_memory: Count | None = None
    peak_memory: Count | None = None
    peak_gpu_memory: Count | None = None


class ClusterMetadata(Part):
    """The cluster on which a run was carried out."""

    kind: str = "cluster"
    n_workers: Count | None = None
    workers: list[WorkerMetadata] = []


class Failure(Part):
    """The cells that share a status other than ``ok``."""

    status: str = "failed"
    count: Count = 0
    cells: list[dict[str, Number | str]] = []


class OptionMetadata(Part):
    """The options of a run, as they are; those that a page asks for have a type."""

    __pydantic_extra__: dict[str, Scalar | list[Scalar]] = Field(init=False)

    folds: Count | None = None
    nested: Count | None = None
    seed: Count | None = None
    solver: str | None = None
    scoring: str | list[str] | None = None
    cv: str | None = None
    repeats: Count | None = None
    rope: Number | None = None
    n_c: Count | None = None
    n_gamma: Count | None = None
    n_epsilon: Count | None = None
    log_c: list[Number] | None = None
    log_gamma: list[Number] | None = None
    n_bootstrap: Count | None = None
    n_tuning: Count | None = None
    network: str | None = None
    until_loss: Number | None = None
    features: str | None = None
    weights: str | None = None
    alpha: Share | None = None
    tol: Number | None = None


class BestMetadata(Part):
    """The best candidate, by the mean over its folds, and its parameters."""

    error_mean: Share | None = None
    error_std: Number | None = None
    score_mean: Number | None = None
    score_std: Number | None = None
    C: Positive | None = None
    gamma: Positive | None = None
    epsilon: Number | None = None
    algorithm: str | None = None
    candidate: Count | None = None
    parameters: dict[str, Any] = {}


class NestedMetadata(Part):
    """The estimate of a nested cross-validation."""

    score_mean: Number
    score_std: Number
    n_outer: Count


class BaselineMetadata(Part):
    """An estimator that always gives the same answer, which a result should beat."""

    words: str = ""
    scoring: str | None = None
    score_mean: Number | None = None
    test_error: Share | None = None
    test_metric: Number | None = None


class SelectivePredictionMetadata(Part):
    """Results of selective prediction on the test samples."""

    rule: str = ""
    n_kept: Count | None = None
    n_wrong_kept: Count | None = None


class RiskControlMetadata(Part):
    """The threshold above which few answers are wrong, and how it does on test samples."""

    threshold: Number | None = None
    n_kept_test: Count
    n_wrong_kept_test: Count
    line: str = ""
    assumption: str = ""


class PredictionSetMetadata(Part):
    """Prediction sets: how large they are on test samples, and how many hold the true class."""

    confidence: Share
    mean_size: Number | None = None
    coverage: Share | None = None
    least_coverage: Share | None = None


class NoveltyMetadata(Part):
    """The number of test samples flagged as novel, and the allowed rate."""

    rate: Share
    n_named: Count


class RankedNode(Part):
    """A node and its rank."""

    node: str
    rank: Share


class Distribution(Part):
    """A histogram of ranks: the number of nodes between neighbouring bounds."""

    bounds: list[Positive] = []
    counts: list[Count] = []

    @model_validator(mode="after")
    def _a_count_between_two_bounds(self) -> Self:
        if len(self.bounds) != len(self.counts) + bool(self.bounds):
            raise ValueError("a count lies between two bounds")
        return self


class TrainingMetadata(Part):
    """A training, with the losses of its best epoch, whose network it keeps."""

    __pydantic_extra__: dict[str, Scalar] = Field(init=False)

    strategy: str
    ranks: Count
    repeat: Count
    validation_loss: Number | None = None
    test_metric: Number | None = None


class IdentityMetadata(Part):
    """What decides results besides data and options: SHA-256 of files and code, versions."""

    inputs: dict[str, dict[str, str]]
    versions: dict[str, str]


class AcceptedMetadata(Part):
    """Changes that a session went on with: of each what it was, and what it is."""

    time: str
    run: str
    changed: dict[str, Annotated[list[str], Field(min_length=2, max_length=2)]]


class Record(Part):
    """The fields of ``run.json`` that are read again; a missing one is not known yet.

    All runs have the first ones, the last ones are of some commands.
    """

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
    identity: IdentityMetadata | None = None
    accepted: list[AcceptedMetadata] = []
    options: OptionMetadata = OptionMetadata()
    dataset: DatasetMetadata = DatasetMetadata()
    cluster: ClusterMetadata = ClusterMetadata()
    versions: dict[str, Scalar] = {}
    machine: dict[str, Scalar] = {}
    n_splits: Count | None = None  # of each candidate
    n_cells: Count | None = None
    n_failed: Count = 0
    failures: list[Failure] = []
    best: BestMetadata | None = None
    test_error: Share | None = None
    n_test_errors: Count | None = None
    baseline: BaselineMetadata | None = None
    remarks: list[str] = []
    test_log_loss: Number | None = None
    test_calibration_error: Number | None = None
    files: dict[FileName, FileDigest] = {}  # as the run left them, by their paths in the folder

    # Of svm_grid and cross_validate.
    nested: NestedMetadata | None = None
    test_scores: dict[str, Number | None] = {}
    ratio: Positive | None = None  # validation rows for each training row
    features: FeatureMetadata | None = None
    task: str | None = None
    scoring: list[str] | None = None
    algorithms: list[BestMetadata] | None = None
    n_candidates: Count | None = None
    fits_asked: Count | None = None
    fits_made: Count | None = None
    steps_asked: Count | None = None
    steps_made: Count | None = None
    families: list[dict[str, Scalar]] = []  # what fits shared, how many were asked for and made

    # Of nn_bagging.
    augment: str = "none"
    image_form: ImageForm | None = None
    vote_test_error: Share | None = None
    n_vote_errors: Count | None = None
    mean_test_error: Share | None = None
    n_mean_errors: Count | None = None
    members_mean_test_error: Share | None = None
    members_best_test_error: Share | None = None
    selective_prediction: SelectivePredictionMetadata | None = None
    risk_control: RiskControlMetadata | None = None
    prediction_sets: PredictionSetMetadata | None = None
    novelty: NoveltyMetadata | None = None

    # Of pagerank.
    n_nodes: Count | None = None
    n_edges: Count | None = None
    n_iterations: Count | None = None
    change: Number | None = None
    residual: Number | None = None
    bound: Number | None = None
    converged: bool | None = None
    top: list[RankedNode] | None = None
    distribution: Distribution = Distribution()
    setup_seconds: Seconds | None = None
    iterating_seconds: Seconds | None = None
    memory_bytes: Count | None = None

    # Of data_parallel.
    trainings: list[TrainingMetadata] | None = None
    restarts: list[dict[str, Scalar]] = []  # process groups that followed one which lost a rank
    metric: str | None = None

    @model_validator(mode="after")
    def _the_best_is_named(self) -> Self:
        for name in BEST.get(self.command, ()) if self.best is not None else ():
            if getattr(self.best, name) is None:
                raise ValueError(f"the best candidate has no {name}")
        return self

    def missing(self) -> list[str]:
        """Return the fields that a run with this status must have, and has not."""
        if "status" not in self.model_fields_set or self.status != "finished":
            return []
        wanted = ("wall_seconds", "n_cells", *ANSWERS.get(self.command, ()))
        return [name for name in wanted if attrgetter(name)(self) is None]


def n_splits_of(metadata: Mapping[str, Any]) -> int | None:
    """Return the splits that each candidate has, by ``run.json``; None of what has no folds.

    Runs begun before they were counted say the folds and repeats that were asked for.
    """
    options = metadata.get("options", {})
    folds: int | None = options.get("folds")
    if folds and options.get("cv") == "repeated":
        folds *= options["repeats"]
    return metadata.get("n_splits", folds)


def fits_of_a_candidate(metadata: Mapping[str, Any]) -> int:
    """Return the fits that a candidate takes: of each split, and as many in each outer fold."""
    nested = metadata.get("options", {}).get("nested") or 0
    return (n_splits_of(metadata) or 1) * (1 + nested)


def splits_in_words(metadata: Mapping[str, Any]) -> str:
    """Return ``5 folds``, or ``15 splits`` where each candidate has others than the folds."""
    n_splits = n_splits_of(metadata)
    what = "fold" if n_splits == metadata.get("options", {}).get("folds") else "split"
    return f"{n_splits} {what}{'s' * (n_splits != 1)}"


def read_record(folder: Path, argument: str = "RUN") -> tuple[dict[str, Any], Record]:
    """Return ``run.json`` as it stands, and held against its schema.

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
        metadata = from_json(content := path.read_bytes())
        if not isinstance(metadata, dict):
            raise ValueError(f"it holds a {type(metadata).__name__}, not one object")
        return metadata, Record.model_validate_json(content)
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
