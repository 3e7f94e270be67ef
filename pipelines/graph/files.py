"""Edge lists in files, read in parts: a file may be larger than memory.

A part is a range of bytes of a text, in whole lines, or a row group of Parquet; it is read by
itself, so workers can share a file. Numbers are parsed by pyarrow. An ``EdgeFile`` gives its edges
by the same methods as a ``RandomGraph``: ``parts``, and the numbered ``piece`` of one.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from fsspec.utils import read_block  # type: ignore[import-untyped]
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from pipelines.data.tables.words import refuse_no_file, unreadable
from pipelines.errors import InputError, opt
from pipelines.graph.edges import Block, Piece, chosen_columns, make_block, number_nodes

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")
PART_BYTES = 16 << 20
_BLANKS = re.compile(rb"[ \t]+")
_COMMENT = re.compile(rb"^[ \t]*[#%].*\n?", re.MULTILINE)
_AT_ENDS = re.compile(rb"^\t|\t(?=\r?$)", re.MULTILINE)
_EMPTY = re.compile(rb"^\r?\n", re.MULTILINE)


class NamesAreText(Exception):
    """Names that were taken for whole numbers are none."""


@dataclass(frozen=True)
class Part:
    """A piece of a file that is read at once: bytes ``begin`` to ``end``, or a row group."""

    path: str
    begin: int
    end: int


@dataclass(frozen=True)
class EdgeFile:
    """The layout of an edge file, enough to read any part of it; made by ``open_edges``.

    columns : the names of all columns
    source, target, weight : which of them are read; weight may be None
    begin : the byte at which rows begin
    text : whether names are text; else whole numbers, where the file does not say
    """

    path: str
    kind: str
    columns: tuple[str, ...]
    source: str
    target: str
    weight: str | None
    begin: int = 0
    text: bool = False

    @property
    def name(self) -> str:
        return Path(self.path).name

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the file's bytes and how they are read."""
        digest = hashlib.sha256()
        digest.update(repr((self.kind, self.source, self.target, self.weight)).encode())
        for path in _parquet_files(self.path):
            with path.open("rb") as content:
                while block := content.read(1 << 22):
                    digest.update(block)
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """Return the JSON-serialisable metadata of the graph."""
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "path": self.path,
            "weight": self.weight,
        }

    def parts(self, part_bytes: int = PART_BYTES) -> list[Part]:
        """Return the file in pieces of about ``part_bytes``."""
        if self.kind == ".parquet":
            return [
                Part(str(path), i, i + 1)
                for path in _parquet_files(self.path)
                for i in range(parquet.ParquetFile(path).num_row_groups)
            ]
        size = os.path.getsize(self.path)
        edges = range(self.begin, size, part_bytes)
        return [Part(self.path, at, min(at + part_bytes, size)) for at in edges]

    def read(self, part: Part) -> Block:
        """Return the edges of a part.

        Raises
        ------
        NamesAreText
            Names are not whole numbers, and ``text`` is False.
        InputError
            The part cannot be read or breaks a rule of edges.
        """
        wanted = [self.source, self.target] + ([self.weight] if self.weight else [])
        try:
            if self.kind == ".parquet":
                table = parquet.ParquetFile(part.path).read_row_group(part.begin, columns=wanted)
            else:
                table = self._read_text(part)
        except (OSError, pa.ArrowException) as error:
            if "conversion error to int64" in str(error):
                raise NamesAreText from None
            raise unreadable(part.path, error, "edges") from None
        where = f" of '{self.path}'"
        if part.begin > self.begin:
            where += f" from {'row group' if self.kind == '.parquet' else 'byte'} {part.begin} on"
        weight = None if self.weight is None else table[self.weight]
        return make_block(table[self.source], table[self.target], weight, where)

    def edges(self, nodes: pd.Index | None = None) -> tuple[Piece, pd.Index]:
        """Return all edges and nodes; names are integers where all are. Raises as ``read`` does."""
        try:
            blocks = (self.read(part) for part in self.parts())
            return number_nodes(blocks, nodes)
        except NamesAreText:
            return replace(self, text=True).edges(nodes)

    def piece(self, part: Part, nodes: pd.Index) -> Piece:
        """Return sources, targets and weights of a part, between numbered nodes."""
        piece = number_nodes([self.read(part)], nodes)[0]
        pa.default_memory_pool().release_unused()  # or it keeps hundreds of MB
        return piece

    def _read_text(self, part: Part) -> pa.Table:
        with open(part.path, "rb") as file:
            # The lines that begin within the part. From the byte before: one that begins with the
            # part is then not taken for the end of one that began before it.
            rows = read_block(file, max(0, part.begin - 1), part.end - max(1, part.begin), b"\n")
        if self.kind == ".txt":  # blanks between columns become one tab, comments go
            if b"#" in rows or b"%" in rows:
                rows = _COMMENT.sub(b"", rows)
            if b" " in rows or b"\t\t" in rows:
                rows = _BLANKS.sub(b"\t", rows)
            rows = _EMPTY.sub(b"", _AT_ENDS.sub(b"", rows))
        names = pa.large_string() if self.text else pa.int64()
        types = {self.source: names, self.target: names}
        if self.weight:
            types[self.weight] = pa.float64()
        if not rows:
            return pa.table({name: pa.array([], kind) for name, kind in types.items()})
        if not rows.endswith(b"\n"):
            rows += b"\n"
        delimiter = "," if self.kind == ".csv" else "\t"
        quote = False if self.kind == ".txt" else '"'
        reading = arrow_csv.ReadOptions(
            column_names=list(self.columns), use_threads=False, block_size=len(rows) + 1
        )
        parsing = arrow_csv.ParseOptions(delimiter=delimiter, quote_char=quote)
        typing = arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=[""],
            strings_can_be_null=True,
        )
        return arrow_csv.read_csv(pa.py_buffer(rows), reading, parsing, typing)


