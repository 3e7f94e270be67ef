"""Text of rows and cells, read as it stands: encoding, dialect, header and rows.

DuckDB finds the dialect and splits lines into cells, every cell as text; what is judged here is
which lines are the header, which are none of the table, and what is said of them.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

ENCODING = "utf-8"
SAMPLE_LINES = 500  # that are looked at for the header and the widest row
HEAD_BYTES = 1 << 20
MOST_HEADER_LINES = 20
LEAST_SHARE = 0.8  # of the cells of a column of numbers, which are numbers
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_NUMBER = re.compile(
    r"[-+\u2212(]?\s*[$€£¥]?\s*(\d[\d,.'\s\u00a0\u202f]*|\.\d+)([eEdD][-+]?\d+)?\s*[%)]?"
)
_MOMENT = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"
)
GAPS = {"", "-", "--", "..", "...", ".", "?", "na", "n/a", "nan", "null", "none", "#n/a", "missing"}

Row = list[str | None]


class NoTable(ValueError):
    """A text is no table; the message says why, in the words of the file."""


@dataclass(frozen=True)
class TextTable:
    """A table as it stands in a text, every cell as text.

    names : of the columns, None where there is no header line
    cells : a column of text for each; null where a row has no such cell
    delimiter, encoding : as they were found
    first_line : number of the file's line with the first row of the table
    notes : what was left out or joined, each a phrase
    """

    names: tuple[str, ...] | None
    cells: pa.Table
    delimiter: str
    encoding: str
    notes: tuple[str, ...] = ()


def read_text_table(
    path: Path, *, encoding: str | None = None, header: bool | None = None
) -> TextTable:
    """Read a file of delimited text.

    Parameters
    ----------
    path : the file
    encoding : of its bytes; by default that of its byte order mark, UTF-8, or what they look like
    header : whether the first line of the table names the columns; None looks at it

    Raises
    ------
    OSError
        It cannot be read.
    NoTable
        It is no table: without a row, several tables in one, no text.
    """
    with ExitStack() as stack:
        found = encoding or encoding_of(path)
        plain = stack.enter_context(_in_utf8(path, found))
        dialect = _dialect(plain)
        cells = _split(plain, dialect)
    notes = [] if found in (ENCODING, "ascii") else [f"read as {found}"]
    return _judged(cells, dialect, found, notes, header)


def encoding_of(path: Path) -> str:
    """Return the encoding of a file: of its mark, UTF-8 if its bytes are, else a likely one."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        for mark, name in (
            (codecs.BOM_UTF8, "utf-8-sig"),
            (codecs.BOM_UTF16_LE, "utf-16"),
            (codecs.BOM_UTF16_BE, "utf-16"),
        ):
            if head.startswith(mark):
                return name
        if b"\0" in head:
            for start, name in ((1, "utf-16-le"), (0, "utf-16-be")):
                if head[start::2].count(0) > 0.4 * len(head):
                    return name
            raise NoTable("holds bytes of 0, which no text has")
        decoder = codecs.getincrementaldecoder(ENCODING)()
        try:
            decoder.decode(head)
            while block := file.read(HEAD_BYTES):
                decoder.decode(block)
            decoder.decode(b"", final=True)
            return ENCODING
        except UnicodeDecodeError:
            pass
    from charset_normalizer import from_bytes

    best = from_bytes(head).best()
    return best.encoding if best is not None else "cp1252"


