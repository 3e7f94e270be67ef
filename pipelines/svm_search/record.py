"""The schemas of what a run of ``svm_grid`` leaves in its folder."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import model_validator

from pipelines.run_folder.record import BestMetadata
from pipelines.run_folder.schema import Count, Number, Positive, RecordPart
from pipelines.search.record import SearchAnswer, SearchOptionMetadata, SearchRecord, SearchRow

# The columns that identify a candidate, and a cell.
CANDIDATE = ("C", "gamma")
CELL = (*CANDIDATE, "fold")


class SvmRow(SearchRow):
    """A row of ``svm_grid``, for one cell; C, gamma and epsilon have columns of their own."""

    C: Positive
    gamma: Positive
    epsilon: Number | None = None

    @model_validator(mode="after")
    def _has_a_score(self) -> Self:
        if self.score is None and not self.status.startswith("failed"):
            raise ValueError("a fit that did not fail has a score")
        return self


class SvmOptionMetadata(SearchOptionMetadata):
    """The options of ``svm_grid`` in ``run.json``."""

    approximate: str = "none"
    landmarks: Count | None = None
    c: list[Number] | None = None
    gamma: list[Number | str] | None = None
    epsilon: list[Number] | None = None
    n_c: Count | None = None
    n_gamma: Count | None = None
    n_epsilon: Count | None = None
    log_c: list[Number] | None = None
    log_gamma: list[Number] | None = None


class SvmBest(BestMetadata):
    """The best candidate; epsilon is that of a regression."""

    C: Positive
    gamma: Positive
    epsilon: Number | None = None


class Exactness(RecordPart):
    """Errors with the exact kernel and with landmarks, of the best candidate on some rows."""

    n_rows: Count
    n_tested: Count
    exact: Number
    approximate: Number
    difference: Number
    low: Number
    high: Number


class SvmAnswer(SearchAnswer):
    """The results of ``svm_grid`` in ``run.json``."""

    needed: ClassVar[tuple[str, ...]] = ("best", "dataset.n_test")

    best: SvmBest | None = None
    exactness: Exactness | None = None


class SvmRecord(SvmAnswer, SearchRecord):
    """``run.json`` of ``svm_grid``."""

    options: SvmOptionMetadata = SvmOptionMetadata()
