"""Edge lists in files, read in parts: a file may be larger than memory.

A part is a range of bytes of a text, in whole lines, or a row group of a Parquet file. Each part is
read by itself, so that workers can divide a file. Text is parsed by pyarrow. ``EdgeFile`` has the
methods of ``RandomGraph`` by which edges are read: ``parts``, ``piece`` and ``edges``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from pipelines.data.delimited import NoTable
from pipelines.data.tables.words import refuse_no_file, short, unreadable
from pipelines.errors import InputError, opt
from pipelines.graph.edges import Block, Piece, chosen_columns, make_block, number_nodes
from pipelines.graph.layout import (
    NamesAreText,
    TextLayout,
    Unequal,
    are_decimal_commas,
    columns_by_role,
    is_number,
    look,
)

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")
PART_BYTES = 16 << 20


@dataclass(frozen=True)
class FilePart:
    """A part of a file that is read at once: bytes ``begin`` to ``end`` of a text, or a row group.

    Row group i has ``begin`` i and ``end`` i + 1.
    """

    path: str
    begin: int
    end: int


@dataclass(frozen=True)
class EdgeFile:
    """An edge file, and how any part of it is read; made by ``open_edges``.

    Attributes
    ----------
    path : str
    columns : tuple of str
        Names of all columns.
    source, target : str
        The columns of the ends of edges.
    weight : str or None
        The column of weights; None if every edge counts 1.
    layout : TextLayout or None
        The layout of a text; None for Parquet.
    text : bool, default False
        Whether node names in a text are read as text; otherwise as integers.
    undirected : bool, default False
        Whether the file calls its edges undirected.
    notes : tuple of str
        What else was noticed in the head of the file, each a phrase.
    """

    path: str
    columns: tuple[str, ...]
    source: str
    target: str
    weight: str | None
    layout: TextLayout | None = None
    text: bool = False
    undirected: bool = False
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return Path(self.path).name

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the file's bytes and of how they are read, in hexadecimal."""
        digest = hashlib.sha256()
        digest.update(repr((self.layout, self.source, self.target, self.weight)).encode())
        for path in _parquet_files(self.path):
            with path.open("rb") as content:
                while block := content.read(1 << 22):
                    digest.update(block)
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """Metadata of the graph, JSON-serialisable."""
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "path": self.path,
            "weight": self.weight,
        }

    def edge_notes(self, undirected: bool) -> list[str]:
        """What was noticed in the head of the file.

        Parameters
        ----------
        undirected : bool
            Whether edges count both ways; if not, a file that calls them undirected is a note.
        """
        is_ignored = self.undirected and not undirected
        flag = ["the file calls its edges undirected: --undirected counts them both ways"]
        return [*self.notes, *(flag if is_ignored else ())]

    def parts(self, part_bytes: int = PART_BYTES) -> list[FilePart]:
        """The parts of the file: about ``part_bytes`` of a text each, or one for each row group."""
        if self.layout is None:
            return [
                FilePart(str(path), i, i + 1)
                for path in _parquet_files(self.path)
                for i in range(parquet.ParquetFile(path).num_row_groups)
            ]
        size, begin = os.path.getsize(self.path), self.layout.begin
        if self.layout.at_once:
            return [FilePart(self.path, begin, size)]
        edges = range(begin, size, part_bytes)
        return [FilePart(self.path, offset, min(offset + part_bytes, size)) for offset in edges]

    def read(self, part: FilePart) -> Block:
        """Read the edges of a part.

        Raises
        ------
        NamesAreText
            Names are not integers in their usual spelling, and ``text`` is False.
        InputError
            The part cannot be read or breaks a rule of edges.
        """
        try:
            if self.layout is None:
                return self._read_row_group(part)
            return self._read_text(part, self.layout)
        except (OSError, UnicodeError, NoTable, pa.ArrowException) as error:
            raise unreadable(part.path, error, "edges") from None

    def edges(self, nodes: pd.Index | None = None) -> tuple[Piece, pd.Index, list[str]]:
        """Read all edges; names become integers if all of them are.

        Parameters
        ----------
        nodes : pandas.Index, optional
            Names of all nodes; by default those that occur.

        Returns
        -------
        edges, nodes, notes
            As ``number_nodes`` gives them.

        Raises
        ------
        InputError
            A part cannot be read, or breaks a rule of edges.
        """
        try:
            blocks = (self.read(part) for part in self.parts())
            return number_nodes(blocks, nodes, numbers=self.layout is not None)
        except NamesAreText:
            return replace(self, text=True).edges(nodes)

    def piece(self, part: FilePart, nodes: pd.Index) -> Piece:
        """Read the edges of a part, between nodes numbered as in ``nodes``."""
        piece, _, _ = number_nodes([self.read(part)], nodes)
        pa.default_memory_pool().release_unused()  # arrow would keep hundreds of MB
        return piece

    def _read_row_group(self, part: FilePart) -> Block:
        columns = [self.source, self.target] + ([self.weight] if self.weight else [])
        table = parquet.ParquetFile(part.path).read_row_group(part.begin, columns=columns)
        where = f" of '{part.path}'" + (f" in row group {part.begin}" if part.begin else "")
        weight = table[self.weight] if self.weight else None
        return make_block(table[self.source], table[self.target], weight, where, empty=False)

    def _read_text(self, part: FilePart, layout: TextLayout) -> Block:
        lines = layout.lines(part.path, part.begin, part.end)
        name_type = pa.large_string() if self.text else pa.int64()
        column_types = {
            str(self.columns.index(name)): name_type for name in (self.source, self.target)
        }
        weight = None if self.weight is None else str(self.columns.index(self.weight))
        left_out = list[int]()

        def line(number: int) -> str:
            """The line of a row in errors; rows count from 1, without those in ``left_out``."""
            for omitted_row in left_out:
                number += omitted_row <= number
            return layout.locate(part.path, part.begin, part.end, number)

        try:
            try:
                table, left_out, n_comments = layout.table(
                    lines,
                    column_types if weight is None else {**column_types, weight: pa.float64()},
                )
            except pa.ArrowInvalid:
                if weight is None:
                    raise
                table, left_out, _ = layout.table(lines, {weight: pa.large_string()})
                words = table[weight].to_pylist()
                for row, word in enumerate(words, 1):
                    if word and not is_number(word.replace(layout.decimal, ".")):
                        raise InputError(
                            f"{opt('weight')} must be a column of numbers, '{part.path}' has "
                            f"{short(word)} in {line(row)}; mend it, or name another column"
                        ) from None
                raise
        except Unequal as row:
            left_out = []
            raise InputError(
                f"{opt('edges')} must have {layout.n_cells} cells in every line, '{part.path}' has "
                f"{row.n_cells} in {line(row.number)} ({short(row.text)}); mend it or drop it"
            ) from None
        source, target = (table[name] for name in column_types)
        where = f" of '{part.path}'"
        weights = None if weight is None else table[weight]
        block = make_block(source, target, weights, where, line, empty=False)
        if self.text and not self.source.isdecimal():
            self._refuse_second_header(block, line)
        return replace(block, n_comments=n_comments)

    def _refuse_second_header(self, block: Block, line: Callable[[int], str]) -> None:
        """Raise NoTable if the header is repeated among the edges, as in concatenated files."""
        ends = [pc.index(block.names, name).as_py() for name in (self.source, self.target)]
        is_header = (block.ends == np.array(ends)[:, None]).all(axis=0)
        if -1 not in ends and is_header.any():
            raise NoTable(f"its header stands again in {line(int(is_header.argmax()) + 1)}")


