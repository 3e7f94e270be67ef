"""The ``run.json`` schema of ``svm_grid``."""

from __future__ import annotations

from pipelines.run_folder.record import (
    BestMetadata,
    FeatureMetadata,
    ImageForm,
    NestedMetadata,
    Record,
)
from pipelines.run_folder.schema import Number, Positive


class BestOfSvm(BestMetadata):
    """The best candidate of ``svm_grid``."""

    C: Positive
    gamma: Positive
    epsilon: Number | None = None


class SvmRecord(Record):
    """The ``run.json`` of a run of ``svm_grid``."""

    answer = ("best",)

    best: BestOfSvm | None = None
    nested: NestedMetadata | None = None
    test_scores: dict[str, Number | None] = {}
    image_form: ImageForm | None = None
    features: FeatureMetadata | None = None
