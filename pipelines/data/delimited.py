"""Delimited text as rows and cells: encoding, dialect, header and rows.

DuckDB detects the dialect and splits lines into cells, every cell as text. This module decides
which lines are the header and which do not belong to the table, and notes what it decided.
"""

from __future__ import annotations

import codecs
import csv
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.data.tables.words import counted

if TYPE_CHECKING:
    import duckdb

ENCODING = "utf-8"
NO_ROW = "has no row"
SAMPLE_LINES = 500  # lines from which dialect, header and width are detected
HEAD_BYTES = 1 << 20  # bytes read at once; the first of them decide which encoding is likely
MOST_HEADER_LINES = 20  # lines in which the first row is looked for
MIN_FRACTION = 0.8  # least fraction of numbers among the cells of a column of numbers
MOST_LONG_ROWS = 0.1  # with a larger fraction of longer rows, the text is not one table
YEARS = range(1500, 2101)  # whole numbers that may be years
# Candidates for text that is neither UTF-8 nor likely to be cp1252.
OTHER_ENCODINGS = "cp1252 cp1250 cp1251 cp1253 cp1254 cp932 gb18030 big5 euc_kr"
FEWEST_ROWS = 10  # fewest rows from which levels can be told
EVEN = 0.9  # least fraction of rows with the most frequent number of cells
DELIMITERS = (",", ";", "\t", "|")
COMMENT_MARKS = ("#", "%")
NO_SUCH_CELL = "\x01"  # occurs in no text: tells an empty cell from one that a row lacks
GAPS = {"", "-", "--", "..", "...", ".", "?", "na", "n/a", "nan", "null", "none", "#n/a", "missing"}
INFINITE = ("inf", "-inf", "Inf", "-Inf")  # numbers, except in the first line, where they are names
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_NUMBER = re.compile(
    r"[-+\u2212(]?\s*[$€£¥]?\s*(\d[\d,.'\s\u00a0\u202f]*|\.\d+)([eEdD][-+]?\d+)?\s*[%)]?",
    re.IGNORECASE,
)
_MOMENT = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?")
_GAP = re.compile(r"#(N/A|NA|DIV/0!|VALUE!|REF!|NAME\?|NUM!|NULL!)", re.IGNORECASE)
# Other formats, by the first line that is not a comment.
_OTHER_FORMS = {
    "ARFF": re.compile(r"@relation\b", re.IGNORECASE),
    "JSON": re.compile(r'[\[{]\s*(["\[{]|$)'),
    "HTML or XML": re.compile(r"<[!?a-z]", re.IGNORECASE),
    "of libsvm's form": re.compile(r"[-+]?[\d.]+ \d+:[-+.\deE]+( \d+:[-+.\deE]+)*\s*$"),
    "LaTeX": re.compile(r"\\(begin|documentclass)|.*&.*\\\\\s*$"),
}
_RULE = re.compile(r"\s*[-=_|:+]+\s*")  # a line between a header and rows
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
_WORDS = re.compile(r'"(?:[^"\\]|\\.|"")*"(?!\S)|\S+')

csv.field_size_limit(1 << 30)  # a line split by a wrong delimiter is a single long cell

Row = list[str | None]


class NoTable(ValueError):
    """The text is not a table; the message says why, in words about the file."""


@dataclass(frozen=True)
class Dialect:
    """How lines are split into cells.

    Attributes
    ----------
    delimiter, quote, escape : str
    skip : int
        Lines at the top that do not belong to the table, such as ``sep=;`` and comments.
    by_blanks : bool
        Whether cells are separated by any number of blanks and tabs.
    """

    delimiter: str
    quote: str = '"'
    escape: str = '"'
    skip: int = 0
    by_blanks: bool = False


@dataclass(frozen=True, eq=False)
class TextTable:
    """A table as it is in a text, every cell as text.

    Attributes
    ----------
    names : tuple of str or None
        Column names, None if there is no header line; empty where a column has none. Columns at the
        end that have neither a name nor a filled cell are left out.
    cells : pyarrow.Table
        Columns of text, named by their number from 0; null where a row lacks the cell.
    notes : tuple of str
        What was left out, joined or converted, in one phrase each.
    path, dialect, encoding : Path, Dialect, str
        How the text was read.
    places : int64 array
        Position of each row among all rows of the text, header included.
    """

    names: tuple[str, ...] | None
    cells: pa.Table
    notes: tuple[str, ...]
    path: Path
    dialect: Dialect
    encoding: str
    places: NDArray[np.int64]  # for messages that name a line of the file

    def line_of(self, row: int) -> int:
        """The line of the file, from 1, in which a row of ``cells`` begins."""
        return _line_of(self.path, self.dialect, self.encoding, int(self.places[row]))


