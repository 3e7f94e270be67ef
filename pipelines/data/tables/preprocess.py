"""Columns of numbers and categories as a matrix: what is learned from training rows alone."""

from __future__ import annotations

import json
import zipfile
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from pipelines.data.model_file import DAMAGE
from pipelines.data.tables.kinds import Kinds
from pipelines.data.tables.table import MISSING, Missing
from pipelines.data.tables.words import short
from pipelines.errors import InputError, opt

# Types beyond those that skops knows to be harmless; none runs code of a file.
TRUSTED = ["numpy.dtype"]


class TablePreprocessor(TransformerMixin, BaseEstimator):
    """Numbers imputed and, if asked for, standardised; categories one-hot.

    A missing number becomes the median of the training rows, and a column of 0 and 1 says
    where; there is one for each column with a missing cell in the training rows. A category
    becomes a column for each level of the training rows, missing among them; a level that
    they lack is 0 in all of these.

    Parameters
    ----------
    kinds : Kinds
    scale : whether numbers are brought to mean 0 and deviation 1 of the training rows
    missing : "impute"; with "drop" or "refuse" a missing number is an error, in ``transform`` too

    Attributes
    ----------
    columns_ : ColumnTransformer, fitted
    """

    def __init__(self, kinds: Kinds, scale: bool = True, missing: Missing = "impute") -> None:
        self.kinds = kinds
        self.scale = scale
        self.missing = missing

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Learn medians, levels and scales.

        Parameters
        ----------
        X : what ``RawTable.X`` is, or rows of it
        """
        chosen = self._chosen(X)
        steps: list[Any] = []
        if self.kinds.numbers:
            steps.append(("numbers", self._of_numbers(), list(self.kinds.numbers)))
            if self.missing == "impute":
                indicator = MissingIndicator(features="missing-only", error_on_new=False)
                steps.append(("missing", indicator, list(self.kinds.numbers)))
        if self.kinds.categories:
            encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32)
            steps.append(("categories", encoder, list(self.kinds.categories)))
        self.columns_ = ColumnTransformer(steps, sparse_threshold=0).fit(chosen)
        return self

    def _of_numbers(self) -> Any:
        imputer = (
            SimpleImputer(strategy="median", keep_empty_features=True)
            if self.missing == "impute"
            else "passthrough"
        )
        return Pipeline(
            [("impute", imputer), ("scale", StandardScaler() if self.scale else "passthrough")]
        )

    def transform(self, X: pd.DataFrame) -> NDArray[np.float32]:
        """Return rows as numbers.

        Parameters
        ----------
        X : as ``fit`` takes it; columns are found by name, others are not looked at

        Returns
        -------
        float32 array of shape (n_rows, n_columns_out), C-contiguous
        """
        check_is_fitted(self)
        return np.ascontiguousarray(self.columns_.transform(self._chosen(X)), dtype=np.float32)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of ``transform``: ``age``, ``age missing``, ``sex=F``."""
        check_is_fitted(self)
        names = list(self.kinds.numbers)
        fitted = self.columns_.named_transformers_
        if "missing" in fitted:
            gaps = fitted["missing"].features_
            names += [f"{self.kinds.numbers[place]} missing" for place in gaps]
        if "categories" in fitted:
            for name, levels in zip(
                self.kinds.categories, fitted["categories"].categories_, strict=True
            ):
                names += [f"{name} missing" if pd.isna(one) else f"{name}={one}" for one in levels]
        return np.array(names, dtype=object)

    def _chosen(self, X: pd.DataFrame) -> pd.DataFrame:
        chosen = X[[*self.kinds.numbers, *self.kinds.categories]]
        if self.missing != "impute":
            gaps = chosen.isna().any(axis=1)
            if gaps.any():
                name = chosen.columns[chosen.isna().any()][0]
                raise InputError(
                    f"{opt('dataset')} must have a value in every cell, column {short(name)} has "
                    f"none in data row {int(np.argmax(gaps)) + 1}, and missing cells were not "
                    f"learned; train with {opt('missing', 'impute')}"
                )
        return chosen

    def to_bytes(self) -> bytes:
        """Serialise the fitted state with skops, without pickle; ``from_bytes`` reads it."""
        from skops.io import dumps

        check_is_fitted(self)
        about = {**self.kinds.describe(), "scale": self.scale, "missing": self.missing}
        return dumps(
            {"about": json.dumps(about), "columns": self.columns_}, compression=zipfile.ZIP_DEFLATED
        )

    @classmethod
    def from_bytes(cls, stored: bytes) -> Self:
        """Read what ``to_bytes`` gave; of a foreign type nothing is made.

        Raises
        ------
        ValueError
            It is nothing that this class stored.
        """
        from skops.io import loads
        from skops.io.exceptions import UntrustedTypesFoundException

        try:
            found = loads(stored, trusted=TRUSTED)
            about = json.loads(found["about"])
            made = cls(Kinds.from_record(about), bool(about["scale"]), about["missing"])
            made.columns_ = found["columns"]
            if made.missing not in MISSING or not isinstance(made.columns_, ColumnTransformer):
                raise ValueError("its parts do not belong together")
            check_is_fitted(made.columns_)
        except (UntrustedTypesFoundException, *DAMAGE, zipfile.BadZipFile) as error:
            raise ValueError(f"its table is not described as this program does ({error})") from None
        return made
