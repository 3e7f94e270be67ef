"""The parts of a command's page; ``page.py`` has the table of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from matplotlib.figure import Figure

from pipelines.report.table import Table


@dataclass(frozen=True)
class Answer:
    """A large figure on the first screen of a page."""

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
class Chart:
    """A figure of the command's table of figures and its caption; left out where not drawn."""

    name: str
    caption: str
    wide: bool = False
    kind: ClassVar[str] = "chart"


@dataclass(frozen=True)
class Listing:
    """A table and its name; left out where it has no row."""

    label: str
    table: Table | None
    tall: bool = True
    kind: ClassVar[str] = "listing"


@dataclass(frozen=True)
class Columns:
    """Parts side by side; a list among them stands in one column."""

    parts: Sequence[Part | Sequence[Part]]
    kind: ClassVar[str] = "columns"


Part = Text | Chart | Listing | Columns


@dataclass(frozen=True)
class Section:
    """A section of a page, left out where neither a figure nor a table of it is there.

    Attributes
    ----------
    name : of its place in the page
    title : str
    parts : from top to bottom
    link : what the line of links calls it, by default its title
    """

    name: str
    title: str
    parts: Sequence[Part]
    link: str = ""

    def is_shown(self, figures: Collection[str]) -> bool:
        """Return whether the section has anything to show, given the figures that were drawn."""
        return any(_is_shown(part, figures) for part in self.parts)


def _is_shown(part: Part | Sequence[Part], figures: Collection[str]) -> bool:
    match part:
        case Chart():
            return part.name in figures
        case Listing():
            return bool(part.table)
        case Columns():
            return any(_is_shown(one, figures) for one in part.parts)
        case Text():
            return False
    return any(_is_shown(one, figures) for one in part)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The functions that read, draw and word a command's run; each takes the run.

    Attributes
    ----------
    title : str, empty for the command's name
    template : str
        Beside this file; ``page.html``, or one that extends it.
    read : function of the folder's path, gives the run
    figures : dict of file name to function, which gives the figure and its words
    size : what was searched, the beginning of the page's first sentence
    sizes : names of the options whose product is the number of cells
    answers : the large figures, less those that every run has
    warnings : what stands under them: each a sentence, and a command that helps, or ""
    answer : what stands under the large figures
    sections : what follows, less what every page has
    content : what a template of the command's own takes beside that
    place : names of the columns that tell one cell from another; by default those up to the fold
    cell_name : of a cell, by the names in ``place``
    """

    title: str
    read: Callable[[Path], Any]
    figures: Mapping[str, Callable[[Any], tuple[Figure, str] | None]]
    size: Callable[[Any], str]
    answers: Callable[[Any], list[Answer]]
    answer: Callable[[Any], Sequence[Part]] = lambda run: ()
    sections: Callable[[Any], Sequence[Section]] = lambda run: ()
    template: str = "page.html"
    content: Callable[[Any], dict[str, Any]] = lambda run: {}
    sizes: Sequence[str] = ()
    warnings: Callable[[Any], list[tuple[str, str]]] = lambda run: []
    place: Sequence[str] = ()
    cell_name: Callable[[Mapping[str, Any]], str] = lambda cell: ", ".join(
        f"{name} {value}" for name, value in cell.items()
    )