def _line_of(path: Path, dialect: Dialect, encoding: str, row_index: int) -> int:
    """The line, from 1, in which a row begins; rows are counted from 0, header included."""
    with path.open(encoding=encoding, errors="replace", newline=None) as text:
        for _ in range(dialect.skip):
            next(text)
        if dialect.by_blanks:
            full = (n for n, line in enumerate(text, 1) if line.strip())
            return dialect.skip + next(islice(full, row_index, None))
        rows = csv.reader(text, delimiter=dialect.delimiter[0], quotechar=dialect.quote)
        begin = 1
        for cells in rows:
            if cells:
                if row_index == 0:
                    break
                row_index -= 1
            begin = rows.line_num + 1
        return dialect.skip + begin


def read_text_table(
    path: Path,
    *,
    encoding: str | None = None,
    header: bool | None = None,
    marks: tuple[str, ...] = COMMENT_MARKS,
) -> TextTable:
    """Read a file of delimited text.

    Parameters
    ----------
    path : Path
    encoding : str, optional
        By default the encoding of the byte order mark, UTF-8, or the one that the bytes suggest.
    header : bool, optional
        Whether the first line of the table names the columns; None detects it.
    marks : tuple of str
        Beginnings of comment lines at the top of the file.

    Returns
    -------
    TextTable

    Raises
    ------
    OSError
        The file cannot be read.
    NoTable
        It is not a table: it has no row, holds several tables, or is not text.
    """
    notes = []
    if encoding is None:
        encoding = encoding_of(path)
        if encoding not in (ENCODING, "utf-8-sig", "ascii"):
            is_guess = "" if encoding.startswith("utf") else ", a guess"
            notes.append(f"read as {encoding}{is_guess}")
    with path.open(encoding=encoding, newline=None) as text:
        try:
            head = list(islice(text, SAMPLE_LINES))
        except UnicodeError as error:
            raise NoTable(f"is no text in {encoding}: {error}") from None
        is_plain = encoding == ENCODING and text.newlines != "\r"
    if not any(line.strip() for line in head):
        raise NoTable(NO_ROW)
    with ExitStack() as stack:
        plain = path if is_plain else stack.enter_context(_copy(path, encoding, iter))
        marked = takewhile(lambda line: line.startswith(marks) and not _GAP.match(line), head)
        comments = list(marked)
        if not any(map(str.strip, head[len(comments) :])):
            comments = []  # all lines begin with a mark, so they are rows
        body = next((line for line in head[len(comments) :] if line.strip()), "")
        for form, pattern in _OTHER_FORMS.items():
            if pattern.match(body.strip()):
                raise NoTable(f"is {form}, no table of rows and columns; convert it")
        dialect = notice_dialect(plain, head, len(comments))
        if (change := _change_of(dialect, head)) is not None:
            plain, head = stack.enter_context(_copy(plain, ENCODING, change)), list(change(head))
            dialect = replace(dialect, quote='"', escape='"')
        cells = _split(plain, dialect, head)
        if dialect.quote == '"' and _has_odd_quote(plain, dialect.delimiter[0]):
            notes.append("a quote is not closed")
    return _split_header(cells, header, comments, notes, (path, dialect, encoding))


def encoding_of(path: Path) -> str:
    """The encoding of a file: from its byte order mark, UTF-8 if that is valid, else a likely one.

    Raises
    ------
    NoTable
        The bytes are not text.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        for mark, name in (
            (codecs.BOM_UTF8, "utf-8-sig"),
            (codecs.BOM_UTF32_LE, "utf-32"),  # begins with the mark of UTF-16, so it comes first
            (codecs.BOM_UTF16_LE, "utf-16"),
            (codecs.BOM_UTF16_BE, "utf-16"),
        ):
            if head.startswith(mark):
                return name
        if b"\0" in head:
            for start, name in ((1, "utf-16-le"), (0, "utf-16-be")):
                if head[start::2].count(0) > 0.8 * len(head[start::2]):
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

    non_ascii_runs = re.findall(rb"[\x80-\xff]+", head)
    # Single letters beyond ASCII, among letters of ASCII, are accented Latin letters.
    if sum(map(len, non_ascii_runs)) < 1.5 * len(non_ascii_runs):
        with suppress(UnicodeDecodeError):
            head.decode("cp1252")
            return "cp1252"
    best = from_bytes(head, cp_isolation=OTHER_ENCODINGS.split()).best()
    if best is None or str(best) == head.decode("cp1252", errors="replace"):
        return "cp1252"
    return best.encoding


def connected() -> duckdb.DuckDBPyConnection:
    """A connection to DuckDB without its progress bar, which a terminal or notebook would show."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection


