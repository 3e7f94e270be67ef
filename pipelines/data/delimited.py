"""Text of rows and cells, read as it stands: encoding, dialect, header and rows.

DuckDB finds the dialect and splits lines into cells, every cell as text; what is judged here is
which lines are the header, which are none of the table, and what is said of them.
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
SAMPLE_LINES = 500  # that are looked at for dialect, header and width
HEAD_BYTES = 1 << 20
MOST_HEADER_LINES = 20
MIN_FRACTION = 0.8  # of the cells of a column of numbers, which are numbers
MOST_LONG_ROWS = 0.1  # beyond, the lines are those of no one table
YEARS = range(1500, 2101)
# Of text that is neither UTF-8 nor, by all signs, cp1252.
OTHER_ENCODINGS = "cp1252 cp1250 cp1251 cp1253 cp1254 cp932 gb18030 big5 euc_kr"
FEWEST_ROWS = 10  # of which levels can be told
EVEN = 0.9  # of the rows, which have as many cells as most
DELIMITERS = (",", ";", "\t", "|")
COMMENT_MARKS = ("#", "%")
NO_SUCH_CELL = "\x01"  # stands in no text: an empty cell is told from one that a row lacks
GAPS = {"", "-", "--", "..", "...", ".", "?", "na", "n/a", "nan", "null", "none", "#n/a", "missing"}
INFINITE = ("inf", "-inf", "Inf", "-Inf")  # a number, but for the first line, where it is a name
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_NUMBER = re.compile(
    r"[-+\u2212(]?\s*[$€£¥]?\s*(\d[\d,.'\s\u00a0\u202f]*|\.\d+)([eEdD][-+]?\d+)?\s*[%)]?",
    re.IGNORECASE,
)
_MOMENT = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?")
_GAP = re.compile(r"#(N/A|NA|DIV/0!|VALUE!|REF!|NAME\?|NUM!|NULL!)", re.IGNORECASE)
# What is no table, by its first line that is no comment.
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

csv.field_size_limit(1 << 30)  # a line that is split by another delimiter than its own is one cell

Row = list[str | None]


class NoTable(ValueError):
    """A text is no table; the message says why, in the words of the file."""


@dataclass(frozen=True)
class Dialect:
    """How lines are split into cells.

    skip : lines above all others that are none of the table, the separator's or comments
    by_blanks : any number of blanks and tabs stands between cells
    """

    delimiter: str
    quote: str = '"'
    escape: str = '"'
    skip: int = 0
    by_blanks: bool = False


@dataclass(frozen=True, eq=False)
class TextTable:
    """A table as it stands in a text, every cell as text.

    names : of the columns, None where there is no header line; empty where a column has none. Last
        columns without a name or a cell that is filled are not among them.
    cells : a column of text for each, called by its number from 0; null where a row lacks the cell
    notes : what was left out, joined or converted, each a phrase
    path, dialect, encoding : how it was read
    """

    names: tuple[str, ...] | None
    cells: pa.Table
    notes: tuple[str, ...]
    path: Path
    dialect: Dialect
    encoding: str
    places: NDArray[np.int64]  # of the rows among all rows of the text, the header's too

    def line_of(self, row: int) -> int:
        """Return the line of the file, from 1, in which a row of ``cells`` begins."""
        return _line_of(self.path, self.dialect, self.encoding, int(self.places[row]))


def _line_of(path: Path, dialect: Dialect, encoding: str, row_index: int) -> int:
    """Return the line in which a row of a text begins, counted among all its rows from 0."""
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
    path : the file
    encoding : of its bytes; by default that of its byte order mark, UTF-8, or what they look like
    header : whether the first line of the table names the columns; None looks at it
    marks : what lines above all others begin with that are comments

    Raises
    ------
    OSError
        It cannot be read.
    NoTable
        It is no table: without a row, several tables in one, no text.
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
            comments = []  # they are words of rows
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
    """Return the encoding of a file: of its mark, UTF-8 if its bytes are, else a likely one.

    Raises
    ------
    NoTable
        The bytes are those of no text.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        for mark, name in (
            (codecs.BOM_UTF8, "utf-8-sig"),
            (codecs.BOM_UTF32_LE, "utf-32"),  # which begins as that of UTF-16 does
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
    # Letters that stand alone among those of ASCII are Latin ones with marks.
    if sum(map(len, non_ascii_runs)) < 1.5 * len(non_ascii_runs):
        with suppress(UnicodeDecodeError):
            head.decode("cp1252")
            return "cp1252"
    best = from_bytes(head, cp_isolation=OTHER_ENCODINGS.split()).best()
    if best is None or str(best) == head.decode("cp1252", errors="replace"):
        return "cp1252"
    return best.encoding


def connected() -> duckdb.DuckDBPyConnection:
    """A connection without DuckDB's own progress bar, which a terminal or notebook would get."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection


def notice_dialect(path: Path, head: Sequence[str], n_comments: int) -> Dialect:
    """Look at a text in UTF-8 and its first lines, of which the first are comments."""
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
        delimiter += " "  # or quotes would not be the first character of a cell
    escape = escape or quote
    if f"\\{quote}" in text:
        escape = max((quote, "\\"), key=lambda escape: _evenness(body, delimiter, quote, escape))
    return Dialect(delimiter, quote, escape, skip)


def _delimiter_of(lines: Sequence[str], sniffed_delimiter: str, quote: str) -> str:
    """Return what stands between cells, empty where that is any number of blanks.

    Commas between digits are no delimiters where another mark splits lines evenly, or blanks do.
    """
    if len(sniffed_delimiter) > 1:
        return sniffed_delimiter
    body = lines[len(lines) // 3 :]  # below a title
    even_delimiters = [
        mark for mark in DELIMITERS[1:] if _evenness(body, mark, quote, quote) >= EVEN
    ]
    if "\t" in even_delimiters and 2 * sum("  " in line for line in lines) > len(lines):
        even_delimiters.remove("\t")  # one among words apart by blanks
    without_decimals = [_DECIMAL_COMMA.sub(".", line) for line in lines]
    if not even_delimiters and _is_by_blanks(without_decimals, sniffed_delimiter):
        return ""

    def fit(mark: str) -> tuple[float, int]:
        evenness, width = _shape(without_decimals if even_delimiters else lines, mark, quote, quote)
        return round(evenness, 1), width

    # Of equal ones the first: a blank may stand between the words of a cell.
    candidates = (
        (*DELIMITERS, " ") if sniffed_delimiter == " " else (sniffed_delimiter or ",", *DELIMITERS)
    )
    return max((*even_delimiters, *candidates), key=fit)


def _evenness(lines: Sequence[str], delimiter: str, quote: str, escape: str) -> float:
    """Return the share of rows that have the most frequent number of cells, if above one."""
    return _shape(lines, delimiter, quote, escape)[0]


def _shape(lines: Sequence[str], delimiter: str, quote: str, escape: str) -> tuple[float, int]:
    """Return the evenness of lines and the most frequent number of cells."""
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
    """Return whether lines are of equally many words, with any number of blanks between them."""
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
    """Yield a file of the same text in UTF-8, changed, with line feeds between lines."""
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
    """Return what makes lines of them that DuckDB can split; None where it can as they are."""
    if dialect.by_blanks:
        return blanks_to_tabs
    if dialect.quote != "'":
        return None
    # An apostrophe within a cell ends it only before a delimiter.
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
    """Yield lines with a tab between words, where blanks and tabs were."""
    return ("\t".join(_WORDS.findall(line)) + "\n" for line in lines)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _split(path: Path, dialect: Dialect, head: Sequence[str]) -> pa.Table:
    """Return every row of a text, in columns of text called by their number.

    There is one column more than a row of the head has cells, which tells longer rows: DuckDB
    leaves out what is beyond.
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
        "parallel": "false",  # or padding is refused where a cell holds a line break
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
    """Tell header, rows and what is none of the table."""
    head: list[Row] = [list(row.values()) for row in cells.slice(0, SAMPLE_LINES).to_pylist()]
    begin = len(comments) - origin[1].skip if comments else 0
    filled_rows = [row for row in head[begin:] if _filled(row)]
    if not filled_rows:
        raise NoTable(NO_ROW)
    width = Counter(_length(row) for row in filled_rows).most_common(1)[0][0]
    body = filled_rows[
        len(filled_rows) // (3 if len(filled_rows) > 6 else 2) :
    ]  # no lines of a header
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
            n_names = n_named  # each row ends with a delimiter
        elif n_named == width - 1 and len({row[0] for row in rows}) == len(rows) > 1:
            lines = [["", *line] for line in lines]  # R gives row names no name
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
    """Return a note where cells go over lines, as a quote makes them that is not closed."""
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
    """Return whether quotes are odd in number, those within cells, as of inches, aside."""
    with path.open("rb") as file:
        if sum(block.count(b'"') for block in iter(lambda: file.read(HEAD_BYTES), b"")) % 2 == 0:
            return False  # without the slower look at where they stand
    at_ends = re.compile(rf'(?<![^{re.escape(delimiter)}\n])"|"(?![^{re.escape(delimiter)}\r\n])')
    with path.open(encoding=ENCODING, newline="") as text:
        return sum(len(at_ends.findall(line)) for line in text if '"' in line) % 2 == 1


def _filled(row: Sequence[str | None]) -> list[str]:
    return [cell for cell in row if cell is not None and cell.strip()]


def _length(row: Row) -> int:
    return max((i + 1 for i, cell in enumerate(row) if cell is not None), default=0)


def _length_filled(row: Row) -> int:
    return max((i + 1 for i, _ in _words(row)), default=0)


def _present(cells: Sequence[str | None]) -> list[str]:
    return [cell for cell in cells if cell is not None and cell.strip().lower() not in GAPS]


def _form_of(cells: Sequence[str | None]) -> re.Pattern[str] | None:
    """Return what nearly all of the cells match, numbers or moments."""
    present = _present(cells)
    for form in (_NUMBER, _MOMENT):
        n_like = sum(form.fullmatch(cell.strip()) is not None for cell in present)
        if present and n_like >= MIN_FRACTION * len(present):
            return form
    return None


def _is_above(row: Row, width: int) -> bool:
    """Return whether a line is a title, or of words about the table, and none of it."""
    filled = _filled(row)
    is_key = bool(filled) and filled[0].rstrip().endswith(":") and len(filled) < width
    at_left = len(filled) == _length_filled(row) < width / 2
    return len(filled) <= min(1, width - 1) or at_left or is_key


def _fits(form: re.Pattern[str] | None, cell: str) -> bool:
    return form is not None and form.fullmatch(cell) is not None


def _words(row: Row) -> list[tuple[int, str]]:
    """Return the cells of a row that are filled, with the numbers of their columns."""
    return [(i, cell.strip()) for i, cell in enumerate(row) if cell is not None and cell.strip()]


def _unlike(row: Row, rows: Sequence[Row]) -> list[Row]:
    """Return rows that share at most half of its cells: no header that comes again."""
    words = {*_words(row)}
    return [
        other_row
        for other_row in rows
        if 2 * len(words.intersection(_words(other_row))) <= len(words)
    ]


def _are_counted(numbers: Sequence[tuple[int, int]], rows: Sequence[Row]) -> bool:
    """Return whether whole numbers are names: of columns counted from 0 or 1, or years in turn."""
    if any(all(value == i + offset for i, value in numbers) for offset in (0, 1, -1)):
        return True  # as a table without names of its own is given them
    steps = {after - before for (_, before), (_, after) in pairwise(numbers)}
    are_in_turn = len(steps) == 1 or (len(numbers) > 2 and len({step > 0 for step in steps}) == 1)
    if not are_in_turn or 0 in steps or not all(value in YEARS for _, value in numbers):
        return False
    cells = [(row[i] or "").strip() for row in rows for i, _ in numbers]
    return 2 * sum(cell.isdecimal() and int(cell) in YEARS for cell in cells) < len(cells)


def _are_names(row: Row, rows: Sequence[Row], forms: Sequence[re.Pattern[str] | None]) -> bool:
    """Return whether a line with whole numbers above rows of numbers names the columns.

    Its other cells are no numbers and come not again, and its numbers are counted, or another cell
    stands above a few levels and is none of them.
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
    """Return the line of the first row: that which has numbers in columns of numbers."""
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
        is_row = 2 * n_like >= max(line == begin, len(numbers))  # gaps alone: a row, too
        if line == begin:
            is_row |= bool(texts) and all(word in counts for word in texts)
        else:
            is_row |= any(counts[word] > 1 for word in texts)
        is_below_names = line > begin and len(_words(head[line - 1])) == width
        if is_row and (len(filled_cells) > min(1, width - 1) or is_below_names):
            return line
    return begin + 1


def _named_by_comment(head: list[Row], begin: int, width: int) -> tuple[int, Row] | None:
    """Return the number of a comment that names the columns, and it without its mark."""
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
    """Return names of columns; a cell above several columns belongs to the name of each."""
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
    return pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True)


def _drop_rows(
    rows: pa.Table,
    width: int,
    names: tuple[str, ...] | None,
    notes: list[str],
    line_of: Callable[[int], int],
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Leave out blank rows, and those with more cells than the table has columns."""
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
    """Raise NoTable where the header stands again among the rows."""
    candidates = pc.indices_nonzero(pc.equal(pc.utf8_trim_whitespace(rows.column(0)), names[0]))
    for position in candidates.to_pylist():
        cells = [str(cell).strip() for cell in rows.slice(position, 1).to_pylist()[0].values()]
        n_equal = sum(cell == name for cell, name in zip(cells, names, strict=False))
        if n_equal > 1 and 2 * n_equal > len(names):
            raise NoTable(
                f"holds several tables: its header stands again in line {line_of(position)}, if it "
                "is one"
            )
