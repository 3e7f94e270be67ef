"""Edge lists in text: their layout, judged by the first lines, and the columns of any part.

Encoding and dialect are judged by ``pipelines.data.delimited``, as for every text. Particular to
edges are the header, which may look like an edge, and comments, which may be names.
"""

from __future__ import annotations

import codecs
import itertools
import re
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from pipelines.data.delimited import (
    COMMENT_MARKS,
    ENCODING,
    NoTable,
    TextTable,
    blanks_to_tabs,
    encoding_of,
    read_text_table,
)
from pipelines.data.tables.words import counted, short
from pipelines.errors import InputError, opt
from pipelines.graph.node_names import are_numbers

HEAD_BYTES = 1 << 18  # by which the layout is judged
LEAST_FRACTION = 0.8  # of the cells that must be numbers for a column to count as numbers
UNNAMED = ("", "Unnamed: 0", "index")  # what pandas and R call the column of an index
_MORE = r"(?:node|vertex|id|name|label|url|page|user)*"
_SOURCE = re.compile(f"{_MORE}(?:source|src|from|origin|start|citing|follower|sender){_MORE}")
_TARGET = re.compile(
    f"{_MORE}(?:target|tgt|to|dst|dest|destination|end|cited|followee|followed|receiver|recipient)"
    f"{_MORE}"
)
_UNDIRECTED = re.compile(r"\bundirected\b|^% *sym\b|^%%MatrixMarket.*\bsymmetric", re.I | re.M)
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_MARKED_WORD = re.compile(r"(?<![^\s,;|])[#%][^\s,;|#%][^\s,;|]*")
_COMMENT = re.compile(rb"^[ \t]*[#%][^\n]*(?:\n|\Z)", re.MULTILINE)
_BARE_COMMENT = re.compile(rb"^[ \t]*[#%](?:[ \t#%][^\n]*|\r?)(?:\n|\Z)", re.MULTILINE)
_AT_ENDS = re.compile(rb"^\t|\t(?=\r?(?:\n|\Z))", re.MULTILINE)
_TABS = re.compile(rb"\t{2,}")


class NamesAreText(Exception):
    """Names were read as integers, and some are not."""


@dataclass(frozen=True)
class Unequal(Exception):
    """A row has fewer or more cells than the others.

    Attributes
    ----------
    number : int
        The row's number in its part, counted from 1.
    n_cells : int
    text : str
    """

    number: int
    n_cells: int
    text: str


