"""A run's tables, held against the rows they are made of."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, create_model

from pipelines.run_folder.columns import Row
from pipelines.run_folder.schema import damaged, one_line


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
        table = pd.read_csv(path) if is_csv else pd.read_parquet(path)
        return as_table(table, rows)
    # What pandas and pyarrow make of damaged content is of many classes.
    except Exception as error:
        rule = f"a {'CSV' if is_csv else 'Parquet'} table with {', '.join(rows.required())}"
        raise damaged(path, rule, one_line(error)) from None


def as_table(table: pd.DataFrame, rows: type[Row]) -> pd.DataFrame:
    """Return the table in the dtypes of its rows, and what else it has.

    Raises
    ------
    ValueError
        A column is missing, or a value breaks the rule of its column.
    """
    if not table.columns.is_unique:
        raise ValueError("two columns of one name")
    known = {name: table[name].convert_dtypes() for name in rows.model_fields if name in table}
    values = {
        name: column.astype(object).where(column.notna(), None).tolist()
        for name, column in known.items()
    }
    checked, dtypes = _columns_of(rows).model_validate(values), rows.dtypes()
    columns = {name: pd.Series(getattr(checked, name), table.index, dtypes[name]) for name in known}
    return table.assign(**columns)


@cache
def _columns_of(rows: type[Row]) -> type[BaseModel]:
    """Return the schema of a table of rows: for each field of a row a list of such values."""
    fields: dict[str, Any] = {
        name: (
            list[Annotated[field.annotation, name, *field.metadata]],  # type: ignore[name-defined]
            ... if field.is_required() else None,
        )
        for name, field in rows.model_fields.items()
    }
    return create_model(rows.__name__, __config__=ConfigDict(strict=True), **fields)
