"""The random surfer, when the power iteration ends, and how far off its ranks may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.data.delimited import NoTable, TextTable, read_text_table
from pipelines.data.tables.words import reason_of, short
from pipelines.errors import InputError, opt
from pipelines.graph.edges import check_choice, check_number
from pipelines.graph.layout import (
    UNNAMED,
    are_decimal_commas,
    counts_rows,
    first_cells,
    is_number,
    means_node,
)
from pipelines.graph.names import places_of

Array = NDArray[np.float64]

# Called with the number of each iteration, from 1, and its change.
Callback = Callable[[int, float], None]

DOUBLE = 2.0**-53
SINGLE = 2.0**-24
SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")  # of personal vectors
DANGLING = ("uniform", "personalised", "none")


def ignore(iteration: int, change: float) -> None:
    """Do nothing: the default callback."""


@dataclass(frozen=True, eq=False)
class RandomSurfer:
    """Follow an edge with probability alpha, in proportion to its weight, else jump.

    Attributes
    ----------
    alpha : float
        The damping factor, strictly between 0 and 1.
    personalisation : float64 of shape (n_nodes, k), or None
        Where to jump: k vectors, each at least 0 and of sum 1. None: anywhere alike, k = 1.
    dangling : str
        What happens at a dangling node, which no weight leaves: a jump anywhere alike ("uniform")
        or as ``personalisation`` says ("personalised"); "none": the surfer is lost, and ranks add
        up to less than 1.

    Raises
    ------
    InputError
        alpha is not between 0 and 1, or the rule is unknown.
    """

    n_nodes: int
    alpha: float = 0.85
    personalisation: Array | None = None
    dangling: str = "uniform"

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha)
        if not 0 < self.alpha < 1:
            raise InputError(
                f"{opt('alpha')} must lie strictly between 0 and 1, got {self.alpha}; 0.85 is usual"
            )
        check_choice("dangling", self.dangling, DANGLING)

    @property
    def n_vectors(self) -> int:
        return 1 if self.personalisation is None else self.personalisation.shape[1]

    @cached_property
    def jump(self) -> Array:
        """The personalisation vectors, of shape (n_nodes, k), or (1, 1) if uniform."""
        if self.personalisation is None:
            return np.full((1, 1), 1 / self.n_nodes)
        return self.personalisation

    def start(self) -> Array:
        """Return ranks to begin with, of shape (n_nodes, k): a jump from nowhere."""
        return np.ascontiguousarray(np.broadcast_to(self.jump, (self.n_nodes, self.n_vectors)))

    def jump_weights(self, dangling_rank: Array) -> tuple[Array, Array]:
        """Return ``first`` and ``second``: a node gets ``first * jump + second`` by jumps.

        Parameters
        ----------
        dangling_rank : of shape (k,)
            The sum of the ranks of dangling nodes.

        Returns
        -------
        first, second : of shape (k,)
        """
        first = np.full_like(dangling_rank, 1 - self.alpha)
        if self.dangling == "none":
            return first, np.zeros_like(dangling_rank)
        if self.personalisation is None or self.dangling == "personalised":
            return first + self.alpha * dangling_rank, np.zeros_like(dangling_rank)
        return first, self.alpha * dangling_rank / self.n_nodes


def surfer_on(
    nodes: pd.Index, alpha: float, dangling: str, personalise: Any
) -> tuple[RandomSurfer, list[str], list[str]]:
    """Return the surfer on these nodes, the names of the vectors, and what was noticed in a file.

    Parameters
    ----------
    personalise : None; a mapping or Series from nodes to numbers of at least 0; a frame with nodes
        as its index and a column for each vector; or the path of a table, with or without a header
        line, whose first column names nodes and whose others are vectors, where what is missing
        is 0

    Raises
    ------
    InputError
        As ``RandomSurfer`` does; the file cannot be read, a node is unknown or stands there twice,
        a number is negative, infinite or NaN, or a vector is 0 everywhere.
    """
    if personalise is None:
        return RandomSurfer(len(nodes), alpha, None, dangling), ["rank"], []
    notes = list[str]()
    if isinstance(personalise, str | Path):
        frame, notes = _read_vectors(Path(personalise), nodes)
        positions = places_of(pa.array(frame.index.map(str), pa.large_string()), nodes)
    else:
        frame = _frame(personalise)
        is_text = nodes.dtype.kind in "OTU" or str(nodes.dtype) in ("str", "string")
        wanted = frame.index.map(str) if is_text else frame.index  # 7 is the node '7' among text
        positions = nodes.get_indexer(wanted)
    values = frame.to_numpy(dtype=np.float64)
    twice = frame.index[frame.index.duplicated() | pd.Index(positions).duplicated()]
    if len(twice) and (positions >= 0).all():
        raise InputError(
            f"{opt('personalise')} must name a node once, {short(twice[0])} stands there twice"
        )
    unknown = np.flatnonzero(positions < 0)
    if len(unknown):
        raise InputError(
            f"{opt('personalise')} must name nodes of the graph, got "
            f"{short(frame.index[unknown[0]])}, which is none; drop it or add an edge"
        )
    bad = np.argwhere(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"{opt('personalise')} must hold finite numbers of at least 0, got "
            f"{values[row, column]} for {short(frame.index[row])}; mend it"
        )
    vectors = np.zeros((len(nodes), values.shape[1]))
    vectors[positions] = values
    largest = vectors.max(axis=0)
    names = [str(name) for name in frame.columns]
    if not (largest > 0).all():
        empty = names[int(np.argmin(largest))]
        raise InputError(
            f"{opt('personalise')} must have a number above 0 in every vector, "
            f"{short(empty)} has none; name a node to jump to"
        )
    vectors /= largest  # whose sum may be no float64 number
    vectors /= vectors.sum(axis=0)
    return RandomSurfer(len(nodes), alpha, vectors, dangling), names, notes


def _read_vectors(path: Path, nodes: pd.Index) -> tuple[pd.DataFrame, list[str]]:
    """Read vectors by node from a file; return what was noticed in it, too."""
    if path.suffix.lower() not in SUFFIXES or not path.is_file():
        raise InputError(
            f"{opt('personalise')} must be an existing {', '.join(SUFFIXES)} file, got "
            f"'{path}'; its first column names nodes, each other is a vector"
        )
    try:
        if path.suffix.lower() == ".parquet":
            frame = pd.read_parquet(path)
            if frame.index.name is None and frame.index.dtype.kind in "iu":
                frame = frame.set_index(frame.columns[0])
            frame, notes = frame.astype(np.float64).fillna(0.0), list[str]()
        else:
            frame, notes = _vectors_of(read_text_table(path, header=False), path, nodes)
    except (OSError, ValueError, pa.ArrowException, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{opt('personalise')} must be a table of nodes and numbers, '{path}' is not: "
            f"{reason_of(error)}; mend it"
        ) from None
    return _frame(frame), [f"{path.name}: {note}" for note in notes]


def _vectors_of(table: TextTable, path: Path, nodes: pd.Index) -> tuple[pd.DataFrame, list[str]]:
    """Return the vectors in a text whose first line was not taken for a header, and notes."""
    first = first_cells(table)
    is_node = places_of(pa.array(first[:1], pa.large_string()), nodes)[0] >= 0
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
    vectors = {}
    for name, column in zip(names[begin + 1 :], columns[begin + 1 :], strict=False):
        words = [(cell or "").strip() for cell in column.to_pylist()]
        if table.dialect.delimiter != "," and are_decimal_commas(words):
            words = [word.replace(",", ".") for word in words]
        for row, word in enumerate(words):
            if word and not is_number(word):
                raise NoTable(f"{short(word)} in line {table.line_of(row)} is no number")
        vectors[name] = [float(word or 0) for word in words]
    index = [(cell or "").strip() for cell in columns[begin].to_pylist()]
    return pd.DataFrame(vectors, index), notes


def _frame(given: Any) -> pd.DataFrame:
    if isinstance(given, Mapping):
        given = pd.Series(dict(given))
    if isinstance(given, pd.Series):
        given = given.to_frame("personalised" if given.name is None else given.name)
    if not isinstance(given, pd.DataFrame) or not given.shape[1] or not len(given):
        raise InputError(
            f"{opt('personalise')} must hold numbers by node: a file, a mapping, or a pandas "
            f"Series or frame; got {type(given).__name__} without any"
        )
    return given


@dataclass(frozen=True)
class Stop:
    """The stopping rule of an iteration.

    tol : the L1 norm of the change at which all vectors are done; None: never
    iterations : at most, at least 1; None: as many as ``tol`` can need

    Raises
    ------
    InputError
        Neither is given, or one is out of its range.
    """

    tol: float | None = 1e-6
    iterations: int | None = None

    def __post_init__(self) -> None:
        if self.tol is not None:
            check_number("tol", self.tol)
        if self.iterations is not None:
            check_number("iterations", self.iterations, whole=True)
        if self.tol is not None and not 1e-14 <= self.tol < 1:
            raise InputError(
                f"{opt('tol')} must be at least 1e-14 and below 1, got {self.tol}; ranks add up to "
                f"1, and double precision holds 16 digits"
            )
        if self.iterations is not None and self.iterations < 1:
            raise InputError(
                f"{opt('iterations')} must be at least 1, got {self.iterations}; take more"
            )
        if self.tol is None and self.iterations is None:
            raise InputError(
                f"{opt('tol')} or {opt('iterations')} must be given, got neither; one ends the "
                f"iteration"
            )

    def most(self, alpha: float) -> int:
        """Return the number of iterations it will not exceed.

        The change is at most 2 at first and shrinks at least by alpha each time; rounding may
        cost a few more.
        """
        if self.iterations is not None:
            return self.iterations
        assert self.tol is not None
        return math.ceil(math.log(self.tol / 2) / math.log(alpha)) + 10

    def reached(self, changes: list[float]) -> bool:
        """Return whether the last change is at most ``tol``."""
        return self.tol is not None and bool(changes) and changes[-1] <= self.tol

    def precision(self, alpha: float) -> type:
        """Return the dtype of contributions: float32 if its rounding stays below ``tol``.

        Ranks may end in a cycle of roundings. Each adds at most SINGLE to either of two vectors
        that an iteration brings closer by alpha: their distance ends below
        2 SINGLE / (1 - alpha).
        """
        single = self.tol is not None and self.tol >= 2 * SINGLE / (1 - alpha)
        return np.float32 if single else np.float64


@dataclass(frozen=True)
class IterationResult:
    """The result of an iteration.

    values : ranks, float64 of shape (n, k)
    changes : the L1 norm of each iteration's change, the largest of the k vectors'
    rounding : of the last iteration, as the L1 norm of what it adds to a vector of ranks
    seconds : of each iteration
    setup_seconds : before the first
    nbytes : what was held between iterations
    """

    values: Array
    changes: list[float]
    converged: bool
    rounding: float
    seconds: list[float] = field(default_factory=list)
    setup_seconds: float = 0.0
    nbytes: int = 0


def rounding_error(n_in: NDArray[np.int64], precision: type = np.float64) -> float:
    """Return the rounding error of an iteration with float64 sums, to first order.

    Parameters
    ----------
    n_in : how many edges point at each node
    precision : of the contributions
    """
    return DOUBLE * (int(n_in.max(initial=0)) + 4) + (SINGLE if precision is np.float32 else 0)