def open_edges(
    path: str | Path,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    *,
    header: bool | None = None,
    encoding: str | None = None,
) -> EdgeFile:
    """Open an edge list, and find out by its head how to read it.

    Parameters
    ----------
    path : str or Path
        A text (.csv, .tsv or .txt) with commas, semicolons, tabs, bars or blanks between columns,
        with or without a header line, and with comments that begin with ``#`` or ``%``; or a
        .parquet file, or a folder of such files.
    source, target : str, optional
        Names of columns, which are 1, 2, ... if the file does not name them. By default the columns
        that are called so or similarly, as in ``from,to``; else the first two.
    weight : str, optional
        Name of a column; by default every edge counts 1.
    header : bool, optional
        Whether the first line of a text has the names of columns; by default judged by its words.
    encoding : str, optional
        The encoding of a text; by default the one of its byte order mark, UTF-8, or what its bytes
        look like.

    Returns
    -------
    EdgeFile

    Raises
    ------
    InputError
        There is no such file or column, or the head breaks a rule.
    """
    path = Path(path)
    refuse_no_file(path, SUFFIXES, "edges")
    names = [name for name in (source, target, weight) if name is not None]
    layout, undirected, where = None, False, f" of '{path}'"
    try:
        if path.suffix.lower() == ".parquet":
            columns, default, notes = _look_at_parquet(path, source, target)
        else:
            head = look(path, encoding, header, names)
            layout, columns, default, notes = head.layout, head.columns, head.default, head.notes
            undirected = head.undirected
            if weight in columns:
                cells = head.cells.column(columns.index(weight)).drop_null().to_pylist()
                if layout.delimiter != "," and are_decimal_commas(cells):
                    layout = replace(layout, decimal=",")
                    notes.append("weights have decimal commas")
    except (OSError, UnicodeError, NoTable, pa.ArrowException) as error:
        raise unreadable(path, error, "edges") from None
    if len(set(columns)) < len(columns):
        raise unreadable(path, "two columns have one name", "edges")
    chosen_columns(columns, source, target, weight, where)
    chosen = chosen_columns(columns, source or default[0], target or default[1], weight, where)
    return EdgeFile(str(path), columns, *chosen, layout, False, undirected, tuple(notes))