def notice_dialect(path: Path, head: Sequence[str], n_comments: int) -> Dialect:
    """Detect the dialect of a text in UTF-8; its first ``n_comments`` lines are comments."""
    skip, separator = 0, ""
    if first := _SEPARATOR_LINE.match(head[0]):
        skip, separator = 1, first[1]
    n_above = max(skip, n_comments)
    body = head[n_above:] or head
    options = f", skip={n_above}" if n_above else ""
    options += f", delim={_literal(separator)}" if separator else ""
    with connected() as connection:
        rows = connection.sql(
            f"SELECT Delimiter, Quote, Escape FROM sniff_csv({_literal(str(path))}, "
            f"all_varchar=true, null_padding=true, strict_mode=false{options})"
        ).fetchall()
    delimiter, quote, escape = ("" if word == "(empty)" else word or "" for word in rows[0])
    quote = quote or '"'
    text = "".join(body)
    delimiter = separator or _delimiter_of(body, delimiter, quote)
    if not delimiter:
        return Dialect("\t", quote, quote, skip, by_blanks=True)
    if not delimiter.isspace() and text.count(delimiter + " ") == text.count(delimiter) > 0:
        delimiter += " "  # else a quote would not be the first character of its cell
    escape = escape or quote
    if f"\\{quote}" in text:
        escape = max((quote, "\\"), key=lambda escape: _evenness(body, delimiter, quote, escape))
    return Dialect(delimiter, quote, escape, skip)


