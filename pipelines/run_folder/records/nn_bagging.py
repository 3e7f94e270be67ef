"""The ``run.json`` schema of ``nn_bagging``."""

from __future__ import annotations

from typing import Any

from pipelines.run_folder.record import ImageForm, Record
from pipelines.run_folder.schema import Count, Number, Part, Share


class SelectivePredictionMetadata(Part):
    """Results of selective prediction on the test samples."""

    rule: str = ""
    n_kept: Count | None = None
    n_wrong_kept: Count | None = None


class RiskControlMetadata(Part):
    """The threshold above which few answers are wrong, and how it does on test samples."""

    error: Share
    confidence: Share
    threshold: Number | None = None
    bound: Share | None = None
    n_out_of_bag: Count
    n_kept: Count
    n_wrong: Count
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


class BaggingRecord(Record):
    """The ``run.json`` of a run of ``nn_bagging``."""

    answer = (
        "vote_test_error", "n_vote_errors", "mean_test_error", "members_mean_test_error",
        "members_best_test_error", "test_calibration_error", "selective_prediction",
    )  # fmt: skip

    space: dict[str, Any] | None = None
    augment: str = "none"
    images: str | None = None
    image_form: ImageForm | None = None
    lost_members: list[Count] = []
    why_lost: str = ""
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
