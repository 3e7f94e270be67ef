"""What a run of ``cross_validate`` leaves, and any search of candidates on splits: its schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from pipelines.run_folder.record import Answer, BestMetadata, OptionMetadata, Record
from pipelines.run_folder.rows import Metric, Row
from pipelines.run_folder.schema import Count, Fraction, Number, RecordPart, Scalar, Seconds, Side

FITTED = "model.skops"
COMPARISON = "comparison.parquet"
LEARNING_CURVE = "learning_curve.parquet"
NESTED = "nested.parquet"

CELL = ("algorithm", "candidate", "fold")  # what tells one cell from another


class SearchRow(Row):
    """A candidate of a search on a split; its fold is -1 where that is not the search's.

    ``error`` is there where classes are predicted; further scores are columns of their own,
    ``score_NAME``.
    """

    algorithm: str
    candidate: Count
    params: str
    stage: str
    split: Count
    fold: int = Field(ge=-1, lt=2**31)
    share: Fraction
    n_train: Count
    n_validation: Count
    n_errors: Count | None = None
    error: Fraction | None
    score: Number | None
    n_support: Count | None = None
    n_iterations: Count | None = None
    family: str
    n_fits: Count
    n_steps: Count = 0
    n_steps_made: Count = 0
    implementation: str = ""
    reason: str = ""
    fit_seconds: Seconds | None
    score_seconds: Seconds | None
    worker: str = ""
    status: str

    @classmethod
    def metrics(cls, row: Mapping[str, Any], number: int) -> Iterator[Metric]:
        """Yield the scores of a fold; a further scorer's, too."""
        names = [name for name in row if name.startswith("score_") and name != "score_seconds"]
        for name in ("score", "error", "loss", *names, "fit_seconds") if row["fold"] >= 0 else ():
            if row.get(name) is not None:
                yield Metric(f"fold_{name}", float(row[name]), number)

    @classmethod
    def candidate_of(cls, row: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """See ``Row``; of the search on all rows, not of those within outer folds."""
        if row["fold"] < 0 or row.get("stage", "search") != "search" or row.get("share", 1.0) < 1:
            return None
        return f"{row['algorithm']} {row['candidate']}", json.loads(row["params"])


class FeatureMetadata(RecordPart):
    """What images were turned into before they were learned from, as ``Extractor`` describes it."""

    name: str
    size: Side | None = None
    weights: str = ""
    weights_name: str = ""


class SearchOptionMetadata(OptionMetadata):
    """Options of a search."""

    nested: Count | None = None
    strategy: str = "grid"
    features: str | None = None
    weights: str | None = None
    time_budget: Seconds | None = None


class SearchRecord(Record):
    """``run.json`` of a search."""

    options: SearchOptionMetadata = SearchOptionMetadata()
    features: FeatureMetadata | None = None


class ValidationOptionMetadata(SearchOptionMetadata):
    """Options of ``cross_validate``."""

    rope: Number | None = None


class BestCandidate(BestMetadata):
    """A candidate of any algorithm."""

    algorithm: str
    candidate: Count
    parameters: dict[str, Any] = {}


class StrategyPart(RecordPart):
    """Fits of a search on a share of the rows, 1 for all, and the seconds of their tasks."""

    share: Fraction
    fits: Count
    seconds: Seconds


class StrategyMetadata(RecordPart):
    """What a strategy tried and gave up.

    Attributes
    ----------
    name : of the strategy
    n_candidates : int
    fits, share_fits : of the search, on all rows and on shares of them
    grid_fits : that every candidate on every split would be
    n_stopped : candidates that were given up
    n_out_of_time, n_not_tried : candidates that a time budget left with some splits, or with none
    left_out : algorithms of which no candidate has all splits, and the state of the first
    parts : its fits by their share of the rows
    """

    name: str
    n_candidates: Count
    fits: Count
    share_fits: Count
    grid_fits: Count
    n_stopped: Count
    n_out_of_time: Count
    n_not_tried: Count
    left_out: dict[str, str] = {}
    parts: list[StrategyPart]


class SearchAnswer(Answer):
    """What a search answers; of a grid that time did not end there is no ``strategy``."""

    strategy: StrategyMetadata | None = None


class ValidationAnswer(SearchAnswer):
    """What ``cross_validate`` answers.

    Attributes
    ----------
    algorithms : the best candidate of each
    fits_asked, fits_made : fits of the candidates, and those that were computed for them
    steps_asked, steps_made : the same of first steps of pipelines
    not_kept : why its best model is not; None of one that is
    families : what fits shared, how many were asked for and made
    """

    needed: ClassVar[tuple[str, ...]] = (
        "best",
        "algorithms",
        "scoring",
        "fits_asked",
        "fits_made",
        "dataset.n_test",
    )

    best: BestCandidate | None = None
    algorithms: list[BestCandidate] | None = None
    scoring: list[str] | None = None
    fits_asked: Count | None = None
    fits_made: Count | None = None
    steps_asked: Count | None = None
    steps_made: Count | None = None
    not_kept: str | None = None
    families: list[dict[str, Scalar]] = []


class ValidationRecord(ValidationAnswer, SearchRecord):
    """``run.json`` of ``cross_validate``."""

    options: ValidationOptionMetadata = ValidationOptionMetadata()
    task: str | None = None
    n_candidates: Count | None = None