@dataclass(frozen=True)
class TextLayout:
    """How the rows of a text are read.

    Attributes
    ----------
    encoding : str
    begin : int
        The byte at which rows begin.
    n_cells : int
        Cells of a row.
    delimiter : str
        Empty for any number of blanks and tabs.
    quote, escape : str
        The character around a quoted cell, and the one before a quote within it.
    newline : str
        What ends a line: "\\n", with or without "\\r" before it, or "\\r".
    marked : bool
        Whether names begin with a comment mark; if not, lines that begin so are comments.
    decimal : str
        The decimal mark of weights.
    at_once : bool
        Whether the text cannot be read in parts, as cells contain line breaks, or its encoding does
        not end lines by the byte that ends them in ASCII. ``begin`` then counts bytes of the text
        in UTF-8.
    """

    encoding: str
    begin: int = 0
    n_cells: int = 0
    delimiter: str = ""
    quote: str = '"'
    escape: str = '"'
    newline: str = "\n"
    marked: bool = False
    decimal: str = "."
    at_once: bool = False

    def lines(self, path: str, begin: int, end: int) -> bytes:
        """The lines that begin within a range of bytes of a file, in UTF-8."""
        if not _is_bytewise(self.encoding):
            return _decoded(path, self.encoding)[self.begin :]
        newline = self.newline.encode()
        with open(path, "rb") as file:
            # It reads from the byte before the part, which tells whether a line begins with the
            # part or before it.
            n_before = begin > self.begin
            file.seek(begin - n_before)
            lines = file.read(end - begin + n_before)
            if n_before:
                lines = lines.partition(newline)[2]
            while lines and not lines.endswith(newline) and (block := file.read(1 << 16)):
                tail, mark, _ = block.partition(newline)
                lines += tail + mark
        return lines if self.encoding == ENCODING else lines.decode(self.encoding).encode()

    def table(
        self, lines: bytes, column_types: dict[str, pa.DataType]
    ) -> tuple[pa.Table, list[int], int]:
        """Parse lines.

        Parameters
        ----------
        lines : bytes
            Whole lines, as ``lines`` gives them.
        column_types : dict of arrow types by str
            The columns to read, by their numbers from 0.

        Returns
        -------
        table : arrow table
        left_out : list of int
            Numbers of the rows that are not in the table, counted from 1.
        n_comments : int
            Comment lines among the rows.

        Raises
        ------
        NamesAreText
            A cell of an integer column is not an integer, or begins with a zero.
        Unequal
            A row has another number of cells than the others.
        """
        rows, n_comments = self._rows(lines)
        if not rows:
            empty = {name: pa.array([], column_type) for name, column_type in column_types.items()}
            return pa.table(empty), [], n_comments
        if pa.int64() in column_types.values() and _zeros_lead(rows):
            raise NamesAreText
        self._refuse_open_quote(rows)
        left_out, unequal = dict[int, str](), list[Unequal]()

        def judge(row: arrow_csv.InvalidRow) -> str:
            text = row.text.strip()
            if text and not text.startswith(COMMENT_MARKS):
                unequal.append(Unequal(row.number, row.actual_columns, text))
                return "error"
            left_out[row.number] = text
            return "skip"

        reading = arrow_csv.ReadOptions(
            column_names=[str(i) for i in range(self.n_cells)],
            use_threads=False,
            block_size=len(rows) + 1,
        )
        parsing = arrow_csv.ParseOptions(
            delimiter=self.delimiter or "\t",
            quote_char=self.quote,
            escape_char=self.escape if self.escape != self.quote else False,
            invalid_row_handler=judge,
        )
        typing = arrow_csv.ConvertOptions(
            column_types=column_types,
            include_columns=list(column_types),
            null_values=[""],
            strings_can_be_null=True,
            decimal_point=self.decimal,
        )
        try:
            table = arrow_csv.read_csv(pa.py_buffer(rows), reading, parsing, typing)
            return table, [*left_out], n_comments + sum(map(bool, left_out.values()))
        except pa.ArrowInvalid as error:
            if unequal:
                raise unequal[0] from None
            if "conversion error to int64" in str(error):
                raise NamesAreText from None
            raise

    def _refuse_open_quote(self, rows: bytes) -> None:
        """Raise NoTable if a quoted cell is not closed in a part: it may contain line breaks."""
        quote = self.quote.encode()
        if self.escape != self.quote or rows.count(quote) % 2 == 0:
            return
        delimiter = re.escape((self.delimiter or "\t").encode())
        if re.search(rb"(?:^|%b)%b" % (delimiter, quote), rows, re.MULTILINE):
            raise NoTable("a quote is not closed, or a name goes over lines")

    def locate(self, path: str, begin: int, end: int, number: int) -> str:
        """The name of a row in messages: the number of its line in the file.

        Parameters
        ----------
        path : str
        begin, end : int
            The bytes of the part.
        number : int
            The row's number in the part, counted from 1.
        """
        if self.at_once:
            return f"row {number}"
        newline = self.newline.encode()
        with open(path, "rb") as file:
            n_before = file.read(begin).count(newline)
        numbered_lines = enumerate(self.lines(path, begin, end).decode().split(self.newline), 1)
        blanks = "\r\n" if self.delimiter else None  # a line of blanks counts as a row, left out
        rows = (
            n
            for n, line in numbered_lines
            if line.strip(blanks) and not _is_comment(line, self.marked)
        )
        return f"line {n_before + next(itertools.islice(rows, number - 1, None))}"

    def _rows(self, lines: bytes) -> tuple[bytes, int]:
        """The lines in the form that arrow parses, without comments, and the number of comments."""
        rows, n_comments = lines, 0
        if self.newline == "\r":
            rows = rows.replace(b"\r", b"\n")
        if not rows.endswith(b"\n"):
            rows += b"\n"
        if b"#" in rows or b"%" in rows:
            rows, n_comments = (_BARE_COMMENT if self.marked else _COMMENT).subn(b"", rows)
        has_quotes = self.quote.encode() in rows
        if self.delimiter:
            if has_quotes:  # arrow takes a quote only as the first character of a cell
                blanks = b" " if self.delimiter == "\t" else b" \t"
                words = (re.escape(self.delimiter.encode()), blanks, *2 * [self.quote.encode()])
                rows = re.sub(rb"(?m)(^|%b)[%b]+(?=%b(?!%b))" % words, rb"\1", rows)
        elif has_quotes:
            rows = "".join(blanks_to_tabs(rows.decode().split("\n"))).encode()
        else:
            rows = rows.replace(b" ", b"\t")
            if b"\t\t" in rows:
                rows = _TABS.sub(b"\t", rows)
            if rows[:1] == b"\t" or any(end in rows for end in (b"\n\t", b"\t\n", b"\t\r")):
                rows = _AT_ENDS.sub(b"", rows)
        return rows, n_comments


