"""The files of a run of ``nn_bagging``, and their schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pipelines.run_folder.record import Answer, OptionMetadata, Record
from pipelines.run_folder.rows import Metric
from pipelines.run_folder.schema import Count, Fraction, Number, RecordPart
from pipelines.search.record import SearchRow, StrategyMetadata

MEMBERS = "members.csv"
MEMBER_FILES = "members"  # a folder
NESTED = "nested"  # the beginning of the names of such folders for outer folds
MEMBER_PROBABILITIES = "member_probabilities.npz"
SIZES = "ensemble_sizes.parquet"
EXPLAINED = "explained.npz"
SELECTIVE_PREDICTION = "selective_prediction.safetensors"
MEMBER_PREDICTIONS = "member_predictions.npz"  # for a regression, and its intervals
INTERVALS = "intervals.safetensors"
READ_AGAIN = (
    MEMBERS,
    *(f"{MEMBER_FILES}/member-*.{suffix}" for suffix in ("safetensors", "npy", "npz")),
    f"{NESTED}-*/member-*.npz",
    MEMBER_PROBABILITIES,
    EXPLAINED,
    SELECTIVE_PREDICTION,
    MEMBER_PREDICTIONS,
    INTERVALS,
)

# Entries that run.json of a finished regression must have.
OF_NUMBERS = (
    "intervals",
    "members_mean_test_rmse",
    "members_best_test_rmse",
    "metric",
    "dataset.n_test",
)

# Columns that identify a candidate, and a cell.
CANDIDATE = ("member", "candidate")
CELL = (*CANDIDATE, "fold")


class BaggingRow(SearchRow):
    """A cell of ``nn_bagging``; its fold is -1 for the refit of a member.

    Rows of older runs lack the columns that have a default here.
    """

    algorithm: str = ""
    params: str = "{}"
    stage: str = ""
    split: Count = 0
    share: Fraction = 1.0
    family: str = ""
    n_fits: Count = 1
    member: Count
    network: str
    n_conv_layer: Count
    kernel_size: Count
    n_hidden_layer: Count
    learning_rate: Number
    momentum: Number
    loss: Number | None = None

    @classmethod
    def metrics(cls, row: Mapping[str, Any], number: int) -> Iterator[Metric]:
        """The scores of a fold, or the losses of a member by epoch."""
        yield from super().metrics(row, number)
        if row["fold"] >= 0:
            return
        member = row["stage"].partition(" refit")[0].replace("=", " ")
        for epoch, loss in enumerate(json.loads(row.get("losses") or "[]"), start=1):
            yield Metric("training_loss", loss, epoch, member)
        for name in ("loss", "error"):
            if row.get(name) is not None:
                yield Metric(f"out_of_bag_{name}", row[name], row["n_iterations"], member)

    @classmethod
    def candidate_of(cls, row: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """See ``Row``; candidates belong to a member."""
        if row["fold"] < 0 or row["stage"] != f"member={row['member']}":
            return None
        params = json.loads(row["params"])
        return f"member {row['member']} candidate {row['candidate']}", params


class BaggingOptionMetadata(OptionMetadata):
    """Options of ``nn_bagging``."""

    n_bootstrap: Count | None = None
    nested: Count | None = None
    n_tuning: Count | None = None


class SelectivePredictionMetadata(RecordPart):
    """The rule of selective prediction, and how it does on test samples."""

    rule: str
    n_kept: Count
    n_wrong_kept: Count


class RiskControlMetadata(RecordPart):
    """The threshold of certainty with a guarantee, and how it does on test samples."""

    threshold: Number | None = None
    n_kept_test: Count
    n_wrong_kept_test: Count
    line: str = ""
    assumption: str = ""


class PredictionSetMetadata(RecordPart):
    """Prediction sets: their size on test samples, and how many contain the true class."""

    confidence: Fraction
    mean_size: Number
    coverage: Fraction
    least_coverage: Fraction


class CalibrationMetadata(RecordPart):
    """The temperature fitted on out-of-bag rows, and how it does on test samples."""

    temperature: Number
    line: str
    test_log_loss: Number
    test_calibration_error: Fraction


class NoveltyMetadata(RecordPart):
    """The number of test samples flagged as novel, and the allowed rate."""

    rate: Fraction
    n_named: Count


class IntervalMetadata(RecordPart):
    """Prediction intervals: how many contain the target of a test sample, and how wide they are.

    ``n_rows`` counts the out-of-bag rows whose residuals set the intervals, ``n_drawn_by_all`` the
    training rows without a residual.
    """

    confidence: Fraction
    n_rows: Count
    n_drawn_by_all: Count
    n_test: Count
    n_covered: Count
    coverage: Fraction
    mean_width: Number
    median_width: Number


class DeferralMetadata(RecordPart):
    """The width of intervals above which predictions are deferred, and the error of the others."""

    width: Number
    n_kept: Count
    mean_absolute_error: Number | None = None


class BaggingAnswer(Answer):
    """The answer of ``nn_bagging``: errors of the vote, the mean probability and the members.

    For a regression: the scores of the members' mean, and intervals. ``strategy`` is given where
    candidates were dropped early, or drawn by the scores of earlier ones.
    """

    needed: ClassVar[tuple[str, ...]] = (
        "vote_test_error",
        "n_vote_errors",
        "mean_test_error",
        "members_mean_test_error",
        "members_best_test_error",
        "test_calibration_error",
        "selective_prediction",
        "dataset.n_test",
    )

    vote_test_error: Fraction | None = None
    n_vote_errors: Count | None = None
    mean_test_error: Fraction | None = None
    n_mean_errors: Count | None = None
    members_mean_test_error: Fraction | None = None
    members_best_test_error: Fraction | None = None
    selective_prediction: SelectivePredictionMetadata | None = None
    risk_control: RiskControlMetadata | None = None
    prediction_sets: PredictionSetMetadata | None = None
    novelty: NoveltyMetadata | None = None
    calibration: CalibrationMetadata | None = None
    metric: str | None = None  # for the baseline of a regression
    members_mean_test_rmse: Number | None = None
    members_best_test_rmse: Number | None = None
    intervals: IntervalMetadata | None = None
    deferral: DeferralMetadata | None = None
    strategy: StrategyMetadata | None = None


class BaggingRecord(BaggingAnswer, Record):
    """``run.json`` of ``nn_bagging``."""

    options: BaggingOptionMetadata = BaggingOptionMetadata()
    augment: str = "none"

    @property
    def answered(self) -> tuple[str, ...]:
        """See ``Record``; a regression has other entries."""
        return OF_NUMBERS if self.dataset.task == "regression" else super().answered
