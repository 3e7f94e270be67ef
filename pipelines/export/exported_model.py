"""The interface of exported models, and the parts that they have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.data.preparation import Fitted
from pipelines.data.scaling import FittedScaling
from pipelines.errors import InputError, opt
from pipelines.export.check import Answers
from pipelines.export.onnx_graph import OnnxGraph
from pipelines.run_folder.record import Record


@dataclass(frozen=True, eq=False)
class Exported(ABC):
    """The model of a run, in the forms in which it can be exported.

    Attributes
    ----------
    model : estimator
        As ``Job.load_model`` gives it.
    record : Record
        ``run.json`` of the run.
    images : bool
        Whether rows are pixels (uint8), and not numbers or features.
    """

    model: Any
    record: Record
    images: bool

    @abstractmethod
    def answers(self, X: Any) -> Answers:
        """The predictions of the model itself, for rows as the run read them."""

    @abstractmethod
    def graph(self) -> OnnxGraph:
        """The model as an ONNX graph, with scaling and preparation."""

    @abstractmethod
    def plain(self, X: Any) -> tuple[Any, list[str]]:
        """The model in scikit-learn's own classes alone, and notes on how it differs.

        Parameters
        ----------
        X : array or frame
            Rows on which labels can be tried.
        """

    @abstractmethod
    def write_arrays(self, path: Path, about: dict[str, Any]) -> None:
        """Write the model's arrays, and metadata, to a safetensors file."""

    @abstractmethod
    def read_arrays(self, path: Path) -> Exported:
        """Read a model from a file that ``write_arrays`` wrote."""

    def own_rows(self) -> np.ndarray | None:
        """Rows that the model itself has, for a check without the data; None for most models."""
        return None

    @property
    def note(self) -> str:
        """A line on the parts of the run's predictions that are left out; empty if none are."""
        return ""


def as_class_columns(values: np.ndarray) -> np.ndarray:
    """Decision values with a column for each class; a machine of two classes has one value."""
    return np.column_stack([-values, values]) if values.ndim == 1 else values


def plain_preparation(
    scaling: Fitted | None, n_features: int, images: bool
) -> list[tuple[str, Any]]:
    """Steps of scikit-learn's own classes that do what a fitted scaling or preparation does.

    Parameters
    ----------
    scaling : Fitted or None
    n_features : int
    images : bool
        Whether rows are pixels.

    Returns
    -------
    list of (name, transformer)
        The steps for a ``Pipeline``.

    Raises
    ------
    InputError
        The columns of a table differ from the columns of its training rows.
    """
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    if scaling is None:
        return []
    if not isinstance(scaling, FittedScaling):
        names, layout = scaling._names(), [*scaling.layout]
        if layout not in ([], names):
            raise InputError(
                f"{opt('to', 'sklearn')} needs a table whose columns are those of the training "
                f"rows, got {len(layout)} for {len(names)}; use {opt('to', 'onnx')}"
            )
        # This program predicts on float32 rows; rounding must be the same.
        single = FunctionTransformer(np.asarray, kw_args={"dtype": "float32"})
        return [("prepare", scaling.columns_), ("single", single)]
    # As in numpy: images are scaled by a float in single precision, by an array in double.
    single = images and isinstance(scaling.center, float)
    dtype = np.float32 if single else np.float64
    scaler = StandardScaler()
    scaler.mean_ = np.broadcast_to(np.asarray(scaling.center, dtype), n_features).copy()
    scaler.scale_ = np.broadcast_to(np.asarray(scaling.scale, dtype), n_features).copy()
    scaler.var_, scaler.n_samples_seen_ = scaler.scale_**2, 1
    scaler.n_features_in_ = n_features
    if not images:
        return [("scale", scaler)]
    first, last = (
        FunctionTransformer(np.asarray, kw_args={"dtype": name}) for name in ("float32", "float64")
    )
    return [("single", first), ("scale", scaler), ("double", last)]