@dataclass(frozen=True)
class Head:
    """What the first lines of a text tell about it.

    Attributes
    ----------
    layout : TextLayout
    columns : tuple of str
        Names of all columns; without a header line, numbers from 1.
    default : tuple of str
        Names of columns, of which the first two are source and target by default.
    undirected : bool
        Whether the text calls its edges undirected.
    notes : list of str
        What was noticed.
    cells : arrow table
        The cells of the first rows, as text.
    """

    layout: TextLayout
    columns: tuple[str, ...]
    default: tuple[str, ...]
    undirected: bool
    notes: list[str]
    cells: pa.Table


def look(path: Path, encoding: str | None, header: bool | None, names: Sequence[str]) -> Head:
    """Judge the layout of an edge list in text by its first lines.

    Parameters
    ----------
    path : Path
    encoding : str or None
        None judges it by the bytes.
    header : bool or None
        Whether the first line has the names of columns; None judges it by its words.
    names : sequence of str
        Names of columns that the caller asked for.

    Returns
    -------
    Head

    Raises
    ------
    OSError
        The file cannot be read.
    NoTable
        It is not a table.
    InputError
        It has no edge, or its first line may be a header as well as an edge.
    """
    notes = []
    if encoding is None:
        encoding = encoding_of(path)
        if encoding not in (ENCODING, "utf-8-sig"):
            notes.append(f"read as {encoding}")
    if codecs.lookup(encoding).name == "utf-8-sig":
        encoding = ENCODING
    lines = _first_lines(path, encoding)
    marked = _are_names(lines)
    comments = [line for _, line in lines if _is_comment(line, marked)]
    row_lines = [
        (begin, line) for begin, line in lines if line.strip() and not _is_comment(line, marked)
    ]
    if comments and comments[0].startswith("%%MatrixMarket"):
        notes.append("the line of sizes of Matrix Market left out")
        row_lines = row_lines[1:]
    if not row_lines:
        what = "only comments" if comments else "nothing"
        raise InputError(
            f"{opt('edges')} must hold at least one edge, '{path}' holds {what}; check that it was "
            f"written in full"
        )
    if n_above := sum(
        begin < row_lines[0][0] and _is_comment(line, marked) for begin, line in lines
    ):
        words = counted(n_above, "comment line")
        notes.append(f"{words} above the edges left out, the first {short(comments[0].strip())}")
    with tempfile.NamedTemporaryFile("w", encoding=ENCODING, newline="", suffix=".csv") as sample:
        sample.writelines(line.rstrip("\r\n") + "\n" for _, line in row_lines)
        sample.flush()

        def read(header: bool) -> TextTable:
            return read_text_table(Path(sample.name), encoding=ENCODING, header=header, marks=())

        table = read(header=False)
        if header is None and table.cells.num_columns > 1:
            header = _has_names(table, names, path)
            if not header:
                notes.append("no header line: columns are called 1, 2, ...")
            elif not columns_by_role(first_cells(table)):
                line = short(",".join(first_cells(table)))
                notes.append(f"the first line, {line}, is taken for the header")
        if header:
            table = read(header=True)
            if not table.cells.num_rows:
                raise InputError(
                    f"{opt('edges')} must hold at least one edge, '{path}' has but a header line; "
                    f"check that it was written in full"
                )
        first = table.line_of(0) - 1
    if (n_above := first - bool(header)) > 0:
        notes.append(f"{counted(n_above, 'line')} above the table left out")
    numbers = [str(i + 1) for i in range(table.cells.num_columns)]
    titles = [*(table.names or ()), *numbers[len(table.names or ()) :]]
    columns = default = tuple(name or number for name, number in zip(titles, numbers, strict=True))
    if header and len(columns) > 2 and titles[0] in UNNAMED and counts_rows(table.cells.column(0)):
        default = columns[1:]
        notes.append("the first column, which counts the rows, left out")
    if header and (roles := columns_by_role(default)):
        if roles != default[:2]:
            notes.append(f"source is {roles[0]!r} and target {roles[1]!r}, by their names")
        default = roles
    types = [i for i, name in enumerate(columns) if name.lower() == "type"]
    undirected = bool(_UNDIRECTED.search("".join(comments))) or any(
        "undirected" in pc.utf8_lower(table.cells.column(i)).to_pylist() for i in types
    )
    dialect = table.dialect
    has_breaks = (pc.match_substring(column, "\n") for column in table.cells.columns)
    layout = TextLayout(
        encoding,
        row_lines[first][0],
        len(columns),
        "" if dialect.by_blanks else dialect.delimiter.strip(" "),
        dialect.quote,
        dialect.escape,
        newline="\n" if any(line.endswith("\n") for _, line in lines) else "\r",
        marked=marked,
        at_once=not _is_bytewise(encoding)
        or any(pc.any(is_broken).as_py() for is_broken in has_breaks),
    )
    return Head(layout, columns, default, undirected, notes, table.cells)


