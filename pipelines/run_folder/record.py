"""``run.json``: what it says of every run, and its reading; ``records`` has what commands add."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationError
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
    read_bytes,
)

WAY_OUT = "name a folder that a command wrote with --results"

# The schema of each command, in the file of ``records`` that has its name: a run imports its own.
RECORDS = {
    "svm_grid": "SvmRecord", "nn_bagging": "BaggingRecord", "pagerank": "GraphRecord",
    "cross_validate": "ValidationRecord", "data_parallel": "TrainingRecord",
}  # fmt: skip


class TableMetadata(Part):
    """Columns of a table by kind, as they were learned from."""

    target: str
    missing: str = "impute"
    without_header: bool = False
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


class ImageForm(Part):
    """The form of the images of a data set, as ``ImageFormat`` describes it."""

    height: Side
    width: Side
    brightest: Positive
    ink_side: Side | None
    channels: Literal[1, 3] = 1
    strokes: tuple[Positive, Positive] | None = None


class FeatureMetadata(Part):
    """What images were turned into before they were learned from, as ``Extractor`` describes it."""

    name: str
    size: Side | None = None
    weights: str = ""
    weights_name: str = ""


class WorkerMetadata(Part):
    """A worker of a run."""

    address: str
    host: str | None = None
    gpu: str | None = None


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
    seed: Count | None = None
    solver: str | None = None
    scoring: str | list[str] | None = None
    cv: str | None = None
    rope: Number | None = None
    n_c: Count | None = None
    n_gamma: Count | None = None
    n_epsilon: Count | None = None
    log_c: list[Number] | None = None
    log_gamma: list[Number] | None = None
    log_epsilon: list[Number] | None = None
    n_bootstrap: Count | None = None
    n_tuning: Count | None = None
    network: str | None = None
    until_loss: Number | None = None
    features: str | None = None
    weights: str | None = None
    alpha: Share | None = None
    tol: Number | None = None


class BestMetadata(Part):
    """The best candidate, by the mean over its folds."""

    error_mean: Share | None = None
    error_std: Number | None = None
    score_mean: Number | None = None
    score_std: Number | None = None


class NestedMetadata(Part):
    """The estimate of a nested cross-validation."""

    score_mean: Number
    score_std: Number
    n_outer: Count


class BaselineMetadata(Part):
    """An estimator that always gives the same answer, which a result should beat."""

    answer: str | None = None
    words: str = ""
    share: Share | None = None
    scoring: str | None = None
    score_mean: Number | None = None
    test_error: Share | None = None
    n_test_errors: Count | None = None
    test_metric: Number | None = None


class Record(Part):
    """The fields of ``run.json`` that all runs have; a missing one is not known yet."""

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
    options: OptionMetadata = OptionMetadata()
    dataset: DatasetMetadata = DatasetMetadata()
    cluster: ClusterMetadata = ClusterMetadata()
    versions: dict[str, Scalar] = {}
    machine: dict[str, Scalar] = {}
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

    def missing(self) -> list[str]:
        """Return the fields that a run with this status must have, and has not."""
        if "status" not in self.model_fields_set or self.status != "finished":
            return []
        wanted = ("wall_seconds", "n_cells", *self.answer)
        lacks = [name for name in wanted if getattr(self, name) is None]
        if self.tests_rows and self.dataset.n_test is None:
            lacks.append("dataset.n_test")
        return lacks


def read_record(folder: Path, argument: str = "RUN") -> tuple[dict[str, Any], Record]:
    """Return ``run.json`` as it stands, and held against the schema of its command.

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
        metadata = from_json(content := read_bytes(path))
        if not isinstance(metadata, dict):
            raise ValueError(f"it holds a {type(metadata).__name__}, not one object")
        schema: type[Record] = Record
        if (command := str(metadata.get("command"))) in RECORDS:
            module = import_module(f"pipelines.run_folder.records.{command}")
            schema = getattr(module, RECORDS[command])
        record = schema.model_validate_json(content)
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
    return metadata, record
