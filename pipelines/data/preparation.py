"""Preprocessing of tables with mixed columns into a matrix; a ``Scaling`` that learns more.

Whoever scales rows takes either: ``fit`` on training rows, then ``transform`` any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pipelines.data.scaling import FittedScaling
from pipelines.data.tables import Kinds, Missing

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.data.tables.preprocess import TablePreprocessor

    Fitted = FittedScaling | TablePreprocessor
else:  # scikit-learn is not imported for a name
    Fitted = Any


@dataclass(frozen=True)
class Preparation:
    """An unfitted preprocessing step for a table: imputation, encoding, standardisation.

    Attributes
    ----------
    kinds : Kinds
    missing : see ``read_raw_table``
    layout : names of the matrix's columns, those of all training rows; see ``TablePreprocessor``
    """

    kinds: Kinds
    missing: Missing
    layout: tuple[str, ...] = ()
    kind: Literal["table"] = "table"
    learns: bool = True

    def fit(self, X: pd.DataFrame) -> TablePreprocessor:
        """Learn from training rows alone, of ``RawTable.X``."""
        from pipelines.data.tables.preprocess import TablePreprocessor

        return TablePreprocessor(self.kinds, missing=self.missing, layout=self.layout).fit(X)

    def describe(self) -> dict[str, Any]:
        """Return the JSON-serialisable metadata of the preprocessing."""
        return {
            "kind": self.kind,
            "fitted_on": "training rows of each fold",
            "missing": self.missing,
            "columns": list(self.layout),
        }


def fitted_from(arrays: dict[str, np.ndarray]) -> Fitted:
    """Return what ``arrays`` of a fitted one gave.

    Raises
    ------
    KeyError, TypeError, ValueError
        Something is missing, or was not stored by this program.
    """
    if "preparation" in arrays:
        from pipelines.data.tables.preprocess import TablePreprocessor

        return TablePreprocessor.from_arrays(arrays)
    return FittedScaling(arrays["scaling.center"], arrays["scaling.scale"])
