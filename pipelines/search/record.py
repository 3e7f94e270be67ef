"""Schemas of the rows and the ``run.json`` of a search, and of ``cross_validate``."""

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

CELL = ("algorithm", "candidate", "fold")  # columns that identify a cell


class SearchRow(Row):
    """The row of a cell: a candidate of a search on a split.

    ``fold`` is -1 if the split does not belong to the search on all rows. ``share`` is the fraction
    of the rows. ``error`` is the fraction of wrong predictions; None for a regression or a failed
    fit. Further scores are columns ``score_NAME``.
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
        """The scores of a fold, further scorers included, as metrics for tracking."""
        names = [name for name in row if name.startswith("score_") and name != "score_seconds"]
        for name in ("score", "error", "loss", *names, "fit_seconds") if row["fold"] >= 0 else ():
            if row.get(name) is not None:
                yield Metric(f"fold_{name}", float(row[name]), number)

    @classmethod
    def candidate_of(cls, row: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """See ``Row``; None for rows that are not of the search on all rows."""
        if row["fold"] < 0 or row.get("stage", "search") != "search" or row.get("share", 1.0) < 1:
            return None
        return f"{row['algorithm']} {row['candidate']}", json.loads(row["params"])


class FeatureMetadata(RecordPart):
    """The features that replaced images, as ``Extractor`` describes them."""

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
    """Number of fits on a fraction of the rows, 1 for all, and the seconds of their tasks."""

    share: Fraction
    fits: Count
    seconds: Seconds


class StrategyMetadata(RecordPart):
    """The fits that a strategy made, and the candidates that it gave up.

    Attributes
    ----------
    name : str
        Name of the strategy.
    n_candidates : int
    fits, share_fits : int
        Fits of the search on all rows, and on fractions of them.
    grid_fits : int
        Fits that every candidate on every split would take.
    n_stopped : int
        Candidates that the strategy gave up.
    n_out_of_time, n_not_tried : int
        Candidates that lack some splits, or all, because time ended.
    left_out : dict of str to str
        Algorithms without a candidate on all splits, and the state of their best-placed candidate.
    parts : list of StrategyPart
        Fits by fraction of the rows.
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
    """The answer of a search; a grid that was completed has no ``strategy``."""

    strategy: StrategyMetadata | None = None


class ValidationAnswer(SearchAnswer):
    """The answer of ``cross_validate``.

    Attributes
    ----------
    best : BestCandidate
    algorithms : list of BestCandidate
        The best candidate of each algorithm.
    scoring : list of str
        Names of scorers; the first decided which candidate is best.
    fits_asked, fits_made : int
        Number of fits that were asked for, and computed.
    steps_asked, steps_made : int
        The same for first steps of pipelines.
    not_kept : str, optional
        Why there is no model file; None if there is one.
    families : list of dict
        For each kind of shared work, the fits asked for and computed.
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