def _first_lines(path: Path, encoding: str) -> list[tuple[int, str]]:
    """The first lines after a byte order mark, each with the byte at which it begins."""
    codec, is_whole = encoding, True
    if _is_bytewise(encoding):
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            is_whole = not file.read(1)
    else:
        head, codec = _decoded(str(path), encoding), ENCODING
    begin = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    matches = list(_LINE.finditer(head, begin))
    if not is_whole and len(matches) > 1:
        matches.pop()  # the last line may be incomplete
    return [(line.start(), line[0].decode(codec)) for line in matches]


def first_cells(table: TextTable) -> list[str]:
    """The cells of the first row, without blanks around them."""
    return [(cell or "").strip() for cell in table.cells.slice(0, 1).to_pylist()[0].values()]


def columns_by_role(columns: Sequence[str]) -> tuple[str, str] | None:
    """The columns for source and target by their names, such as ``from`` and ``to``; else None.

    Also None if several columns have such names.
    """
    words = {name: re.sub("[^a-z]", "", name.lower()) for name in columns}
    sources = [name for name, word in words.items() if _SOURCE.fullmatch(word)]
    targets = [name for name, word in words.items() if _TARGET.fullmatch(word)]
    return (sources[0], targets[0]) if len(sources) == len(targets) == 1 else None


def means_node(name: str) -> bool:
    """Whether the name of a column is one for nodes, such as ``id`` or ``page``, or empty."""
    return bool(re.fullmatch(_MORE, re.sub("[^a-z]", "", name.lower())))


def _is_bytewise(encoding: str) -> bool:
    """Whether an encoding has the bytes of ASCII for its characters."""
    return "\n\t,0".encode(encoding) == b"\n\t,0"


def _decoded(path: str, encoding: str) -> bytes:
    with open(path, encoding=encoding, newline="") as file:
        return file.read().encode()


def _is_comment(line: str, marked: bool) -> bool:
    line = line.strip()
    return line.startswith(COMMENT_MARKS) and (not marked or line[1:2] in ("", " ", "\t", "#", "%"))


