"""Numbers by node, from a table or a file: where a surfer jumps, or ranks to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.data.delimited import NoTable, TextTable, read_text_table
from pipelines.data.tables.words import counted, reason_of, short
from pipelines.errors import InputError, opt
from pipelines.graph.layout import (
    UNNAMED,
    are_decimal_commas,
    counts_rows,
    first_cells,
    is_number,
    means_node,
)
from pipelines.graph.node_names import lookup_positions

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")


@dataclass(frozen=True, eq=False)
class NodeVectors:
    """k vectors of numbers by node.

    Attributes
    ----------
    values : float64 array of shape (n_nodes, k)
        At least 0, and in each column one above 0; 0 for nodes that are not named.
    names : list of str
        The names of the k columns.
    has_row : bool array of shape (n_nodes,)
        Whether a node is named.
    unknown : pandas.Index
        Names that are not nodes.
    """

    values: NDArray[np.float64]
    names: list[str]
    has_row: NDArray[np.bool_]
    unknown: pd.Index

    def scaled(self) -> NDArray[np.float64]:
        """The vectors, each scaled to sum 1."""
        vectors = self.values / self.values.max(axis=0)  # their sum might overflow
        return np.asarray(vectors / vectors.sum(axis=0))


def vectors_by_node(option: str, vectors: Any, nodes: pd.Index) -> tuple[NodeVectors, list[str]]:
    """Numbers by node as vectors on the nodes of a graph.

    Parameters
    ----------
    option : str
        The parameter that errors name.
    vectors : mapping, Series, DataFrame, path or object
        Numbers by node; the path of a table, or of the folder of a run; or an object whose method
        ``frame`` gives a frame, such as ``Ranks``.
    nodes : pandas.Index
        Names of all nodes.

    Returns
    -------
    vectors : NodeVectors
    notes : list of str
        What was noticed in a file.

    Raises
    ------
    InputError
        The file cannot be read, a node occurs twice, a number is negative, infinite or NaN, or a
        vector is 0 on all nodes.
    """
    notes = list[str]()
    if hasattr(vectors, "frame"):
        vectors = vectors.frame()
    if isinstance(vectors, str | Path):
        frame, notes = _read_vectors(option, Path(vectors), nodes)
        positions = lookup_positions(pa.array(frame.index.map(str), pa.large_string()), nodes)
    else:
        frame = _frame(option, vectors)
        is_text = nodes.dtype.kind in "OTU" or str(nodes.dtype) in ("str", "string")
        labels = frame.index.map(str) if is_text else frame.index  # 7 is the node '7' among text
        positions = nodes.get_indexer(labels)
    values, is_known = frame.to_numpy(dtype=np.float64), positions >= 0
    twice = frame.index.duplicated() | (is_known & pd.Index(positions).duplicated())
    if twice.any():
        raise InputError(
            f"{opt(option)} must name a node once, {short(frame.index[twice][0])} stands there "
            "twice; drop a row"
        )
    bad = np.argwhere(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"{opt(option)} must hold finite numbers of at least 0, got "
            f"{values[row, column]} for {short(frame.index[row])}; mend it"
        )
    on_nodes, has_row = np.zeros((len(nodes), values.shape[1])), np.zeros(len(nodes), bool)
    on_nodes[positions[is_known]], has_row[positions[is_known]] = values[is_known], True
    names = [str(name) for name in frame.columns]
    largest = on_nodes.max(axis=0)
    if is_known.any() and not (largest > 0).all():
        raise InputError(
            f"{opt(option)} must have a number above 0 in every vector, "
            f"{short(names[int(np.argmin(largest))])} has none; name a node that has"
        )
    return NodeVectors(on_nodes, names, has_row, frame.index[~is_known]), notes


def _read_vectors(option: str, path: Path, nodes: pd.Index) -> tuple[pd.DataFrame, list[str]]:
    """Read vectors by node from a file, with notes on what was noticed in it."""
    from pipelines.graph.record import RANKS  # whose schemas need pydantic, and arrays do not

    path = path / RANKS if path.is_dir() else path
    if path.suffix.lower() not in SUFFIXES or not path.is_file():
        raise InputError(
            f"{opt(option)} must be an existing {', '.join(SUFFIXES)} file, got "
            f"'{path}'; its first column names nodes, each other is a vector"
        )
    try:
        if path.suffix.lower() == ".parquet":
            frame = pd.read_parquet(path)
            if frame.index.name is None and frame.index.dtype.kind in "iu":
                frame = frame.set_index(frame.columns[0])
            frame = frame.astype(np.float64)
            notes = _note_of_empty(int(frame.isna().to_numpy().sum()))
            frame = frame.fillna(0.0)
        else:
            frame, notes = _vectors_of(read_text_table(path, header=False), path, nodes)
    except (OSError, ValueError, pa.ArrowException, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{opt(option)} must be a table of nodes and numbers, '{path}' is not: "
            f"{reason_of(error)}; mend it"
        ) from None
    return _frame(option, frame), [f"{path.name}: {note}" for note in notes]


def _vectors_of(table: TextTable, path: Path, nodes: pd.Index) -> tuple[pd.DataFrame, list[str]]:
    """The vectors in a text that was read without a header, and notes.

    The first line is taken for a header unless its first cell is a node, or its other cells are
    numbers and the first is not a name of columns.
    """
    first = first_cells(table)
    is_node = lookup_positions(pa.array(first[:1], pa.large_string()), nodes)[0] >= 0
    if not is_node and (means_node(first[0]) or not all(map(is_number, first[1:]))):
        table = read_text_table(path, header=True)
    columns, n_names, notes = table.cells.columns, table.cells.num_columns, list(table.notes)
    if table.names is None:
        notes.append("no header line")
    names = table.names or tuple(str(i + 1) for i in range(n_names))
    if len(set(names)) < len(names):
        raise NoTable("two columns have one name")
    begin = int(n_names > 2 and names[0] in UNNAMED and counts_rows(columns[0]))
    if begin:
        notes.append("the first column, which counts the rows, left out")
    vectors, n_empty = {}, 0
    for name, column in zip(names[begin + 1 :], columns[begin + 1 :], strict=False):
        words = [(cell or "").strip() for cell in column.to_pylist()]
        if table.dialect.delimiter != "," and are_decimal_commas(words):
            words = [word.replace(",", ".") for word in words]
        for row, word in enumerate(words):
            if word and not is_number(word):
                raise NoTable(f"{short(word)} in line {table.line_of(row)} is no number")
        vectors[name] = [float(word or 0) for word in words]
        n_empty += words.count("")
    index = [(cell or "").strip() for cell in columns[begin].to_pylist()]
    return pd.DataFrame(vectors, index), notes + _note_of_empty(n_empty)


def _note_of_empty(n_cells: int) -> list[str]:
    return [f"{counted(n_cells, 'empty cell')} taken for 0"] if n_cells else []


def _frame(option: str, vectors: Any) -> pd.DataFrame:
    if isinstance(vectors, Mapping):
        vectors = pd.Series(dict(vectors))
    if isinstance(vectors, pd.Series):
        vectors = vectors.to_frame("personalised" if vectors.name is None else vectors.name)
    if not isinstance(vectors, pd.DataFrame) or not vectors.shape[1] or not len(vectors):
        raise InputError(
            f"{opt(option)} must hold numbers by node: a file, a mapping, or a pandas "
            f"Series or frame; got {type(vectors).__name__} without any"
        )
    return vectors
