"""Tables of a page: what is read in a cell, and what a sort goes by."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from pipelines.report.wording import percent, significant

MOST_ROWS = 2_000  # of a table on a page; its file has all
AS_GOOD = "as good"  # heading of what a candidate is beside the best


@dataclass(frozen=True)
class Cell:
    """A cell of an HTML table: what is read, what a sort goes by, where a click leads."""

    text: str
    sort: float | str
    link: str = ""
    image: str = ""
    is_number: bool = False


# Text; a number, shown by three digits or by the text beside it; or a cell as it is.
Value = Cell | str | float | tuple[float, str] | None


@dataclass(frozen=True)
class Table:
    """Columns, each its name and whether it is "number" or "text", and rows of cells."""

    columns: list[tuple[str, str]]
    rows: list[list[Cell]]

    @classmethod
    def of(cls, names: Sequence[str], rows: Iterable[Sequence[Value]]) -> Table:
        """Return a table of these columns; one whose cells all are numbers is one of numbers."""
        cells = [[cell(value) for value in row] for row in rows]
        are_numbers = [all(one.is_number for one in column) for column in zip(*cells, strict=True)]
        kinds = ["number" if one else "text" for one in are_numbers] or ["text"] * len(names)
        return cls(list(zip(names, kinds, strict=True)), cells)

    def __len__(self) -> int:
        return len(self.rows)


def cell(value: Value) -> Cell:
    """Return a value as a cell; a number that is not known, or not finite, comes last in a sort."""
    if isinstance(value, Cell):
        return value
    if isinstance(value, str):
        return Cell(value, value)
    number, text = value if isinstance(value, tuple) else (value, "")
    return number_cell(math.nan if number is None else number, text or significant(number))


def number_cell(value: float, text: str, missing: str = "–") -> Cell:
    """Return a cell of a number and its text, another where there is none."""
    there = math.isfinite(value)
    return Cell(text if there else missing, float(value) if there else "", is_number=True)


def table_of(frame: pd.DataFrame, fractions: Collection[str] = ()) -> Table:
    """Return any table as a page takes it: its columns, and its first rows.

    ``fractions`` are the columns that are read in percent.
    """
    frame = frame.rename(columns=str)
    values = {name: frame[name].head(MOST_ROWS).tolist() for name in frame.columns}
    for name, column in values.items():
        if pd.api.types.is_numeric_dtype(frame[name]):
            numbers = [math.nan if pd.isna(one) else float(one) for one in column]
            shown = percent if name in fractions else significant
            values[name] = [(one, shown(one)) for one in numbers]
        else:
            values[name] = [str(one) for one in column]
    names = [name.replace("_", " ") for name in frame.columns]
    return Table.of(names, zip(*values.values(), strict=True))
