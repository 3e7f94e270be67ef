"""The ``run.json`` schema of ``cross_validate``."""

from __future__ import annotations

from typing import Any

from pipelines.run_folder.record import BestMetadata, NestedMetadata, Record
from pipelines.run_folder.schema import Count, Number, Part, Seconds


class BestValidated(BestMetadata):
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


class FamilyMetadata(Part):
    """Fits that were asked for, and made, by what they shared."""

    family: str
    asked: Count
    made: Count


class ValidationRecord(Record):
    """The ``run.json`` of a run of ``cross_validate``."""

    answer = ("best", "algorithms", "scoring", "fits_asked", "fits_made")

    best: BestValidated | None = None
    task: str | None = None
    scoring: list[str] | None = None
    algorithms: list[ValidatedAlgorithm] | None = None
    n_candidates: Count | None = None
    fits_asked: Count | None = None
    fits_made: Count | None = None
    steps_asked: Count | None = None
    steps_made: Count | None = None
    families: list[FamilyMetadata] = []
    nested: NestedMetadata | None = None
    test_scores: dict[str, Number | None] = {}
