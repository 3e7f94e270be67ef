"""The ``run.json`` schema of ``svm_grid``."""

from __future__ import annotations

from pipelines.run_folder.records.base import (
    BestMetadata,
    FeatureMetadata,
    ImageForm,
    NestedMetadata,
    OptionMetadata,
    Record,
)
from pipelines.run_folder.schema import Count, Number, Positive


class SvmOptions(OptionMetadata):
    """The grid of ``svm_grid``."""

    n_c: Count | None = None
    n_gamma: Count | None = None
    log_c: list[Number] | None = None
    log_gamma: list[Number] | None = None
    n_epsilon: Count | None = None
    log_epsilon: list[Number] | None = None
    scoring: str | None = None
    features: str | None = None
    weights: str | None = None


class BestOfSvm(BestMetadata):
    """The best candidate of ``svm_grid``."""

    C: Positive
    gamma: Positive
    epsilon: Number | None = None


class SvmRecord(Record):
    """The ``run.json`` of a run of ``svm_grid``."""

    answer = ("best",)

    options: SvmOptions = SvmOptions()
    best: BestOfSvm | None = None
    nested: NestedMetadata | None = None
    test_scores: dict[str, Number | None] = {}
    image_form: ImageForm | None = None
    features: FeatureMetadata | None = None
