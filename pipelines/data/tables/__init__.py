"""Other people's tables, as they come.

    table = read_raw_table("abalone.csv", "rings", task="regression")
    table.X, table.y, table.kinds, table.task, table.missing
    prepare = make_preprocessor(table.kinds, missing=table.missing)
    make_pipeline(prepare, SVR()).fit(table.X, table.y)

``table.X`` is a DataFrame that nothing was learned from; the preprocessor is fitted on
training rows. ``columns_of`` brings another file with the same columns into that form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.data.tables.files import SUFFIXES, read_frame
from pipelines.data.tables.kinds import Kinds, columns_of
from pipelines.data.tables.table import MISSING, Missing, RawTable, Reading, Task, read_raw_table

if TYPE_CHECKING:
    from pipelines.data.tables.preprocess import TablePreprocessor

__all__ = [
    "MISSING",
    "SUFFIXES",
    "Kinds",
    "Missing",
    "RawTable",
    "Reading",
    "Task",
    "columns_of",
    "make_preprocessor",
    "read_frame",
    "read_raw_table",
]


def make_preprocessor(
    kinds: Kinds, *, scale: bool = True, missing: Missing = "impute", layout: tuple[str, ...] = ()
) -> TablePreprocessor:
    """Return a transformer of raw rows, ``RawTable.X``, to fit on the training rows of each fold.

    ``TablePreprocessor`` says more; scikit-learn is not imported before this is called.
    """
    from pipelines.data.tables.preprocess import TablePreprocessor

    return TablePreprocessor(kinds, scale, missing, layout)
