"""The part of the ``run.json`` schema that all commands share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from pipelines.run_folder.schema import Count, Number, Part, Positive, Scalar, Seconds, Share, Side


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
    classes: list[str] = []
    image_shape: list[Side] | None = None
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
    """The options of a run; what a command does not say here is any scalar, or a list of them."""

    __pydantic_extra__: dict[str, Scalar | list[Scalar]] = Field(init=False)

    folds: Count | None = None
    seed: Count | None = None
    solver: str | None = None


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

    def missing(self) -> list[str]:
        """Return the fields that a run with this status must have, and has not."""
        if "status" not in self.model_fields_set or self.status != "finished":
            return []
        wanted = ("wall_seconds", "n_cells", *self.answer)
        lacks = [name for name in wanted if getattr(self, name) is None]
        if self.tests_rows and self.dataset.n_test is None:
            lacks.append("dataset.n_test")
        return lacks
