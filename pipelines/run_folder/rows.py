"""The schema of a row: for a line of the journal, and for the columns of a table.

A command declares its own. A column that may be None lacks its value where a fit failed, or in
runs begun before there was such a column.
"""

from __future__ import annotations

from types import NoneType
from typing import Annotated, get_args, get_origin

from pydantic import Field

from pipelines.run_folder.schema import Part, Scalar

DTYPES = {int: "int64", float: "float64", str: "str", bool: "bool"}


class Row(Part):
    """A row of any table: nothing in it has parts."""

    __pydantic_extra__: dict[str, Scalar] = Field(init=False)

    @classmethod
    def dtypes(cls) -> dict[str, str]:
        """Return the dtype of every column of a table of such rows."""
        found = {}
        for name, field in cls.model_fields.items():
            kinds = get_args(field.annotation) or (field.annotation,)
            plain = {get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in kinds}
            (dtype,) = (dtype for kind, dtype in DTYPES.items() if kind in plain)
            found[name] = "Int64" if dtype == "int64" and NoneType in plain else dtype
        return found
