"""What pages are made of, for every command: sections, and the parts that stand in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from matplotlib.figure import Figure

from pipelines.report.wording import percent, significant

MOST_ROWS = 1_000  # of a table on a page; its file has all
AS_GOOD = "as good"  # heading of what a candidate is beside the best


@dataclass(frozen=True)
class Cell:
    """A cell of an HTML table: what is read, what a sort goes by, where a click leads."""

    text: str
    sort: float | str
    link: str = ""
    is_number: bool = False

    @property
    def sorts_by_text(self) -> bool:
        """Whether the page need not say what a sort goes by: it is what is read."""
        if isinstance(self.sort, str) or not self.text.isdecimal():
            return self.text == self.sort
        return float(self.text) == self.sort


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


def cell(value: Value, missing: str = "–") -> Cell:
    """Return a value as a cell; a number that is not known, or not finite, comes last in a sort."""
    if isinstance(value, Cell):
        return value
    if isinstance(value, str):
        return Cell(value, value)
    number, text = value if isinstance(value, tuple) else (value, "")
    if number is None or not math.isfinite(number):
        return Cell(missing, "", is_number=True)
    return Cell(text or significant(number), float(number), is_number=True)


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


@dataclass(frozen=True)
class Card:
    """A number on the first screen of a page that its reader acts on."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Text:
    """A paragraph, or a heading (tag ``h3``)."""

    text: str
    tag: str = "p"
    style: str = ""  # a class of page.css
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Command:
    """A command line, which can be copied."""

    text: str
    kind: ClassVar[str] = "command"


@dataclass(frozen=True)
class Chart:
    """A figure, drawn when the page is written.

    Attributes
    ----------
    name : of its files
    draw : function without arguments
    alt : what it shows in words, for who does not see it
    caption : how to read it
    wide : whether it takes the width of the page
    """

    name: str
    draw: Callable[[], Figure]
    alt: str
    caption: str
    wide: bool = False
    kind: ClassVar[str] = "chart"


@dataclass(frozen=True)
class Image:
    """A small image and the line under it."""

    data_uri: str
    title: str
    alt: str


@dataclass(frozen=True)
class Gallery:
    """Small images side by side."""

    images: Sequence[Image]
    kind: ClassVar[str] = "gallery"


@dataclass(frozen=True)
class Listing:
    """A table and its name; left out where it has no row."""

    label: str
    table: Table | None
    tall: bool = True
    kind: ClassVar[str] = "listing"


@dataclass(frozen=True)
class Pairs:
    """Names and values."""

    rows: Sequence[tuple[str, str]]
    short: bool = False
    kind: ClassVar[str] = "pairs"


@dataclass(frozen=True)
class Folded:
    """Parts that a click unfolds."""

    title: str
    parts: Sequence[Part | None]
    is_open: bool = False
    kind: ClassVar[str] = "folded"


@dataclass(frozen=True)
class Columns:
    """Parts side by side; a list among them stands in one column."""

    parts: Sequence[Part | Sequence[Part | None] | None]
    kind: ClassVar[str] = "columns"


Part = Text | Command | Chart | Gallery | Listing | Pairs | Folded | Columns


@dataclass(frozen=True)
class Section:
    """A section of a page, left out where it would be words alone.

    Attributes
    ----------
    name : of its place in the page
    title : str
    parts : from top to bottom; None, where the run has nothing for it, is left out
    link : what the line of links calls it, by default its title
    """

    name: str
    title: str
    parts: Sequence[Part | None]
    link: str = ""

    @property
    def is_shown(self) -> bool:
        """Whether a figure, a table or whatever else is more than words is there."""
        return any(_is_content(part) for part in every_part(self.parts))


def every_part(parts: Sequence[Part | Sequence[Part | None] | None]) -> Iterator[Part]:
    """Yield parts, and those within them, from top to bottom."""
    for part in parts:
        if isinstance(part, Folded | Columns):
            yield from every_part(part.parts)
        elif isinstance(part, Sequence):
            yield from every_part(part)
        elif part is not None:
            yield part


def _is_content(part: Part) -> bool:
    match part:
        case Listing():
            return bool(part.table)
        case Gallery():
            return bool(part.images)
        case Pairs():
            return bool(part.rows)
    return not isinstance(part, Text)
