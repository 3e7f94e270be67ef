"""What every exported model has, whatever its kind."""

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
from pipelines.export.graph import OnnxGraph
from pipelines.run_folder.record import Record


@dataclass(frozen=True, eq=False)
class Exported(ABC):
    """A run's model on its way to other programs.

    Attributes
    ----------
    model : as ``Job.load_model`` gives it
    record : of the run
    images : whether rows are pixels, uint8, and no numbers or features
    """

    model: Any
    record: Record
    images: bool

    @abstractmethod
    def answers(self, X: Any) -> Answers:
        """What the model itself says of rows as the run read them."""

    @abstractmethod
    def graph(self) -> OnnxGraph:
        """The model as a graph of ONNX, scaling and preparation included."""

    @abstractmethod
    def plain(self, X: Any) -> tuple[Any, list[str]]:
        """The model by scikit-learn's own classes alone, and what is to be said of that."""

    @abstractmethod
    def write_arrays(self, path: Path, about: dict[str, Any]) -> None:
        """Write arrays and metadata as safetensors."""

    @abstractmethod
    def read_arrays(self, path: Path) -> Exported:
        """The model as it is read from what ``write_arrays`` wrote."""

    def own_rows(self) -> np.ndarray | None:
        """Rows that the model itself holds, for where the data are gone; None of most."""
        return None

    @property
    def note(self) -> str:
        """What of the run's answers is left out, in a line; empty for nothing."""
        return ""


def as_class_columns(values: np.ndarray) -> np.ndarray:
    """Decision values with a column for each class, as ``predict`` writes them."""
    return np.column_stack([-values, values]) if values.ndim == 1 else values


def plain_preparation(
    scaling: Fitted | None, n_features: int, images: bool
) -> list[tuple[str, Any]]:
    """Steps of scikit-learn's own classes that do what a fitted scaling does."""
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
        # Rounded as this program does.
        single = FunctionTransformer(np.asarray, kw_args={"dtype": "float32"})
        return [("prepare", scaling.columns_), ("single", single)]
    # As numpy has it: constants, of images, in single precision, arrays in double precision.
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
