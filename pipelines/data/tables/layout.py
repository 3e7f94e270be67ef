"""Detect the layout of a text table: its separator, and whether it has a header line."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pipelines.data.tables.words import short, unreadable

SAMPLE = 200  # rows that are looked at
MOST_LINES = 10 * SAMPLE  # a cell in quotes may hold several
WHITESPACE = r"\s+"
SEPARATORS = (",", ";", "\t", "|")
# What pandas takes for missing, and "?"; but for "None", which is a level in many a table.
MISSING = ("", "?", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "nan", "NaN", "-nan",
           "-NaN", "null", "NULL", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN")  # fmt: skip
DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}( .*)?")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")

Cells = list[list[str]]


@dataclass(frozen=True)
class Layout:
    """The detected layout of a text table.

    Attributes
    ----------
    separator : one character, or ``WHITESPACE``
    decimal : ``"."``, or ``","`` where numbers are written so
    names : of the columns; ``1``, ``2``, ... where there is no header line
    has_header : bool
    """

    separator: str
    decimal: str
    names: tuple[str, ...]
    has_header: bool


def notice_layout(path: Path, header: bool | None = None) -> Layout | None:
    """Look at the first lines of a file.

    Parameters
    ----------
    path : a file of text
    header : whether the first line names the columns; None looks at it

    Returns
    -------
    Layout, or None for a file without a line

    Raises
    ------
    InputError
        Two columns have one name, or the file cannot be opened.
    """
    try:
        separator, rows = _split(path)
    except (OSError, csv.Error) as error:
        raise unreadable(path, error) from None
    if not rows:
        return None
    decimal = "," if separator != "," and _has_decimal_commas(rows) else "."
    if header is None:
        header = _is_header(rows[0], rows[1:], decimal)
    if not header:
        names = [str(number + 1) for number in range(len(rows[0]))]
    else:
        names = [cell or f"Unnamed: {number}" for number, cell in enumerate(rows[0])]
    refuse_one_name_twice(names, path)
    return Layout(separator, decimal, tuple(names), header)


def refuse_one_name_twice(names: list[str], path: Path) -> None:
    """Raise an error for two columns of one name: a reader would rename one of them.

    Raises
    ------
    InputError
        Two columns have one name; a copy of the target among the features would give it away.
    """
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise unreadable(path, f"two columns are called {short(twice)}")


def _split(path: Path) -> tuple[str, Cells]:
    """Return the separator, and the cells of the first lines, stripped."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = list(islice(file, MOST_LINES))

    def split_by(separator: str) -> Cells:
        rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        some = [[cell.strip() for cell in row] for row in islice(rows, SAMPLE)]
        return [row for row in some if any(row)]

    even: dict[str, tuple[int, Cells]] = {}
    best = 0.0
    for separator in SEPARATORS:
        rows = split_by(separator)
        width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (0, 0)
        if width > 1 and count / len(rows) >= best:
            even = even if count / len(rows) == best else {}
            best = count / len(rows)
            even[separator] = width, rows
    if not even:
        words = [line.split() for line in lines[:SAMPLE] if line.strip()]
        if words and len(words[0]) > 1 and len({len(row) for row in words}) == 1:
            return WHITESPACE, words
        return ",", split_by(",")
    separator = max(even, key=lambda one: even[one][0])
    if ";" in even and _has_decimal_commas(even[";"][1]):
        separator = ";"
    return separator, even[separator][1]


def _has_decimal_commas(rows: Cells) -> bool:
    with_comma = [cell for row in rows for cell in row if "," in cell]
    return bool(with_comma) and all(DECIMAL_COMMA.fullmatch(cell) for cell in with_comma)


def _is_header(first: list[str], below: Cells, decimal: str) -> bool:
    """Return whether the first line is a header; numbers, dates and known values are not."""
    counted = [(place, cell) for place, cell in enumerate(first) if cell.isdecimal()]
    if len(counted) > 1 and any(
        all(int(cell) == place + start for place, cell in counted) for start in (0, 1, -1)
    ):
        return True  # names such as 0, 1, 2, which a table without names of its own was given
    if any(_is_number(cell, decimal) or cell == "?" or DATE.fullmatch(cell) for cell in first):
        return False
    columns = [{row[i] for row in below if i < len(row)} for i in range(len(first))]
    for values in columns:
        present = values - set(MISSING)
        if present and all(_is_number(value, decimal) for value in present):
            return True  # a word above numbers
    known = sum(cell in values for cell, values in zip(first, columns, strict=True))
    return 2 * known < len(first)


def _is_number(cell: str, decimal: str) -> bool:
    return NUMBER.fullmatch(cell.replace(decimal, ".")) is not None