@contextmanager
def _in_utf8(path: Path, encoding: str) -> Iterator[Path]:
    """Yield a file of the same text in UTF-8, with line feeds alone between lines."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if encoding in (ENCODING, "ascii") and not (b"\r" in head and b"\n" not in head):
        yield path
        return
    with tempfile.NamedTemporaryFile("w", encoding=ENCODING, newline="", suffix=".csv") as copy:
        with path.open(encoding=encoding, newline=None) as text:
            while block := text.read(HEAD_BYTES):
                copy.write(block)
        copy.flush()
        yield Path(copy.name)


@dataclass(frozen=True)
class _Dialect:
    delimiter: str
    quote: str
    escape: str
    skip: int  # lines
    width: int  # of the widest row that was looked at


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _dialect(path: Path) -> _Dialect:
    import duckdb

    with path.open(encoding=ENCODING, errors="replace", newline="") as file:
        head = file.read(HEAD_BYTES)
    skip, given = 0, ""
    if first := _SEPARATOR_LINE.match(head):
        skip, given = 1, first[1]
        head = head[first.end() :]
    asked = f", delim={_literal(given)}, skip=1" if given else ""
    with duckdb.connect() as connection:
        rows = connection.sql(
            f"SELECT Delimiter, Quote, Escape FROM sniff_csv({_literal(str(path))}, "
            f"all_varchar=true, null_padding=true, strict_mode=false{asked})"
        ).fetchall()
    delimiter, quote, escape = (None if word == "(empty)" else word for word in rows[0])
    quote = quote or '"'
    delimiter = given or delimiter or ","
    lines = head.splitlines(keepends=True)[:SAMPLE_LINES]
    csv.field_size_limit(1 << 30)
    widest = max((len(row) for row in csv.reader(lines, delimiter=delimiter[0], quotechar=quote)), default=1)
    widest = max(widest, _most_delimiters(path, delimiter) + 1)
    return _Dialect(delimiter, quote, escape or quote, skip, widest)


def _most_delimiters(path: Path, delimiter: str) -> int:
    """Return the largest number of delimiters in a line, in quotes or not."""
    import numpy as np

    most, rest = 0, 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            array = np.frombuffer(block, np.uint8)
            ends = np.flatnonzero(array == 10)
            hits = np.flatnonzero(array == ord(delimiter[0]) if ord(delimiter[0]) < 128 else array < 0)
            bounds = np.searchsorted(hits, ends)
            counts = np.diff(np.concatenate([[0], bounds, [len(hits)]]))
            counts[0] += rest
            most, rest = max(most, int(counts.max())), int(counts[-1])
    return most


def _split(path: Path, dialect: _Dialect) -> pa.Table:
    import duckdb

    columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(dialect.width))
    options = {
        "auto_detect": "false",
        "columns": "{" + columns + "}",
        "delim": _literal(dialect.delimiter),
        "quote": _literal(dialect.quote),
        "escape": _literal(dialect.escape),
        "skip": str(dialect.skip),
        "header": "false",
        "null_padding": "true",
        "strict_mode": "false",
        "parallel": "false",  # or padding is refused where a cell holds a line break
        "nullstr": _literal("\x01"),  # so that an empty cell is told from none
        "max_line_size": str(1 << 30),
    }
    words = ", ".join(f"{name}={value}" for name, value in options.items())
    with duckdb.connect() as connection:
        return connection.sql(f"SELECT * FROM read_csv({_literal(str(path))}, {words})").to_arrow_table()


def _judged(
    cells: pa.Table, dialect: _Dialect, encoding: str, notes: list[str], header: bool | None
) -> TextTable:
    head = [list(row.values()) for row in cells.slice(0, SAMPLE_LINES).to_pylist()]
    full = [row for row in head if _filled(row)]
    if not full:
        raise NoTable("has no row")
    width = Counter(_length(row) for row in full).most_common(1)[0][0]
    below = full[len(full) // 3 :] if len(full) > 6 else full[1:]
    numbers = [_is_numbers([row[i] for row in below]) for i in range(len(head[0]))]
    begin = 0
    while begin < len(head) - 1 and len(_filled(head[begin])) <= min(1, width - 1):
        begin += 1
    end = _end_of_header(head, begin, numbers, width) if header is None else begin + header
    lines = [row for row in head[begin:end] if _filled(row)]
    widths = Counter(_length(row) for row in head[end:] if _filled(row)) or Counter([0])
    (often, n_often), *_ = widths.most_common(1)
    if 2 * n_often < widths.total():
        several = " and ".join(str(width) for width, _ in widths.most_common(3))
        raise NoTable(f"holds several tables, or rows of no one width: {several} cells")
    width = max([often, *(_length_filled(row) for row in lines)])
    names = _joined(lines, width) if lines else None
    if begin:
        notes.append(f"{begin} line{'s' * (begin > 1)} above the table left out")
    if len(lines) > 1:
        notes.append(f"{len(lines)} lines of header joined")
    rows = cells.slice(end)
    rows, dropped = _without(rows, width, names)
    notes += dropped
    return TextTable(names, rows, dialect.delimiter, encoding, tuple(notes))


def _filled(row: Sequence[str | None]) -> list[str]:
    return [cell for cell in row if cell is not None and cell.strip()]


def _length(row: Row) -> int:
    return max((i + 1 for i, cell in enumerate(row) if cell is not None), default=0)


def _length_filled(row: Row) -> int:
    return max((i + 1 for i, cell in enumerate(row) if cell is not None and cell.strip()), default=0)


def _is_number(cell: str) -> bool:
    cell = cell.strip()
    return bool(_NUMBER.fullmatch(cell) or _MOMENT.fullmatch(cell))


def _present(cells: Sequence[str | None]) -> list[str]:
    return [cell for cell in cells if cell is not None and cell.strip().lower() not in GAPS]


def _is_numbers(cells: Sequence[str | None]) -> bool:
    present = _present(cells)
    return bool(present) and sum(map(_is_number, present)) >= LEAST_SHARE * len(present)


def _end_of_header(head: list[Row], begin: int, numbers: list[bool], width: int) -> int:
    """Return the line of the first row: that which has numbers in columns of numbers."""
    if not any(numbers):
        first, below = head[begin], head[begin + 1 :]
        columns = [{row[i] for row in below} for i in range(len(first))]
        filled = [(i, cell) for i, cell in enumerate(first) if cell is not None and cell.strip()]
        known = sum(cell in columns[i] for i, cell in filled)
        return begin + (2 * known < len(filled))
    for line, row in enumerate(head[begin : begin + MOST_HEADER_LINES], begin):
        present = _present([cell for i, cell in enumerate(row) if numbers[i]])
        if 2 * sum(map(_is_number, present)) >= max(1, len(present)):
            if len(_filled(row)) > min(1, width - 1):
                return line
    return begin + 1


def _joined(lines: list[Row], width: int) -> tuple[str, ...]:
    """Return names of columns; a cell above several columns belongs to the name of each."""
    table = [[" ".join((cell or "").split()) for cell in (*row, *[None] * width)][:width] for row in lines]
    for level, row in enumerate(table[:-1]):
        for i in range(1, width):
            if not row[i] and any(lower[i] for lower in table[level + 1 :]):
                row[i] = row[i - 1]
    return tuple(" ".join(filter(None, column)) for column in zip(*table, strict=True))


def _blank(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True)


def _without(rows: pa.Table, width: int, names: tuple[str, ...] | None) -> tuple[pa.Table, list[str]]:
    """Leave out blank rows, and those with more cells than the table has columns."""
    notes = []
    blank = _blank(rows.column(0))
    for i in range(1, rows.num_columns):
        if not pc.any(blank).as_py():
            break
        blank = pc.and_(blank, _blank(rows.column(i)))
    rows = rows.filter(pc.invert(blank))
    for i in range(width, rows.num_columns):
        more = pc.invert(_blank(rows.column(i)))
        if n := pc.sum(more).as_py():
            notes.append(f"{n} row{'s' * (n > 1)} with more cells than the header left out")
            rows = rows.filter(pc.invert(more))
    rows = rows.select(range(min(width, rows.num_columns)))
    if names is not None and rows.num_rows:
        again = pc.indices_nonzero(pc.equal(pc.utf8_trim_whitespace(rows.column(0)), names[0]))
        for place in again.to_pylist():
            cells = [str(cell).strip() for cell in rows.slice(place, 1).to_pylist()[0].values()]
            same = sum(cell == name for cell, name in zip(cells, names, strict=False))
            if same > 1 and 2 * same > len(names):
                raise NoTable(f"holds several tables: its header stands again as row {place + 1}")
    return rows, notes
