"""The schema of a row, for a line of the journal and for the columns of a table.

Each command declares its own. A column that may be None has no value where a fit failed. A
column that is added needs a default, such as None: runs begun before it existed have no value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic import Field

from pipelines.run_folder.schema import RecordPart, Scalar

DTYPES = {int: "int64", float: "float64", str: "str", bool: "bool"}  # of columns, by field type


class Metric(NamedTuple):
    """A number of a row, as experiment trackers log it.

    Attributes
    ----------
    name : str
    value : float
        Finite.
    step : int
        Position on its curve.
    series : str
        What the curve belongs to, such as one of several trainings; empty for the run itself.
    time : float
        When it was known, in seconds since the epoch.
    """

    name: str
    value: float
    step: int
    series: str = ""
    time: float = 0.0


class Row(RecordPart):
    """A row of any table; all values are scalars."""

    __pydantic_extra__: dict[str, Scalar] = Field(init=False)

    @classmethod
    def dtypes(cls) -> dict[str, str]:
        """The dtype of every column of a table of such rows."""
        dtypes = {}
        for name, field in cls.model_fields.items():
            annotations = get_args(field.annotation) or (field.annotation,)
            plain_types = {
                get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
                for annotation in annotations
            }
            (dtype,) = (
                dtype for python_type, dtype in DTYPES.items() if python_type in plain_types
            )
            dtypes[name] = "Int64" if dtype == "int64" and NoneType in plain_types else dtype
        return dtypes

    @classmethod
    def metrics(cls, row: Mapping[str, Any], number: int) -> Iterator[Metric]:
        """The metrics that trackers log for a row: by default each float column, by its name.

        Parameters
        ----------
        row : mapping
            As in the journal.
        number : int
            Number of the row, from 0, in the order of completion.
        """
        for name, dtype in cls.dtypes().items():
            if dtype == "float64" and row.get(name) is not None:
                yield Metric(name, float(row[name]), number)

    @classmethod
    def candidate_of(cls, row: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Name and hyper-parameters of a row's candidate; None if it is not a fit of one."""
        return None
