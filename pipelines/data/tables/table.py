"""A table as it was read: its target, its columns, and how they were detected."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.data.scaling import SMALL
from pipelines.data.tables.kinds import (
    LARGEST,
    Kinds,
    are_whole,
    column_levels,
    columns_of,
    find_kinds,
    slip_error,
    to_numbers,
)
from pipelines.data.tables.table_files import (
    MISSING_WORDS,
    TEXT,
    TableSource,
    no_target,
    read_frame,
)
from pipelines.data.tables.words import counted, list_names, short
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import pandas as pd

_WHOLE = re.compile(r"0|-?[1-9]\d*")  # as Python writes it: the label 01 is not 1
Task = Literal["classification", "regression"]
FEW = 20  # most different whole numbers that may be classes
Missing = Literal["impute", "drop", "refuse"]
MISSING: tuple[Missing, ...] = ("impute", "drop", "refuse")


@dataclass(frozen=True)
class Reading:
    """How a table should be read where that should not be detected; see ``read_raw_table``."""

    missing: Missing = "impute"
    no_header: bool = False
    number: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    header: bool = False
    encoding: str | None = None
    missing_values: tuple[str, ...] = ()
    no_missing_values: bool = False


@dataclass(frozen=True, eq=False)
class RawTable:
    """Features and target of a table, before anything is learned from them.

    Attributes
    ----------
    name : str
        File name.
    X : DataFrame
        float64 columns ``kinds.numbers``, then object columns ``kinds.categories`` of text; missing
        cells are NaN. Its index counts the rows.
    y : array of shape (n_rows,)
        Labels (bool, integer or text) or float64.
    kinds : Kinds
    task : {"classification", "regression"}
    target : str
        Name of the column that became ``y``.
    missing : {"impute", "drop", "refuse"}
        What is done about missing cells; after "drop" and "refuse" there are none.
    notes : tuple of str
        What was detected, for the first line.
    conversions : tuple of str
        What was left out of a text, converted or taken as missing.
    missing_words : tuple of str
        Words that mean a missing cell in a text.
    units : dict of str to str
        The mark that all numbers of a column had, if there was one.
    n_dropped : int
        Rows that were left out because of a missing cell.
    without_header : bool
        Whether the file has no header line, and columns are called by number.
    groups : int array of shape (n_rows,) or None
        Codes of the group column.
    """

    name: str
    X: pd.DataFrame
    y: NDArray[Any]
    kinds: Kinds
    task: Task
    target: str
    missing: Missing = "impute"
    notes: tuple[str, ...] = field(default=())
    n_dropped: int = 0
    without_header: bool = False
    groups: NDArray[Any] | None = None
    conversions: tuple[str, ...] = ()
    missing_words: tuple[str, ...] = MISSING_WORDS
    units: dict[str, str] = field(default_factory=dict)

    @property
    def n_missing(self) -> int:
        """Number of missing cells."""
        return int(self.X.isna().to_numpy().sum())

    @property
    def is_plain(self) -> bool:
        """Whether the features are numeric without missing cells, so that they are a matrix."""
        return not self.kinds.categories and not self.n_missing

    def matrix(self) -> NDArray[np.float64]:
        """The numbers of a plain table: shape (n_rows, n_features), C-contiguous."""
        return np.ascontiguousarray(self.X[list(self.kinds.numbers)].to_numpy())

    def lines(self) -> list[str]:
        """Lines for the console: rows and target; columns by kind; what was converted."""
        dropped = f" ({self.n_dropped:,} with missing cells left out)" if self.n_dropped else ""
        notes = "".join(f"; {note}" for note in self.notes)
        kinds = []
        if self.kinds.numbers:
            kinds.append(f"{len(self.kinds.numbers)} numeric")
        if self.kinds.categories:
            levels = ", ".join(
                f"{short(name)[1:-1]} ({counted(self.X[name].nunique(), 'level')})"
                for name in self.kinds.categories[:10]
            )
            n_more = len(self.kinds.categories) - 10
            kinds.append(
                f"{len(self.kinds.categories)} categorical: {levels}"
                + (f" and {n_more} more" if n_more > 0 else "")
            )
        if self.n_missing:
            kinds.append(f"{counted(self.n_missing, 'missing cell')}, imputed")
        left_out = ", ".join(f"{short(name)[1:-1]} ({why})" for name, why in self.kinds.left_out)
        kinds.append(f"left out: {left_out or 'nothing'}")
        of_target = counted_classes(self.y)
        if self.task == "regression":
            low, middle, high = np.quantile(self.y, [0, 0.5, 1])
            of_target = f"numbers from {low:.6g} to {high:.6g}, median {middle:.6g}"
        return [
            f"table      {self.name}: {counted(len(self.y), 'row')}{dropped}, target "
            f"{short(self.target)}: {of_target}{notes}",
            f"columns    {'; '.join(kinds)}",
            *(f"note       {conversion}" for conversion in self.conversions),
        ]

    def describe(self) -> dict[str, Any]:
        """The JSON-serialisable metadata of the table."""
        return {
            "target": self.target,
            "missing": self.missing,
            "without_header": self.without_header,
            "missing_values": self.missing_words,
            "units": self.units,
            "levels": {
                name: sorted(self.X[name].dropna().unique()) for name in self.kinds.categories
            },
            **asdict(self.kinds),
        }


def counted_classes(y: NDArray[Any], most: int = 10) -> str:
    """Classes with their numbers of rows: ``3 classes: a (50), b (40), c (2)``."""
    classes, counts = np.unique(y, return_counts=True)
    class_names = [
        f"{label} ({count:,})" for label, count in zip(classes[:most], counts[:most], strict=True)
    ]
    suffix = f" and {len(classes) - most} more" if len(classes) > most else ""
    return f"{counted(len(classes), 'class', 'classes')}: {', '.join(class_names)}{suffix}"


def read_raw_table(
    path: str | Path,
    target: str | None = None,
    *,
    task: Task | None = None,
    missing: Missing = "impute",
    no_header: bool = False,
    number: Iterable[str] = (),
    category: Iterable[str] = (),
    leave_out: Iterable[str] = (),
    header: bool = False,
    groups: str | None = None,
    encoding: str | None = None,
    missing_values: Iterable[str] = (),
    no_missing_values: bool = False,
) -> RawTable:
    """Read a table, and detect what its columns are.

    Parameters
    ----------
    path : str or Path
        A file whose suffix is in ``SUFFIXES``; see ``read_frame``.
    target : str, optional
        Column to predict, by name or by number from 1; see ``choose_target``. In an .npz file, the
        array of labels, ``y`` by default.
    task : {"classification", "regression"}, optional
        By default what the target's values suggest.
    missing : {"impute", "drop", "refuse"}
        "impute" keeps missing cells, for ``TablePreprocessor``; "drop" leaves out rows with one;
        "refuse" raises an error.
    header, no_header : bool
        The first line of a text names the columns, or is a row; by default it is detected.
    number, category, leave_out : iterable of str
        Columns whose kind should not be detected.
    groups : str, optional
        Column that says which rows belong together; it is not a feature.
    encoding : str, optional
        Encoding of a text; by default the one that its bytes suggest.
    missing_values : iterable of str
        Words that mean a missing cell in a text, besides ``?``, ``NA`` and the like.
    no_missing_values : bool
        Whether only an empty cell, and ``missing_values``, mean a missing cell.

    Returns
    -------
    RawTable

    Raises
    ------
    InputError
        The file or a column cannot be used; the message says in one line what to do.
    """
    path = Path(path)
    label = (target or "y") if path.suffix.lower() == ".npz" else None
    if header and no_header:
        raise InputError(
            f"{opt('header')} and {opt('no_header')} contradict each other about the first line; "
            "leave one out"
        )
    of_text = {
        "header": header,
        "no_header": no_header,
        "encoding": encoding,
        "missing_values": missing_values,
        "no_missing_values": no_missing_values,
    }
    if path.suffix.lower() not in TEXT and (ignored := [name for name in of_text if of_text[name]]):
        raise InputError(
            f"{opt(ignored[0])} is for a file of text, got {opt('dataset', path)}; leave it out"
        )
    missing_values = tuple(missing_values)
    first_line_names = header if header or no_header else None
    usual_words = () if no_missing_values else MISSING_WORDS
    frame, source = read_frame(
        path,
        header=first_line_names,
        label=label,
        as_text={*category, *leave_out, groups or ""},
        encoding=encoding,
        missing=(*usual_words, *missing_values),
    )
    name, reason = choose_target(frame, label or target, path, task)
    features = frame.drop(columns=name)
    if features.columns.empty:
        raise InputError(
            f"{opt('dataset')} must have a feature column beside {opt('target')} {name!r}, "
            f"'{path}' has none; add one"
        )
    codes = None
    if groups is not None:
        if groups not in features.columns:
            raise InputError(
                f"{opt('groups')} must be the name of a column of '{path}', got {groups!r}; check "
                "it"
            )
        if features[groups].isna().any():
            raise InputError(
                f"{opt('groups')} must have a value in every row, column {groups!r} of '{path}' "
                "lacks some; fill them in"
            )
        codes = np.unique(features.pop(groups).astype(str).to_numpy(), return_inverse=True)[1]
    kinds = find_kinds(
        features, path, source, number=number, category=category, leave_out=leave_out
    )
    if groups is not None:
        kinds = replace(kinds, left_out=(*kinds.left_out, (groups, "as asked")))
    if not kinds.numbers and not kinds.categories:
        left_out = ", ".join(f"{short(name)} ({why})" for name, why in kinds.left_out)
        raise InputError(
            f"{opt('dataset')} must have a feature column, but all columns of '{path}' were "
            f"ignored: {left_out}; use one with {opt('number')} or {opt('category')}"
        )
    X, outcome = columns_of(features, kinds, path, source), frame[name]
    column_levels(outcome, path)
    written = source.as_written(name)
    are_numbers = task == "regression" or (task is None and outcome.nunique() > FEW)
    if name in source.columns.slips and are_numbers:
        raise slip_error(name, source, path)
    task = task or _task_of(outcome.dropna())
    if written is not None and task == "classification":
        labels = type(outcome)(written, outcome.index, name=name)
        if source.table is None:
            outcome, written = labels, None
        elif (outcome.isna() & labels.notna()).any():  # a sign of a missing number is a label here
            outcome = labels
    n_rows = len(X)
    if missing == "refuse":
        gaps = X.isna().sum()
        gaps = gaps[gaps > 0]
        if len(gaps):
            n_others = len(gaps) - 1
            addition = f", {n_others} other column{'s' * (n_others > 1)} too" if n_others else ""
            raise InputError(
                f"{opt('missing', 'refuse')} must have a value in every cell, column "
                f"{short(gaps.index[0])} of '{path}' has {gaps.iloc[0]} missing in {len(X)} "
                f"rows{addition}; use {opt('missing', 'impute')} or {opt('missing', 'drop')}"
            )
    elif missing == "drop":
        is_complete = X.notna().all(axis=1) & outcome.notna().reset_index(drop=True)
        X = X[is_complete].reset_index(drop=True)
        outcome = outcome[is_complete.to_numpy()]
        written = None if written is None else written[is_complete.to_numpy()]
        codes = None if codes is None else codes[is_complete.to_numpy()]
        if X.empty:
            raise InputError(
                f"{opt('missing', 'drop')} would drop every row: each row of '{path}' has a "
                f"missing cell; use {opt('missing', 'impute')}, or leave out columns"
            )
    y = target_values(outcome, path, task, source, written)
    notes = [reason] if reason and label is None else []
    of_target = {name} if task == "regression" else set()
    conversions = [*source.notes_on({*kinds.numbers, *of_target})]
    cell = source.cell(name, outcome.index[0])
    if y.dtype.kind == "i" and "e" in cell.lower():
        conversions.append(f"labels as whole numbers, {short(cell)} is {y[0]}, in {short(name)}")
    if words := source.lacks(missing_values):
        conversions.append(f"no cell is {list_names(words)}, asked to be taken as missing")
    if not source.has_header:
        notes.append(f"no header line, columns are called 1 to {len(frame.columns)}")
    return RawTable(
        path.name,
        X,
        y,
        kinds,
        task,
        name,
        missing,
        tuple(notes),
        n_rows - len(X),
        not source.has_header,
        codes,
        tuple(conversions),
        source.missing,
        {name: unit for name, unit in source.columns.units.items() if name in kinds.numbers},
    )


def choose_target(
    frame: pd.DataFrame, target: str | None, path: Path, task: Task | None = None
) -> tuple[str, str]:
    """The column to predict, and how it was chosen if it was not named.

    Parameters
    ----------
    frame : DataFrame
    target : str or None
        A column's name; or its number, counted from 1, or from the end with -1. A name goes before
        a number. None takes the last column if it is text or has few values, or for a regression if
        it holds numbers.
    path : Path
        The file, for messages.
    task : {"classification", "regression"}, optional

    Returns
    -------
    name, reason : str
        The reason is empty if the column was named.

    Raises
    ------
    InputError
        There is no such column, or no column was named and the last one is not suitable.
    """
    names = list(frame.columns)
    if target is None:
        last_name, why = names[-1], ""
        column, is_numeric = frame[last_name], _is_numeric(frame[last_name])
        if task == "regression":
            why = "which is numbers" if is_numeric else ""
        elif not is_numeric:
            why = "which is text"
        elif column.nunique() <= min(FEW, len(column) / 2):
            is_few = are_whole(to_numbers(column.dropna()))
            why = f"which has {column.nunique()} values" if is_few else ""
        if not why or len(names) == 1:
            raise InputError(
                f"{opt('target')} must name the column to predict in '{path}'; "
                f"choose one of {list_names(names)}"
            )
        return last_name, f"the last column, {why}"
    if target in names:
        return target, ""
    try:
        number = int(target)
    except ValueError:
        raise no_target(path, target, names, "a column") from None
    if not 1 <= abs(number) <= len(names):
        raise no_target(path, target, names, "a column")
    name = names[number - 1 if number > 0 else number]
    return name, f"column {number}" if name != target else ""


def _is_numeric(column: pd.Series) -> bool:
    """Whether a column has a numeric dtype."""
    import pandas as pd

    return pd.api.types.is_numeric_dtype(column.dtype)


def target_values(
    column: pd.Series, path: Path, task: Task, source: TableSource, written: NDArray[Any] | None
) -> NDArray[Any]:
    """The values of the target column, checked.

    Parameters
    ----------
    column : Series
    path : Path
    task : {"classification", "regression"}
    source : TableSource
    written : object array or None
        The column's text, as labels are written; None for a column of numbers.

    Returns
    -------
    array
        Labels (bool, int64, uint64 or text), or float64 for a regression.

    Raises
    ------
    InputError
        A label is missing, or a number is unusable.
    """
    missing = column.isna()
    if missing.any():
        row = column.index[int(np.argmax(missing))]
        ways = ["fill them in", f"drop the rows with {opt('missing', 'drop')}"]
        if word := source.cell(str(column.name), row):
            ways.append(f"take {short(word)} as a label with {opt('no_missing_values')}")
        raise InputError(
            f"{opt('target')} must have a label in every row, {short(column.name)} of '{path}' is "
            f"missing in {missing.sum()} of {len(column)} rows, first in {source.where(row)}; "
            f"{', '.join(ways[:-1])}, or {ways[-1]}"
        )
    if task == "classification":
        return _labels(column, path, source, written)
    numbers, way_out = to_numbers(column), "name another column"
    rows, rule = np.flatnonzero(np.isnan(numbers)), "numbers for a regression"
    if not len(rows):
        rows, rule = np.flatnonzero(np.abs(numbers) > LARGEST), "within ±3.4e38 for a regression"
        way_out = "divide the column by a constant, or drop the row"
    if not len(rows) and 0 < np.ptp(numbers) < SMALL:
        rows, rule = np.array([np.argmax(numbers)]), f"numbers that differ by {SMALL:g} or more"
        way_out = "multiply the column by a constant"
    if len(rows):
        raise InputError(
            f"{opt('target')} must be {rule}, {short(column.name)} of '{path}' has "
            f"{short(column.iloc[int(rows[0])])} in {source.where(column.index[int(rows[0])])}; "
            f"{way_out}"
        )
    return numbers


def _task_of(column: pd.Series) -> Task:
    """The task that a target suggests: few whole numbers, or no numbers, are classes."""
    is_amount = _is_numeric(column) and column.dtype.kind != "b"
    are_classes = column.nunique() <= FEW and are_whole(to_numbers(column)) if is_amount else True
    return "classification" if are_classes else "regression"


def _labels(
    column: pd.Series, path: Path, source: TableSource, written: NDArray[Any] | None
) -> NDArray[Any]:
    """Labels as bool, integers or text; never as objects, which have no stable bytes.

    Raises
    ------
    InputError
        A label is a number with a fraction, or too large to be exact.
    """
    if written is not None and (column.dtype.kind != "f" or are_whole(column.to_numpy())):
        labels = written.astype(str)
        if all(_WHOLE.fullmatch(label) for label in np.unique(labels)):
            for integer_type in (np.int64, np.uint64):
                with suppress(OverflowError, ValueError):
                    return labels.astype(integer_type)
        return labels
    label_type = {"b": np.bool_, "i": np.int64, "u": np.uint64}.get(column.dtype.kind)
    if label_type is not None:
        return column.to_numpy(dtype=label_type)
    if column.dtype.kind != "f":
        return np.array([str(label) for label in column])
    values = column.to_numpy(dtype=np.float64)
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero((values % 1 != 0) | (np.abs(values) >= 2**53))
    if len(rows):
        raise InputError(
            f"{opt('target')} must hold class labels, {short(column.name)} of '{path}' has "
            f"{float(values[rows[0]])} in {source.where(column.index[rows[0]])}; name a "
            f"column of classes, or round it to classes first"
        )
    return values.astype(np.int64)
