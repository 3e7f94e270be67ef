"""What pages are made of, for every command: sections, and the parts that stand in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure
from pandas.api.types import is_bool_dtype, is_integer_dtype, is_numeric_dtype

from pipelines.report.wording import significant

# Heads of columns that are named for a program.
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
MOST_ROWS = 1_000  # of a table on a page; its file has all


class Cell(NamedTuple):
    """A cell of an HTML table: what is read, the number it is sorted by, where a click leads.

    ``sort`` is None where that is what is read, "" of a number that is not known: it comes last.
    """

    text: str
    sort: str | None = None
    link: str = ""


class Card(NamedTuple):
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


@dataclass(frozen=True)
class CommandLine:
    """A command line, which can be copied."""

    text: str


@dataclass(frozen=True)
class Chart:
    """A figure, drawn when the page is written.

    Attributes
    ----------
    name : of its files
    draw : function without arguments
    caption : how to read it
    wide : whether it takes the width of the page
    alt : what it shows, for who does not see it; by default the caption
    """

    name: str
    draw: Callable[[], Figure]
    caption: str
    wide: bool = False
    alt: str = ""


@dataclass(frozen=True)
class Gallery:
    """Small images side by side, each its data URI, the line under it, and what it shows."""

    images: Sequence[tuple[str, str, str]]

    def __bool__(self) -> bool:
        return bool(self.images)


@dataclass(frozen=True)
class Listing:
    """A table and its name; left out where it has no row.

    Attributes
    ----------
    label : str
    frame : DataFrame, of which the first ``MOST_ROWS`` rows are shown
    formats : of columns, what is read of a number; by default three digits, or all of an integer
    links : of the first column's cells
    tall : whether a long table has a window to scroll in
    as_named : columns whose heads stay as they are; in others an underscore becomes a blank
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
        """The name of each column, and whether it is of a "number" or of "text"."""
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
    """Names and values."""

    rows: Sequence[tuple[str, str]]
    short: bool = False

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclass(frozen=True)
class Folded:
    """Parts that a click unfolds."""

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
    """A section of a page, left out where it would be words alone.

    Attributes
    ----------
    name : of its place in the page
    title : str
    parts : from top to bottom; what the run has nothing for is left out
    link : what the line of links calls it, by default its title
    """

    name: str
    title: str
    parts: Sequence[Part | None]
    link: str = ""

    @property
    def is_shown(self) -> bool:
        """Whether a figure, a table or whatever else is more than words is there."""
        return any(not isinstance(part, Text) for part in every_part(self.parts))


def every_part(parts: Sequence[Part | None]) -> Iterator[Part]:
    """Yield parts that have something to show, and those within them, from top to bottom."""
    for part in parts:
        if isinstance(part, Folded | SideBySide):
            yield from every_part(part.parts)
        elif part:
            yield part
