"""Preprocessing of tables with mixed columns into a matrix, in place of a ``Scaling``.

Both have the same interface: ``fit`` on training rows, then ``transform`` any rows.
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
else:  # importing scikit-learn for a type would be slow
    Fitted = Any


@dataclass(frozen=True)
class Preparation:
    """An unfitted preprocessing step for a table: imputation, encoding, standardisation.

    Attributes
    ----------
    kinds : Kinds
        Which columns are numbers, which are categories.
    missing : {"impute", "drop", "refuse"}
        See ``read_raw_table``.
    layout : tuple of str
        Names of the matrix's columns, as all training rows give them; see ``TablePreprocessor``.
    """

    kinds: Kinds
    missing: Missing
    layout: tuple[str, ...] = ()
    kind: Literal["table"] = "table"
    learns: bool = True

    def fit(self, X: pd.DataFrame) -> TablePreprocessor:
        """A preprocessor fitted on these training rows, given as ``RawTable.X``."""
        from pipelines.data.tables.preprocess import TablePreprocessor

        return TablePreprocessor(self.kinds, missing=self.missing, layout=self.layout).fit(X)

    def describe(self) -> dict[str, Any]:
        """The JSON-serialisable metadata of the preprocessing."""
        return {
            "kind": self.kind,
            "fitted_on": "training rows of each fold",
            "missing": self.missing,
            "columns": list(self.layout),
        }


def fitted_from(arrays: dict[str, np.ndarray]) -> Fitted:
    """Rebuild a fitted scaling or preprocessor from what its method ``arrays`` returned.

    Raises
    ------
    KeyError, TypeError, ValueError
        Something is missing, or was not stored by this program.
    """
    if "preparation" in arrays:
        from pipelines.data.tables.preprocess import TablePreprocessor

        return TablePreprocessor.from_arrays(arrays)
    return FittedScaling(arrays["scaling.center"], arrays["scaling.scale"])
