"""A run's tables, held against the rows they are made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype, pandas_dtype

from pipelines.errors import InputError
from pipelines.run_folder.columns import Column, Row
from pipelines.run_folder.schema import damaged, one_line

MOST_CELLS = 10**8  # rows times columns


def read_table(path: Path, rows: type[Row]) -> pd.DataFrame | None:
    """Return a Parquet or CSV file of such rows; None where there is none.

    Raises
    ------
    InputError
        It cannot be read, lacks a column, or a value breaks the rule of its column.
    """
    if not path.is_file():
        return None
    is_csv = path.suffix == ".csv"
    try:
        table = pd.read_csv(path) if is_csv else _read_parquet(path)
        return as_table(table, rows)
    except InputError:
        raise
    # What pandas and pyarrow make of damaged content is of many classes.
    except Exception as error:
        rule = f"a {'CSV' if is_csv else 'Parquet'} table with {', '.join(rows.required())}"
        raise damaged(path, rule, one_line(error)) from None


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        found = file.metadata
        if found.num_rows * found.num_columns > MOST_CELLS:
            raise ValueError(f"{found.num_rows:,} rows are more than a run writes")
    return pd.read_parquet(path)


def as_table(table: pd.DataFrame, rows: type[Row]) -> pd.DataFrame:
    """Return the table in the dtypes of its rows, and what else it has.

    Raises
    ------
    ValueError
        A column is missing, or a value breaks the rule of its column.
    """
    if missing := [name for name in rows.required() if name not in table.columns]:
        raise ValueError(f"no {', '.join(missing)}")
    if not table.columns.is_unique:
        raise ValueError("two columns of one name")
    columns = {name: one for name, one in rows.columns().items() if name in table.columns}
    return table.assign(**{name: _column(table[name], one) for name, one in columns.items()})


def _column(values: pd.Series, column: Column) -> pd.Series:
    """Return the values in the dtype of their column."""
    name = values.name
    if not column.may_lack and values.isna().any():
        raise ValueError(f"{name} has a missing value")
    if column.dtype == "str":
        if not values.map(lambda value: isinstance(value, str)).all():
            raise ValueError(f"{name} is not text")
        return values
    if column.dtype == "bool":
        if not is_bool_dtype(values):
            raise ValueError(f"{name} is not true or false")
        return values
    if not len(values) or (column.may_lack and values.isna().all()):
        return values.astype(pandas_dtype(column.dtype))
    if not is_numeric_dtype(values) or is_bool_dtype(values):
        raise ValueError(f"{name} is not a number")
    numbers = values.astype(pandas_dtype(column.dtype))
    found = numbers.dropna()
    if column.dtype == "float64" and not np.isfinite(found).all():
        raise ValueError(f"{name} is not finite")
    rules = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    for rule, bound in column.bounds.items():
        if not getattr(found, rule)(bound).all():
            raise ValueError(f"{name} must be {rules[rule]} {bound:g}")
    return numbers
