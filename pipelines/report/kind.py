"""What the page of one command is made of; ``kinds.py`` has a table of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.report.figures import Made


@dataclass(frozen=True)
class Answer:
    """One of the large figures of the first screen."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Kind:
    """How a command's run is read, drawn and worded. Every function takes the run.

    Attributes
    ----------
    title : str, empty for the command's name
    template : str
        Beside this file; it extends ``page.html``.
    read : function of the folder's path, gives the run
    figures : dict of file name to function, which gives the figure and its words
    size : what was searched, the beginning of the page's first sentence
    sizes : names of the options whose product is the number of cells
    answers : the large figures, less those that every run has
    warnings : what stands under them: each a sentence, and a command that helps, or ""
    content : what the template takes beside what every page has
    place : names of the columns that tell one cell from another; by default those up to the fold
    cell_name : of a cell, by the names in ``place``
    """

    title: str
    template: str
    read: Callable[[Path], Any]
    figures: Mapping[str, Callable[[Any], Made]]
    size: Callable[[Any], str]
    answers: Callable[[Any], list[Answer]]
    content: Callable[[Any], dict[str, Any]]
    sizes: Sequence[str] = ()
    warnings: Callable[[Any], list[tuple[str, str]]] = lambda run: []
    place: Sequence[str] = ()
    cell_name: Callable[[Mapping[str, Any]], str] = lambda cell: ", ".join(
        f"{name} {value}" for name, value in cell.items()
    )