def _are_names(lines: Sequence[tuple[int, str]]) -> bool:
    """Whether words that begin with a comment mark are names, such as ``#tag``.

    They are if one stands within a line, or begins several different lines.
    """
    lines_with = defaultdict[str, set[str]](set)
    for _, line in lines:
        if ("#" in line or "%" in line) and not _is_comment(line, marked=True):
            for word in _MARKED_WORD.finditer(line):
                if line[: word.start()].strip():  # not the first of its line
                    return True
                lines_with[word[0]].add(line)
    return any(len(lines_of_word) > 1 for lines_of_word in lines_with.values())


def _has_names(table: TextTable, names: Sequence[str], path: Path) -> bool:
    """Whether the first line is a header.

    It is if it has a name that the caller asked for. Where a column has numbers below, a header
    has none there. Otherwise it is judged by the names that ends of edges have, and by whether its
    words come again as names of nodes.

    Raises
    ------
    InputError
        The signs contradict each other, or there are none.
    """
    first = first_cells(table)
    if any(name in first for name in names if not name.isdecimal()):
        return True
    rows_below = table.cells.slice(1)
    names_below = set[str]()
    has_number = list[bool]()
    for word, column in zip(first, rows_below.columns, strict=True):
        cells = pc.utf8_trim_whitespace(column).drop_null()
        cells = cells.filter(pc.not_equal(cells, ""))
        names_below.update(pc.unique(cells).to_pylist())
        n_numbers = pc.sum(are_numbers(cells)).as_py() or 0
        if word and len(cells) and n_numbers >= LEAST_FRACTION * len(cells):
            has_number.append(are_numbers(pa.array([word]))[0].as_py())
    if has_number:
        return not any(has_number)
    if rows_below.num_rows == 0 and all(map(is_number, first[:2])):
        return False
    has_roles, comes_again = (
        columns_by_role(first) is not None,
        not names_below.isdisjoint(first[:2]),
    )
    if has_roles and names_below.issuperset(filter(None, first)):
        return True  # a header that is repeated, which is refused when the edges are read
    if has_roles == comes_again:
        raise InputError(
            f"{opt('edges')} must have a first line that is plainly names of columns or an edge, "
            f"that of '{path}' is {short(','.join(first))}; say {opt('header')} or "
            f"{opt('no_header')}"
        )
    return has_roles


def is_number(word: str) -> bool:
    """Whether a word is a number for other programs as well; Python also takes ``1_000``."""
    try:
        return "_" not in word and float(word) is not None
    except ValueError:
        return False


def are_decimal_commas(words: Sequence[str]) -> bool:
    """Whether words have decimal commas: none has a point, and in one three digits do not follow.

    A comma before three digits may separate thousands.
    """
    commas = [word for word in words if "," in word]
    decimal = any(len(word.rpartition(",")[2].strip()) != 3 for word in commas)
    return decimal and not any("." in word for word in words)


def counts_rows(column: pa.ChunkedArray) -> bool:
    """Whether the cells of a column count its rows, from 0 or 1."""
    cells = column.to_pylist()
    return any(cells == [str(i + first) for i in range(len(cells))] for first in (0, 1))


def _zeros_lead(rows: bytes) -> bool:
    """Whether a number may begin with a zero or be hexadecimal, which arrow reads as an integer."""
    data = np.frombuffer(rows, np.uint8)  # whose last byte ends a line
    for begin in range(0, len(data), 1 << 20):  # blocks that may fit into a cache
        zeros = begin + np.flatnonzero(data[begin : begin + (1 << 20)] == ord("0"))
        next_bytes = data[zeros + 1]
        zeros = zeros[
            ((next_bytes >= ord("0")) & (next_bytes <= ord("9"))) | ((next_bytes | 32) == ord("x"))
        ]
        previous_bytes = data[zeros - 1]  # the first byte wraps to the last: a line's end
        is_digit = (previous_bytes >= ord("0")) & (previous_bytes <= ord("9"))
        in_exponent = (previous_bytes == ord("-")) & (data[zeros - 2] == ord("e"))
        if not (is_digit | (previous_bytes == ord(".")) | in_exponent).all():
            return True
    return False
