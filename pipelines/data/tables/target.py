"""Find the target column, and whether it holds classes or numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.data.tables.files import no_target
from pipelines.data.tables.kinds import LARGEST, are_whole, to_numbers
from pipelines.data.tables.words import listed, short
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import pandas as pd

Task = Literal["classification", "regression"]
FEW = 20  # different whole numbers that may be classes


def choose_target(
    frame: pd.DataFrame, target: str | None, path: Path, task: Task | None = None
) -> tuple[str, str]:
    """Return the column to predict, and how it was chosen where it was not named.

    Parameters
    ----------
    frame : the table
    target : a column's name; or its number, counted from 1, or from the end with -1
        A name goes before a number. None takes the last column if it is text or has few
        values, for ``task="regression"`` if it is numbers.

    Raises
    ------
    InputError
        There is no such column, or none was named and the last does not offer itself.
    """
    names = list(frame.columns)
    if target is None:
        last, why = names[-1], ""
        column, is_numeric = frame[last], _is_numeric(frame[last])
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
                f"choose one of {listed(names)}"
            )
        return last, f"the last column, {why}"
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
    import pandas as pd

    return pd.api.types.is_numeric_dtype(column.dtype)


def values_of(column: pd.Series, path: Path, task: Task | None = None) -> tuple[NDArray[Any], Task]:
    """Return the values of the target column, as classes or as numbers.

    Parameters
    ----------
    column : of the target
    path : the file, for messages
    task : by default text, truth values and few whole numbers are classes

    Returns
    -------
    y : labels (bool, int64, uint64 or text) or float64, of shape (n_rows,)
    task : "classification" or "regression"

    Raises
    ------
    InputError
        A value is missing, or does not go with the task.
    """
    missing = column.isna()
    if missing.any():
        raise InputError(
            f"{opt('target')} must have a label in every row, {short(column.name)} of '{path}' is "
            f"missing in {missing.sum()} of {len(column)} rows, first in data row "
            f"{int(np.argmax(missing)) + 1}; fill them in, or drop the rows with "
            f"{opt('missing', 'drop')}"
        )
    if task is None:
        is_amount = _is_numeric(column) and column.dtype.kind != "b"
        few = column.nunique() <= FEW and are_whole(to_numbers(column)) if is_amount else True
        task = "classification" if few else "regression"
    if task == "classification":
        return _labels(column, path), task
    numbers = to_numbers(column)
    bad = np.flatnonzero(~(np.abs(numbers) <= LARGEST))
    if len(bad):
        raise InputError(
            f"{opt('target')} must be numbers for a regression, {short(column.name)} of '{path}' "
            f"has {short(column.iloc[int(bad[0])])} in data row {int(bad[0]) + 1}; name another "
            f"column"
        )
    return numbers, task


def _labels(column: pd.Series, path: Path) -> NDArray[Any]:
    """Return labels as bool, integers or text; never as objects, which have no stable bytes."""
    plain = {"b": np.bool_, "i": np.int64, "u": np.uint64}.get(column.dtype.kind)
    if plain is not None:
        return column.to_numpy(dtype=plain)
    if column.dtype.kind != "f":
        return np.array([str(label).strip() for label in column])
    values = column.to_numpy(dtype=np.float64)
    with np.errstate(invalid="ignore"):
        broken = np.flatnonzero((values % 1 != 0) | (np.abs(values) >= 2**53))
    if len(broken):
        raise InputError(
            f"{opt('target')} must hold class labels, {short(column.name)} of '{path}' has "
            f"{float(values[broken[0]])} in data row {int(broken[0]) + 1}; name a column of "
            f"classes, or round it to classes first"
        )
    return values.astype(np.int64)
