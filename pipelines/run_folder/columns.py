"""The rows of a run's cells, declared once: for its journal, and for the columns of their table.

A column that may be None lacks its value where a fit failed, or in runs begun before there
was such a column.
"""

from __future__ import annotations

from types import NoneType
from typing import Annotated, Self, get_args, get_origin

from pydantic import Field, model_validator

from pipelines.run_folder.schema import Count, Number, Part, Positive, Scalar, Seconds, Share

DTYPES = {int: "int64", float: "float64", str: "str", bool: "bool"}


class Row(Part):
    """A row of any table: nothing in it has parts."""

    __pydantic_extra__: dict[str, Scalar] = Field(init=False)

    @classmethod
    def dtypes(cls) -> dict[str, str]:
        """Return the dtype of every column of a table of such rows."""
        found = {}
        for name, field in cls.model_fields.items():
            kinds = get_args(field.annotation) or (field.annotation,)
            plain = {get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in kinds}
            (dtype,) = (dtype for kind, dtype in DTYPES.items() if kind in plain)
            found[name] = "Int64" if dtype == "int64" and NoneType in plain else dtype
        return found


class BaggingRow(Row):
    """A cell of ``nn_bagging``; its fold is -1 for the refit of a member."""

    member: Count
    candidate: Count
    fold: int = Field(ge=-1, lt=2**31)
    network: str
    n_conv_layer: Count
    kernel_size: Count
    n_hidden_layer: Count
    learning_rate: Number
    momentum: Number
    n_train: Count
    n_validation: Count
    n_errors: Count | None
    error: Share | None
    score: Number | None = None
    loss: Number | None
    n_epochs: Count | None = None
    fit_seconds: Seconds | None = None
    score_seconds: Seconds | None = None
    worker: str = ""
    status: str


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
    share: Share
    n_train: Count
    n_validation: Count
    n_errors: Count | None = None
    error: Share | None
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


class SvmRow(SearchRow):
    """A cell of ``svm_grid``; one algorithm, and parameters that have columns of their own."""

    C: Positive
    gamma: Positive
    epsilon: Number | None = None

    @model_validator(mode="after")
    def _has_a_score(self) -> Self:
        if self.score is None and not self.status.startswith("failed"):
            raise ValueError("a fit that did not fail has a score")
        return self


class EpochRow(Row):
    """An epoch of a training of ``data_parallel``; one that failed has a row without numbers.

    ``seconds`` are of training since its beginning, the other times of this epoch, the mean of
    its ranks. Losses that are not finite are left out.
    """

    strategy: str
    ranks: Count
    repeat: Count
    epoch: Count
    step: Count | None = None
    n_ranks: Count | None = None
    loss: Number | None = None
    validation_loss: Number | None = None
    validation_metric: Number | None = None
    seconds: Seconds | None = None
    compute_seconds: Number | None = None
    communication_seconds: Number | None = None
    wait_seconds: Number | None = None
    test_loss: Number | None = None
    test_metric: Number | None = None
    worker: str = ""
    status: str


ROWS: dict[str, type[Row]] = {
    "svm_grid": SvmRow,
    "nn_bagging": BaggingRow,
    "cross_validate": SearchRow,
    "data_parallel": EpochRow,
}
OF_SEARCH, OF_BAGGING = SearchRow.dtypes(), BaggingRow.dtypes()
# What tells one candidate from another, and one cell.
SVM_CANDIDATE, BAGGING_CANDIDATE = ("C", "gamma"), ("member", "candidate")
VALIDATION_CELL = ("algorithm", "candidate", "fold")
SVM_CELL, BAGGING_CELL = (*SVM_CANDIDATE, "fold"), (*BAGGING_CANDIDATE, "fold")