def open_edges(
    path: str | Path,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
) -> EdgeFile:
    """Look at the head of an edge list.

    Parameters
    ----------
    path : .csv or .tsv with a header line; .txt as of SNAP, without one, with columns apart by
        blanks, called 1, 2, ..., and ``#`` comments; .parquet, a file or a folder of files
    source, target : names of columns; by default the first two
    weight : name of a column; by default every edge counts 1

    Raises
    ------
    InputError
        There is no such file or column, or the head breaks a rule.
    """
    path = Path(path)
    kind = path.suffix.lower()
    refuse_no_file(path, SUFFIXES, "edges")
    begin = 0
    try:
        if kind == ".parquet":
            files = _parquet_files(str(path))
            if not files:
                raise unreadable(str(path), "the folder holds no .parquet file", "edges")
            columns = tuple(parquet.read_schema(files[0]).names)
        elif kind == ".txt":
            with open(path, "rb") as file:
                rows = (line.split() for line in file)
                first = next((row for row in rows if row and row[0][:1] not in b"#%"), [])
            columns = tuple(str(i + 1) for i in range(len(first)))
        else:
            with open(path, "rb") as file:
                head = file.readline()
            line, begin = head.decode("utf-8-sig").strip("\r\n"), len(head)
            columns = tuple(next(csv.reader([line], delimiter="," if kind == ".csv" else "\t"), ()))
            if len(columns) >= 2 and all(map(_is_number, columns[:2])):
                raise InputError(
                    f"{opt('edges')} must have a header line in a {kind} file, the first line of "
                    f"'{path}' is {line[:60]!r}; add one such as source,target, or call the file "
                    ".txt with blanks between columns"
                )
            if len(set(columns)) < len(columns):
                raise unreadable(str(path), "two columns have one name", "edges")
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise unreadable(str(path), error, "edges") from None
    if not columns:
        raise InputError(
            f"{opt('edges')} must hold at least one edge, '{path}' has none; check that it was "
            f"written in full"
        )
    where = f" of '{path}'"
    return EdgeFile(
        str(path), kind, columns, *chosen_columns(columns, source, target, weight, where), begin
    )


def _parquet_files(path: str) -> list[Path]:
    """Return a file, or the parts in a folder as Dask and Spark write it."""
    whole = Path(path)
    return sorted(whole.glob("*.parquet")) if whole.is_dir() else [whole]


def _is_number(field: str) -> bool:
    try:
        return math.isfinite(float(field))
    except ValueError:
        return False
