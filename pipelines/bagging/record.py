"""What a run of ``nn_bagging`` leaves: its files and their schemas."""

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
NESTED = "nested"  # what such folders of outer folds begin with
MEMBER_PROBABILITIES = "member_probabilities.npz"
SIZES = "ensemble_sizes.parquet"
EXPLAINED = "explained.npz"
SELECTIVE_PREDICTION = "selective_prediction.safetensors"
MEMBER_PREDICTIONS = "member_predictions.npz"  # of a regression, and its intervals
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

# What run.json of a finished regression must have.
OF_NUMBERS = (
    "intervals",
    "members_mean_test_rmse",
    "members_best_test_rmse",
    "metric",
    "dataset.n_test",
)

# What tells one candidate from another, and one cell.
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
        """Yield the scores of a fold, or the losses of a member by epoch."""
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
        """See ``Row``; each member has candidates of its own."""
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
    """Results of selective prediction on the test samples."""

    rule: str
    n_kept: Count
    n_wrong_kept: Count


class RiskControlMetadata(RecordPart):
    """The threshold above which few answers are wrong, and how it does on test samples."""

    threshold: Number | None = None
    n_kept_test: Count
    n_wrong_kept_test: Count
    line: str = ""
    assumption: str = ""


class PredictionSetMetadata(RecordPart):
    """Prediction sets: how large they are on test samples, and how many hold the true class."""

    confidence: Fraction
    mean_size: Number
    coverage: Fraction
    least_coverage: Fraction


class CalibrationMetadata(RecordPart):
    """The temperature that out-of-bag rows set, and what it does on test samples."""

    temperature: Number
    line: str
    test_log_loss: Number
    test_calibration_error: Fraction


class NoveltyMetadata(RecordPart):
    """The number of test samples flagged as novel, and the allowed rate."""

    rate: Fraction
    n_named: Count


class IntervalMetadata(RecordPart):
    """Prediction intervals: how many hold the targets of test samples, and how wide they are.

    ``n_rows`` are the out-of-bag rows whose residuals set them; ``n_drawn_by_all`` have none.
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
    """The width of an interval from which on a number is deferred, and what is left then."""

    width: Number
    n_kept: Count
    mean_absolute_error: Number | None = None


class BaggingAnswer(Answer):
    """What ``nn_bagging`` answers: errors of the vote, of the mean probability, of the members.

    Of a regression scores of the members' mean, and intervals. ``strategy`` is there where
    candidates were dropped, or drawn by what earlier ones scored.
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
    metric: str | None = None  # of the baseline of a regression
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
        """See ``Record``; a regression answers something else."""
        return OF_NUMBERS if self.dataset.task == "regression" else super().answered