def _look_at_parquet(
    path: Path, source: str | None, target: str | None
) -> tuple[tuple[str, ...], tuple[str, ...], list[str]]:
    """The columns of a Parquet file, the same with the default source and target first, and notes.

    pandas writes an index behind all other columns, where the frame has it before them.
    """
    files = _parquet_files(str(path))
    # Names that begin with _ or . are for the writer's own use, such as the log of a Delta table.
    if strays := sorted(path.rglob("[!_.]*/*.parquet")):
        raise NoTable(
            f"'{strays[0].relative_to(path)}' stands in a folder of its own, whose edges would be "
            "left out: put all parts into one folder"
        )
    if not files:
        raise NoTable("the folder holds no .parquet file")
    schemas = [parquet.read_schema(file) for file in files]
    columns = tuple(schemas[0].names)
    for file, schema in zip(files, schemas, strict=True):
        if missing := [name for name in columns if name not in schema.names]:
            raise NoTable(f"'{file.name}' has no column {missing[0]!r}, '{files[0].name}' has")
    about = json.loads((schemas[0].metadata or {}).get(b"pandas", b"{}"))
    index = [name for name in about.get("index_columns", ()) if name in columns]
    default = (*index, *(name for name in columns if name not in index))
    notes = []
    if roles := columns_by_role(columns):
        default = roles
    elif index and len(columns) > 2:
        if index[0].startswith("__index_level_"):
            default = tuple(name for name in columns if name not in index)
            notes.append("the index without a name left out")
        elif len(index) == 1 and (source is None or target is None):
            raise InputError(
                f"{opt('source')} and {opt('target')} must be named where the first of several "
                f"columns is an index of pandas, as {index[0]!r} of '{path}' is; name them"
            )
    if default[:2] != columns[:2]:
        notes.append(f"source is {default[0]!r} and target {default[1]!r}")
    return columns, default, notes


def _parquet_files(path: str) -> list[Path]:
    """The file itself, or the files of a folder, as Dask and Spark write a table."""
    location = Path(path)
    return sorted(location.glob("*.parquet")) if location.is_dir() else [location]
