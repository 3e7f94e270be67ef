"""Tables of a page: what is read in a cell, and what a sort goes by."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipelines.report.wording import percent, significant

MOST_ROWS = 2_000  # of a table on a page; its file has all


@dataclass(frozen=True)
class Cell:
    """A cell of an HTML table: what is read, what a sort goes by, where a click leads."""

    text: str
    sort: float | str
    link: str = ""
    image: str = ""


Columns = list[tuple[str, str]]  # names, and whether they are "number" or "text"


def number_cell(value: float, text: str, missing: str = "–") -> Cell:
    """A cell of a number and its text; one that is not finite comes last in a sort."""
    return Cell(text, float(value)) if math.isfinite(value) else Cell(missing, "")


def table_of(
    frame: pd.DataFrame, fractions: Collection[str] = ()
) -> tuple[Columns, list[list[Cell]]]:
    """Any table as a page takes it: its columns, and its first rows.

    ``fractions`` are the columns that are read in percent.
    """
    frame = frame.rename(columns=str)
    is_number = {name: pd.api.types.is_numeric_dtype(frame[name]) for name in frame.columns}
    columns = [
        (name.replace("_", " "), "number" if is_number[name] else "text") for name in frame.columns
    ]
    rows = [
        [_cell(row[name], is_number[name], name in fractions) for name in frame.columns]
        for row in frame.head(MOST_ROWS).to_dict("records")
    ]
    return columns, rows


def _cell(value: Any, is_number: bool, is_fraction: bool) -> Cell:
    if not is_number:
        return Cell(str(value), str(value))
    number = math.nan if pd.isna(value) else float(value)
    return number_cell(number, percent(number) if is_fraction else significant(number))
