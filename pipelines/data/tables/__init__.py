"""Tables of any origin, read with as few assumptions as possible.

    table = read_raw_table("abalone.csv", "rings", task="regression")
    table.X, table.y, table.kinds, table.task, table.missing
    prepare = TablePreprocessor(table.kinds, missing=table.missing)  # of tables.preprocess
    make_pipeline(prepare, SVR()).fit(table.X, table.y)

Nothing was learned from ``table.X``, a DataFrame; the preprocessor is fitted on training rows.
``columns_of`` brings another file with the same columns into that form.
"""

from pipelines.data.tables.files import SUFFIXES, read_frame
from pipelines.data.tables.kinds import Kinds, columns_of
from pipelines.data.tables.table import MISSING, Missing, RawTable, Reading, Task, read_raw_table

__all__ = [
    "MISSING",
    "SUFFIXES",
    "Kinds",
    "Missing",
    "RawTable",
    "Reading",
    "Task",
    "columns_of",
    "read_frame",
    "read_raw_table",
]
