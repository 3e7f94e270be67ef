"""Columns of numbers and categories as a matrix, learned from training rows alone.

The steps are those of scikit-learn; this module chooses them, names their columns and stores them.
"""

from __future__ import annotations

import json
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
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

from pipelines.data.model_file import DAMAGE, load_skops, skops_io
from pipelines.data.tables.kinds import Kinds
from pipelines.data.tables.table import MISSING, Missing
from pipelines.data.tables.words import short
from pipelines.errors import InputError, opt

__all__ = ["LEARNED", "TablePreprocessor"]

LEARNED = "preparation"  # name of an array in a model file
# Types besides those that skops trusts by default; none of them runs code from a file.
TRUSTED = ["numpy.dtype"]
# scikit-learn sets warning filters while it transforms and restores those it found. If two threads
# do so at once, one may restore the other's filters, which then stay for good.
_one_at_a_time = threading.Lock()


class TablePreprocessor(TransformerMixin, BaseEstimator):
    """Numbers imputed and, by default, standardised; categories one-hot encoded.

    A missing number becomes the median of the training rows, and a column of 0 and 1 marks it;
    there is one such column for each column with a missing cell in the training rows. A category
    becomes a column for each level of the training rows, including missing; a level that these rows
    lack is 0 in all of these columns.

    Parameters
    ----------
    kinds : Kinds
    scale : bool
        Whether numbers are brought to mean 0 and standard deviation 1 over the training rows:
        kernels, networks and neighbours need it, trees do not.
    missing : {"impute", "drop", "refuse"}
        With "drop" or "refuse" a missing number is an error, also in ``transform``.
    layout : tuple of str
        Names of the columns that ``transform`` gives; by default the columns of the training rows.
        A column whose level or gap the training rows lack is then 0 in every row, so that all folds
        have the same width; it adds nothing to a distance or a product.

    Attributes
    ----------
    columns_ : ColumnTransformer
        The fitted steps.
    """

    def __init__(
        self,
        kinds: Kinds,
        scale: bool = True,
        missing: Missing = "impute",
        layout: tuple[str, ...] = (),
    ) -> None:
        self.kinds = kinds
        self.scale = scale
        self.missing = missing
        self.layout = layout

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Learn medians, levels and scales from training rows."""
        chosen = self._chosen(X)
        steps: list[Any] = []
        if self.kinds.numbers:
            imputer: Any = "passthrough"
            if self.missing == "impute":
                imputer = SimpleImputer(strategy="median", keep_empty_features=True)
            scaler = StandardScaler() if self.scale else "passthrough"
            pipeline = Pipeline([("impute", imputer), ("scale", scaler)])
            steps.append(("numbers", pipeline, list(self.kinds.numbers)))
            if self.missing == "impute":
                indicator = MissingIndicator(features="missing-only", error_on_new=False)
                steps.append(("missing", indicator, list(self.kinds.numbers)))
        if self.kinds.categories:
            encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32)
            steps.append(("categories", encoder, list(self.kinds.categories)))
        columns = ColumnTransformer(steps, sparse_threshold=0)
        with _one_at_a_time:
            self.columns_ = columns.fit(chosen)
        return self

    def transform(self, X: pd.DataFrame) -> NDArray[np.float32]:
        """Rows as numbers.

        Parameters
        ----------
        X : DataFrame
            As for ``fit``; columns are found by name, others are ignored.

        Returns
        -------
        float32 array of shape (n_rows, n_columns_out), C-contiguous
        """
        check_is_fitted(self)
        chosen = self._chosen(X)
        with _one_at_a_time:
            values = self.columns_.transform(chosen)
        if not self.layout:
            return np.ascontiguousarray(values, dtype=np.float32)
        matrix = np.zeros((len(X), len(self.layout)), dtype=np.float32)
        matrix[:, [self.layout.index(name) for name in self._names()]] = values
        return matrix

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Column names of ``transform``, such as ``age``, ``age missing``, ``sex=F``."""
        check_is_fitted(self)
        return np.array(self.layout or self._names(), dtype=object)

    def _names(self) -> list[str]:
        """Column names of the fitted steps, before they are brought to ``layout``."""
        names = list(self.kinds.numbers)
        fitted = self.columns_.named_transformers_
        if "missing" in fitted:
            gaps = fitted["missing"].features_
            names += [f"{self.kinds.numbers[index]} missing" for index in gaps]
        if "categories" in fitted:
            for name, levels in zip(
                self.kinds.categories, fitted["categories"].categories_, strict=True
            ):
                names += [
                    f"{name} missing" if pd.isna(level) else f"{name}={level}" for level in levels
                ]
        return names

    def _chosen(self, X: pd.DataFrame) -> pd.DataFrame:
        """The feature columns, checked for missing cells unless these are imputed."""
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

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays to store in a model file, by skops, not by pickle."""
        check_is_fitted(self)
        about = {**asdict(self.kinds), "scale": self.scale, "missing": self.missing}
        learned = skops_io().dumps(
            {"about": json.dumps(about), "columns": self.columns_}, compression=zipfile.ZIP_DEFLATED
        )
        layout = json.dumps(self.layout or self._names()).encode()
        return {
            LEARNED: np.frombuffer(learned, dtype=np.uint8),
            f"{LEARNED}.layout": np.frombuffer(layout, dtype=np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Rebuild a preprocessor from what ``arrays`` returned; foreign types are refused.

        Raises
        ------
        KeyError, ValueError
            This class did not store it.
        """
        model_bytes, layout = arrays[LEARNED].tobytes(), arrays[f"{LEARNED}.layout"].tobytes()
        try:
            content = load_skops(model_bytes, TRUSTED)
            about, names = json.loads(content["about"]), tuple(map(str, json.loads(layout)))
            preprocessor = cls(
                Kinds.from_record(about), bool(about["scale"]), about["missing"], names
            )
            preprocessor.columns_ = content["columns"]
            if preprocessor.missing not in MISSING or not isinstance(
                preprocessor.columns_, ColumnTransformer
            ):
                raise ValueError("its parts do not belong together")
            check_is_fitted(preprocessor.columns_)
            if not set(preprocessor._names()) <= set(names):
                raise ValueError("its columns and its layout do not belong together")
        except DAMAGE as error:
            raise ValueError(f"its table is not described as this program does ({error})") from None
        return preprocessor
