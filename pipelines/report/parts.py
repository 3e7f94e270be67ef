"""Sections of a page and their parts: texts, tables, figures, commands and images."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure
from pandas.api.types import is_bool_dtype, is_integer_dtype, is_numeric_dtype

from pipelines.report.wording import significant

# Headings of columns whose names are for programs.
HEADS = {
    "n_conv_layer": "convolution layers",
    "n_hidden_layer": "hidden units",
    "error_mean": "cv error",
    "error_std": "standard deviation",
    "score_mean": "mean score",
    "score_std": "standard deviation of the score",
    "loss_mean": "cv loss",
    "loss_std": "standard deviation of the loss",
    "out_of_bag_error": "out-of-bag error",
}
MOST_ROWS = 1_000  # of a table on a page; the file that it comes from has all


class Cell(NamedTuple):
    """A cell of an HTML table.

    Attributes
    ----------
    text : str
        What is shown.
    sort : str or None
        Number that the table is sorted by; None if that is ``text``, "" for a missing number,
        which comes last.
    link : str
        Where a click leads; empty for none.
    """

    text: str
    sort: str | None = None
    link: str = ""


class Card(NamedTuple):
    """One of the main numbers at the top of a page, with a label and a note."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Text:
    """A paragraph, or a heading (tag ``h3``)."""

    text: str
    tag: str = "p"
    style: str = ""  # class in page.css


@dataclass(frozen=True)
class CommandLine:
    """A command line, for the reader to copy."""

    text: str


@dataclass(frozen=True)
class Chart:
    """A figure that is drawn when the page is written.

    Attributes
    ----------
    name : str
        Name of its SVG and PNG files.
    draw : callable without parameters
        Makes the figure.
    caption : str
        How to read the figure.
    wide : bool
        Whether it takes the full width of the page.
    alt : str
        Description for screen readers; empty for the caption.
    """

    name: str
    draw: Callable[[], Figure]
    caption: str
    wide: bool = False
    alt: str = ""


@dataclass(frozen=True)
class Gallery:
    """Small images side by side, each with its data URI, its caption and its alternative text."""

    images: Sequence[tuple[str, str, str]]

    def __bool__(self) -> bool:
        return bool(self.images)


@dataclass(frozen=True)
class Listing:
    """A table with a name; a page leaves it out if it has no rows.

    Attributes
    ----------
    label : str
    frame : DataFrame or None
        The first ``MOST_ROWS`` rows are shown.
    formats : mapping of str to callable
        How numbers of a column are written; by default with three significant digits, or with all
        digits for integers.
    links : sequence of str
        Targets of the cells of the first column.
    tall : bool
        Whether a long table scrolls in a window of its own.
    as_named : collection of str
        Columns whose heading is their name; in others, an underscore becomes a space.
    """

    label: str
    frame: pd.DataFrame | None
    formats: Mapping[str, Callable[[float], str]] = field(default_factory=dict)
    links: Sequence[str] = ()
    tall: bool = True
    as_named: Collection[str] = ()

    def __bool__(self) -> bool:
        return self.frame is not None and not self.frame.empty

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Heading of each column, and "number" or "text" for what it holds."""
        assert self.frame is not None
        return [
            (
                str(name)
                if name in self.as_named
                else HEADS.get(str(name), str(name).replace("_", " ")),
                "number" if _is_number(column) else "text",
            )
            for name, column in self.frame.items()
        ]

    @property
    def rows(self) -> list[list[Cell]]:
        """The cells of each row."""
        assert self.frame is not None
        columns = []
        for name, column in self.frame.head(MOST_ROWS).items():
            if not _is_number(column):
                columns.append(
                    [Cell("–" if pd.isna(cell_value) else str(cell_value)) for cell_value in column]
                )
                continue
            default: Callable[[Any], str] = "{:,.0f}".format
            if not is_integer_dtype(column):
                default = significant
            in_words, cells = self.formats.get(str(name), default), []
            for number in column.astype("float64"):
                is_known = math.isfinite(number)
                text, sort = (in_words(number), f"{number:.15g}") if is_known else ("–", "")
                cells.append(Cell(text, None if text == sort else sort))
            columns.append(cells)
        if self.links:
            linked_cells = zip(columns[0], self.links, strict=False)
            columns[0] = [cell._replace(link=link) for cell, link in linked_cells]
        return [list(row) for row in zip(*columns, strict=True)]


def _is_number(column: pd.Series) -> bool:
    return is_numeric_dtype(column) and not is_bool_dtype(column)


@dataclass(frozen=True)
class Pairs:
    """A list of names and values."""

    rows: Sequence[tuple[str, str]]
    short: bool = False

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclass(frozen=True)
class Folded:
    """Parts under a title that unfolds them with a click."""

    title: str
    parts: Sequence[Part | None]
    is_open: bool = False


@dataclass(frozen=True)
class SideBySide:
    """Parts side by side."""

    parts: Sequence[Part | None]


Part = Text | CommandLine | Chart | Gallery | Listing | Pairs | Folded | SideBySide


@dataclass(frozen=True)
class Section:
    """A section of a page; left out if it would be text alone.

    Attributes
    ----------
    name : str
        Identifier of the section in the HTML page.
    title : str
    parts : sequence of Part or None
        From top to bottom; None for a part that the run has no data for.
    link : str
        Text of the link to the section at the top of the page; empty for the title.
    """

    name: str
    title: str
    parts: Sequence[Part | None]
    link: str = ""

    @property
    def is_shown(self) -> bool:
        """Whether the section has anything besides text, such as a figure or a table."""
        return any(not isinstance(part, Text) for part in every_part(self.parts))


def every_part(parts: Sequence[Part | None]) -> Iterator[Part]:
    """All parts that are not empty, from top to bottom, and those inside folded parts."""
    for part in parts:
        if isinstance(part, Folded | SideBySide):
            yield from every_part(part.parts)
        elif part:
            yield part
