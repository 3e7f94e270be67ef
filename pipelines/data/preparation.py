"""Preprocessing of tables with mixed columns into a matrix; a ``Scaling`` that learns more.

Whoever scales rows takes either: ``fit`` on training rows, then ``transform`` any.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from pipelines.data.scaling import FittedScaling
from pipelines.data.tables import Kinds, Missing, make_preprocessor

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.data.tables.preprocess import TablePreprocessor

LEARNED = "preparation"  # of an array in a model's file


@dataclass(frozen=True)
class Preparation:
    """An unfitted preprocessing step for a table: imputation, encoding, standardisation.

    Attributes
    ----------
    kinds : Kinds
    missing : see ``read_raw_table``
    layout : names of the matrix's columns
        Those of all training rows. Fitted on a part of them, a column whose level or gap the
        part lacks is 0 in every row, so that all folds have one width; such a column adds
        nothing to a distance or a product.
    """

    kinds: Kinds
    missing: Missing
    layout: tuple[str, ...] = ()
    kind: Literal["table"] = "table"
    learns: bool = True

    def laid_out(self, X: pd.DataFrame) -> Self:
        """Return the same with the columns that these rows, all training rows, give."""
        names = make_preprocessor(self.kinds, missing=self.missing).fit(X).get_feature_names_out()
        return replace(self, layout=tuple(names.tolist()))

    def fit(self, X: pd.DataFrame) -> FittedPreparation:
        """Learn from training rows alone, of ``RawTable.X``."""
        return FittedPreparation(
            make_preprocessor(self.kinds, missing=self.missing).fit(X), self.layout
        )

    def describe(self) -> dict[str, Any]:
        """Return the JSON-serialisable metadata of the preprocessing."""
        return {
            "kind": self.kind,
            "fitted_on": "training rows of each fold",
            "missing": self.missing,
            "columns": list(self.layout),
        }


@dataclass(frozen=True, eq=False)
class FittedPreparation:
    """A fitted preprocessing step, which transforms rows.

    Attributes
    ----------
    learned : TablePreprocessor
    layout : names of the columns that ``transform`` gives
    """

    learned: TablePreprocessor
    layout: tuple[str, ...]

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        place = {name: i for i, name in enumerate(self.layout)}
        names = self.learned.get_feature_names_out()
        return np.array([place[name] for name in names], dtype=np.intp)

    def transform(self, X: pd.DataFrame) -> NDArray[np.float32]:
        """Return rows as float32 array of shape (n_rows, len(layout)), C-contiguous."""
        matrix = np.zeros((len(X), len(self.layout)), dtype=np.float32)
        matrix[:, self._places] = self.learned.transform(X)
        return matrix

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to store in a model file: bytes of skops and of JSON."""
        layout = json.dumps(self.layout).encode()
        return {
            LEARNED: np.frombuffer(self.learned.to_bytes(), dtype=np.uint8),
            f"{LEARNED}.layout": np.frombuffer(layout, dtype=np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild the step from what ``arrays`` returned.

        Raises
        ------
        KeyError, TypeError, ValueError
            Something is missing, or was not stored by this program.
        """
        from pipelines.data.tables.preprocess import TablePreprocessor

        layout = tuple(map(str, json.loads(arrays[f"{LEARNED}.layout"].tobytes())))
        made = cls(TablePreprocessor.from_bytes(arrays[LEARNED].tobytes()), layout)
        if not set(made.learned.get_feature_names_out()) <= set(layout):
            raise ValueError("its columns and its layout do not belong together")
        return made


Fitted = FittedScaling | FittedPreparation


def fitted_from(arrays: dict[str, np.ndarray], prefix: str = "") -> Fitted:
    """Return the scaling in a model's file; names of arrays begin with ``prefix``."""
    own = {
        name.removeprefix(prefix): one for name, one in arrays.items() if name.startswith(prefix)
    }
    if LEARNED in own:
        return FittedPreparation.from_arrays(own)
    return FittedScaling(own["scaling.center"], own["scaling.scale"])