def _delimiter_of(lines: Sequence[str], sniffed_delimiter: str, quote: str) -> str:
    """The delimiter, empty if cells are separated by any number of blanks.

    A comma between digits is not a delimiter where another mark, or blanks, split lines evenly.
    """
    if len(sniffed_delimiter) > 1:
        return sniffed_delimiter
    body = lines[len(lines) // 3 :]  # below a title, if there is one
    even_delimiters = [
        mark for mark in DELIMITERS[1:] if _evenness(body, mark, quote, quote) >= EVEN
    ]
    if "\t" in even_delimiters and 2 * sum("  " in line for line in lines) > len(lines):
        even_delimiters.remove("\t")  # tabs among columns that blanks separate
    without_decimals = [_DECIMAL_COMMA.sub(".", line) for line in lines]
    if not even_delimiters and _is_by_blanks(without_decimals, sniffed_delimiter):
        return ""

    def fit(mark: str) -> tuple[float, int]:
        """Evenness and number of cells with this delimiter: larger is better."""
        evenness, width = _shape(without_decimals if even_delimiters else lines, mark, quote, quote)
        return round(evenness, 1), width

    # Of equal candidates, the first wins, so the blank comes last: it may separate words in a cell.
    candidates = (
        (*DELIMITERS, " ") if sniffed_delimiter == " " else (sniffed_delimiter or ",", *DELIMITERS)
    )
    return max((*even_delimiters, *candidates), key=fit)


def _evenness(lines: Sequence[str], delimiter: str, quote: str, escape: str) -> float:
    """Fraction of rows that have the most frequent number of cells; 0 if that number is one."""
    return _shape(lines, delimiter, quote, escape)[0]


def _shape(lines: Sequence[str], delimiter: str, quote: str, escape: str) -> tuple[float, int]:
    """The evenness of lines and the most frequent number of cells."""
    escapechar = None if escape == quote else escape
    rows = csv.reader(
        lines,
        delimiter=delimiter[0],
        quotechar=quote,
        escapechar=escapechar,
        doublequote=escapechar is None,
    )
    widths = Counter(len(row) for row in rows if any(row))
    width, n_rows = widths.most_common(1)[0] if widths else (0, 0)
    return (n_rows / widths.total() if width > 1 else 0), width


def _is_by_blanks(lines: Sequence[str], delimiter: str) -> bool:
    """Whether lines have the same number of words, separated by any number of blanks."""
    filled_lines = [line for line in lines if line.strip()]
    words = [len(_WORDS.findall(line)) for line in filled_lines]
    width, n_usual = Counter(words[1:] or words).most_common(1)[0]  # a header may be shorter
    if width < 2 or n_usual < 0.9 * len(words[1:] or words):
        return False
    if not delimiter or delimiter.isspace():
        cells = (len(line.strip().split(delimiter or "\t")) for line in filled_lines)
        return any(n_cells != n_words for n_cells, n_words in zip(cells, words, strict=True))
    return not any(delimiter in line for line in filled_lines)


@contextmanager
def _copy(path: Path, encoding: str, change: Callable[[TextIO], Iterable[str]]) -> Iterator[Path]:
    """A temporary file of the changed text, in UTF-8 with line feeds between lines."""
    with tempfile.NamedTemporaryFile("w", encoding=ENCODING, newline="", suffix=".csv") as copy:
        with path.open(encoding=encoding, newline=None) as text:
            try:
                copy.writelines(change(text))
            except UnicodeError as error:
                raise NoTable(f"is no text in {encoding}: {error}") from None
        copy.flush()
        yield Path(copy.name)


def _change_of(
    dialect: Dialect, head: Sequence[str]
) -> Callable[[Iterable[str]], Iterator[str]] | None:
    """A function that rewrites lines for DuckDB to split; None if it can split them as they are."""
    if dialect.by_blanks:
        return blanks_to_tabs
    if dialect.quote != "'":
        return None
    # An apostrophe ends a cell only before a delimiter; others belong to its text.
    end = rf"(?={re.escape(dialect.delimiter)}|\r?$)"
    cell = re.compile(rf"(^|{re.escape(dialect.delimiter)})'(.*?)'{end}", re.MULTILINE)

    def change(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            yield cell.sub(
                lambda match: f'{match[1]}"{match[2].replace(chr(34), 2 * chr(34))}"', line
            )

    delimiter, n_now = dialect.delimiter, _evenness(head, dialect.delimiter, "'", dialect.escape)
    is_better = _evenness(list(change(head)), delimiter, '"', '"') > n_now
    return change if is_better else None


def blanks_to_tabs(lines: Iterable[str]) -> Iterator[str]:
    """Lines with a single tab between words, in place of blanks and tabs."""
    return ("\t".join(_WORDS.findall(line)) + "\n" for line in lines)


def _literal(text: str) -> str:
    """The text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _split(path: Path, dialect: Dialect, head: Sequence[str]) -> pa.Table:
    """Every row of a text, in columns of text named by their number.

    There is one column more than the longest row of the head has cells, to detect longer rows:
    DuckDB drops further cells.
    """
    rows = csv.reader(head, delimiter=dialect.delimiter[0], quotechar=dialect.quote)
    n_columns = max(map(len, rows), default=1) + 1
    columns = ", ".join(f"'{i}': 'VARCHAR'" for i in range(n_columns))
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
        "parallel": "false",  # DuckDB refuses padding in parallel if a cell holds a line break
        "nullstr": _literal(NO_SUCH_CELL),
        "max_line_size": str(1 << 30),
    }
    words = ", ".join(f"{name}={value}" for name, value in options.items())
    with connected() as connection:
        query = f"SELECT * FROM read_csv({_literal(str(path))}, {words})"
        return connection.sql(query).to_arrow_table()


def _split_header(
    cells: pa.Table,
    header: bool | None,
    comments: Sequence[str],
    notes: list[str],
    origin: tuple[Path, Dialect, str],
) -> TextTable:
    """Separate header, rows and lines that do not belong to the table."""
    head: list[Row] = [list(row.values()) for row in cells.slice(0, SAMPLE_LINES).to_pylist()]
    begin = len(comments) - origin[1].skip if comments else 0
    filled_rows = [row for row in head[begin:] if _filled(row)]
    if not filled_rows:
        raise NoTable(NO_ROW)
    width = Counter(_length(row) for row in filled_rows).most_common(1)[0][0]
    body = filled_rows[
        len(filled_rows) // (3 if len(filled_rows) > 6 else 2) :
    ]  # not lines of a header
    forms = [_form_of([row[i] for row in body]) for i in range(len(head[0]))]
    while begin < len(head) - 1 and _is_above(head[begin], width):
        begin += 1
    end = _end_of_header(head, begin, forms, width) if header is None else begin + header
    lines = [row for row in head[begin:end] if not all(map(_RULE.fullmatch, _filled(row)))]
    n_above = begin
    if not lines and header is None and (comment := _named_by_comment(head, begin, width)):
        lines, n_above = [comment[1]], n_above - 1
        notes.append(f"a comment, {' '.join(_filled(comment[1]))!r}, names the columns")
    widths = Counter(_length(row) for row in head[end:] if _filled(row)) or Counter([0])
    (usual_width, n_usual), *_ = widths.most_common(1)
    if 2 * n_usual < widths.total():
        lengths = " and ".join(str(width) for width, _ in widths.most_common(3))
        raise NoTable(
            f"has rows of {lengths} cells: it holds several tables, or no quotes about cells that "
            f"have its delimiter in them, {origin[1].delimiter!r}"
        )
    n_names = width = max([usual_width, *(_length_filled(row) for row in lines)])
    if lines and (n_named := max(map(_length_filled, lines))) < width:
        rows = [row for row in head[end:] if _filled(row)]
        if not any(map(_filled, (row[n_named:] for row in rows))):
            n_names = n_named  # every row ends with a delimiter
        elif n_named == width - 1 and len({row[0] for row in rows}) == len(rows) > 1:
            lines = [["", *line] for line in lines]  # R writes no name above row names
            notes.append("the header has no name for the first column, the row names")
        else:
            raise NoTable(f"has {n_named} names of columns, but {width} cells in most rows")
    names = _joined(lines, n_names) if lines else None
    if n_above:
        notes.append(f"{counted(n_above, 'line')} above the table left out")
    if len(lines) > 1:
        notes.append(f"{len(lines)} lines of header joined")
    rows, places = _drop_rows(
        cells.slice(end), width, names, notes, lambda row: _line_of(*origin, end + row)
    )
    table = TextTable(names, rows, (), *origin, places + end)
    return replace(table, notes=(*notes, *_of_several_lines(table)))


def _of_several_lines(table: TextTable) -> list[str]:
    """A note if cells extend over several lines, as an unclosed quote causes.

    Raises
    ------
    NoTable
        Most of these cells hold whole rows.
    """
    rows = [
        pc.indices_nonzero(pc.match_substring(column, "\n")).to_numpy()
        for column in table.cells.columns
    ]
    if not (n_cells := sum(map(len, rows))):
        return []
    line = table.line_of(int(np.concatenate(rows).min()))
    delimiter, n_others = table.dialect.delimiter, table.cells.num_columns - 1
    n_swallowed = 0
    for i, (column, places) in enumerate(zip(table.cells.columns, rows, strict=True)):
        for cell in column.take(places[:SAMPLE_LINES]).to_pylist():
            first, *between, last = (part.count(delimiter) for part in cell.split("\n"))
            n_swallowed += (first, last) == (n_others - i, i) and {*between} <= {n_others}
    if n_others and 2 * n_swallowed > sum(min(len(places), SAMPLE_LINES) for places in rows):
        raise NoTable(
            f"has whole rows within quotes: one is not closed in line {line}, or stands within a "
            "cell"
        )
    return [f"{counted(n_cells, 'cell')} of several lines, the first in line {line}"]


def _has_odd_quote(path: Path, delimiter: str) -> bool:
    """Whether the number of quotes is odd, not counting those within cells, such as inch marks."""
    with path.open("rb") as file:
        if sum(block.count(b'"') for block in iter(lambda: file.read(HEAD_BYTES), b"")) % 2 == 0:
            return False  # without the slower check of where they are
    at_ends = re.compile(rf'(?<![^{re.escape(delimiter)}\n])"|"(?![^{re.escape(delimiter)}\r\n])')
    with path.open(encoding=ENCODING, newline="") as text:
        return sum(len(at_ends.findall(line)) for line in text if '"' in line) % 2 == 1


def _filled(row: Sequence[str | None]) -> list[str]:
    """The cells that hold more than blanks."""
    return [cell for cell in row if cell is not None and cell.strip()]


def _length(row: Row) -> int:
    """Number of cells of a row, up to the last that is present."""
    return max((i + 1 for i, cell in enumerate(row) if cell is not None), default=0)


def _length_filled(row: Row) -> int:
    """Number of cells of a row, up to the last that is filled."""
    return max((i + 1 for i, _ in _words(row)), default=0)


def _present(cells: Sequence[str | None]) -> list[str]:
    """The cells that are present and do not mean a missing value."""
    return [cell for cell in cells if cell is not None and cell.strip().lower() not in GAPS]


def _form_of(cells: Sequence[str | None]) -> re.Pattern[str] | None:
    """The pattern that nearly all of the cells match, numbers or times; None if there is none."""
    present = _present(cells)
    for form in (_NUMBER, _MOMENT):
        n_like = sum(form.fullmatch(cell.strip()) is not None for cell in present)
        if present and n_like >= MIN_FRACTION * len(present):
            return form
    return None


def _is_above(row: Row, width: int) -> bool:
    """Whether a line is a title or text above the table, rather than part of it."""
    filled = _filled(row)
    is_key = bool(filled) and filled[0].rstrip().endswith(":") and len(filled) < width
    at_left = len(filled) == _length_filled(row) < width / 2
    return len(filled) <= min(1, width - 1) or at_left or is_key


def _fits(form: re.Pattern[str] | None, cell: str) -> bool:
    """Whether a cell has a form; no cell has the form None."""
    return form is not None and form.fullmatch(cell) is not None


def _words(row: Row) -> list[tuple[int, str]]:
    """The filled cells of a row, with their column numbers."""
    return [(i, cell.strip()) for i, cell in enumerate(row) if cell is not None and cell.strip()]


def _unlike(row: Row, rows: Sequence[Row]) -> list[Row]:
    """Rows with at most half of the filled cells of ``row``; a repeated header has more."""
    words = {*_words(row)}
    return [
        other_row
        for other_row in rows
        if 2 * len(words.intersection(_words(other_row))) <= len(words)
    ]


def _are_counted(numbers: Sequence[tuple[int, int]], rows: Sequence[Row]) -> bool:
    """Whether whole numbers are column names: counted from 0 or 1, or a series of years."""
    if any(all(value == i + offset for i, value in numbers) for offset in (0, 1, -1)):
        return True  # as programs number the columns of a table without names
    steps = {after - before for (_, before), (_, after) in pairwise(numbers)}
    are_in_turn = len(steps) == 1 or (len(numbers) > 2 and len({step > 0 for step in steps}) == 1)
    if not are_in_turn or 0 in steps or not all(value in YEARS for _, value in numbers):
        return False
    cells = [(row[i] or "").strip() for row in rows for i, _ in numbers]
    return 2 * sum(cell.isdecimal() and int(cell) in YEARS for cell in cells) < len(cells)


def _are_names(row: Row, rows: Sequence[Row], forms: Sequence[re.Pattern[str] | None]) -> bool:
    """Whether a line with whole numbers, above rows of numbers, names the columns.

    Its other cells are not numbers and do not occur again. Its numbers are counted, or another cell
    is above a column of few levels and is not one of them.
    """
    filled_cells, other_rows = _words(row), _unlike(row, rows)
    numbers = [(i, int(cell)) for i, cell in filled_cells if cell.isdecimal()]
    words = [(i, cell) for i, cell in filled_cells if not cell.isdecimal()]
    levels = {i: {(other_row[i] or "").strip() for other_row in other_rows} for i, _ in words}
    if not numbers or any(cell in levels[i] or _fits(forms[i], cell) for i, cell in words):
        return False
    if len({value for _, value in numbers}) < len(numbers) or len(other_rows) < len(rows):
        return False
    if len(filled_cells) > 2 and len(numbers) > 1 and _are_counted(numbers, rows):
        return True
    return len(rows) >= FEWEST_ROWS and any(
        forms[i] is None and 2 * len(levels[i]) <= len(other_rows) for i, _ in words
    )


def _end_of_header(
    head: list[Row], begin: int, forms: Sequence[re.Pattern[str] | None], width: int
) -> int:
    """The index of the first row: the first line with numbers in columns of numbers."""
    first, rows = head[begin], head[begin + 1 :]
    if _are_names(first, rows, forms):
        return begin + 1
    counts = Counter(word for row in _unlike(first, rows) for word in _words(row))
    filled_cells = _words(first)
    if not any(forms):
        return begin + (2 * sum(word in counts for word in filled_cells) < len(filled_cells))
    for line, row in enumerate(head[begin : begin + MOST_HEADER_LINES], begin):
        filled_cells = _words(row)
        numbers = [(i, cell) for i, cell in filled_cells if forms[i] and _present([cell])]
        texts = [word for word in filled_cells if forms[word[0]] is None]
        n_like = sum(
            _fits(forms[i], cell) or (line > begin and cell in INFINITE) for i, cell in numbers
        )
        # A line of gaps alone is also a row.
        is_row = 2 * n_like >= max(line == begin, len(numbers))
        if line == begin:
            is_row |= bool(texts) and all(word in counts for word in texts)
        else:
            is_row |= any(counts[word] > 1 for word in texts)
        is_below_names = line > begin and len(_words(head[line - 1])) == width
        if is_row and (len(filled_cells) > min(1, width - 1) or is_below_names):
            return line
    return begin + 1


def _named_by_comment(head: list[Row], begin: int, width: int) -> tuple[int, Row] | None:
    """The index of a comment that names the columns, and its cells without the mark."""
    marks = "".join(COMMENT_MARKS)
    for line in range(begin - 1, -1, -1):
        first_cell, *other_cells = [cell or "" for cell in head[line]]
        if first_cell.startswith(COMMENT_MARKS) and width > 1:
            first_name = first_cell.lstrip(marks).strip()
            names: Row = [first_name, *other_cells] if first_name else [*other_cells, None]
            if _length_filled(names) == width:
                return line, names
    return None


def _joined(lines: list[Row], width: int) -> tuple[str, ...]:
    """Column names from all header lines; a cell above several columns belongs to each of them."""
    table = [
        [" ".join((cell or "").split()) for cell in (*row, *[None] * width)][:width]
        for row in lines
    ]
    for level, row in enumerate(table[:-1]):
        for i in range(1, width):
            if not row[i] and any(lower[i] for lower in table[level + 1 :]):
                row[i] = row[i - 1]
    return tuple(" ".join(filter(None, column)) for column in zip(*table, strict=True))


def _blank(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether each cell is blank or missing."""
    return pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True)


def _drop_rows(
    rows: pa.Table,
    width: int,
    names: tuple[str, ...] | None,
    notes: list[str],
    line_of: Callable[[int], int],
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Drop blank rows, and rows with more cells than the table has columns.

    Returns
    -------
    rows : pyarrow.Table
    positions : int array
        Their positions among the original rows.
    """
    is_kept = pc.invert(_blank(rows.column(0)))
    for i in range(1, rows.num_columns):
        if pc.all(is_kept).as_py() is not False:
            break
        is_kept = pc.or_(is_kept, pc.invert(_blank(rows.column(i))))
    n_rows = pc.sum(is_kept).as_py() or 0
    if names is not None and n_rows:
        _refuse_second_header(rows, names, line_of)
    for i in range(width, rows.num_columns):
        is_longer = pc.and_(is_kept, pc.invert(_blank(rows.column(i))))
        if n := pc.sum(is_longer).as_py():
            first = f"the first in line {line_of(pc.index(is_longer, True).as_py())}"
            if n > MOST_LONG_ROWS * n_rows:
                raise NoTable(
                    f"has {width} columns, but {n:,} of {n_rows:,} rows are longer, {first}"
                )
            notes.append(f"{counted(n, 'row')} of more than {width} cells left out, {first}")
            is_kept = pc.and_(is_kept, pc.invert(is_longer))
    positions = np.flatnonzero(is_kept.to_numpy())
    rows = rows.select(range(width)).filter(is_kept)
    last_column = rows.column(width - 1)
    if n := last_column.null_count:
        line = line_of(int(positions[pc.index(pc.is_null(last_column), True).as_py()]))
        notes.append(
            f"{counted(n, 'row')} of fewer than {width} cells, the first in line {line}, taken as "
            "lacking the last"
        )
    return rows, positions


def _refuse_second_header(
    rows: pa.Table, names: tuple[str, ...], line_of: Callable[[int], int]
) -> None:
    """Raise NoTable if the header occurs again among the rows."""
    candidates = pc.indices_nonzero(pc.equal(pc.utf8_trim_whitespace(rows.column(0)), names[0]))
    for position in candidates.to_pylist():
        cells = [str(cell).strip() for cell in rows.slice(position, 1).to_pylist()[0].values()]
        n_equal = sum(cell == name for cell, name in zip(cells, names, strict=False))
        if n_equal > 1 and 2 * n_equal > len(names):
            raise NoTable(
                f"holds several tables: its header stands again in line {line_of(position)}, if it "
                "is one"
            )
