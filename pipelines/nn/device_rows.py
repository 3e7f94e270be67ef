"""A data set in a device's memory, from which every batch is gathered by index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipelines.data.placement import FoldedData, cached
from pipelines.data.scaling import FittedScaling

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Rows and their classes on a device.

    Attributes
    ----------
    X : float32 tensor of shape (n_samples, n_features)
        Scaled; a table is standardised as a whole. Images may be as they came, or uint8.
    one_hot : float32 tensor of shape (n_samples, n_classes)
    brightest : float
        Of images as they came, what is white.
    """

    X: torch.Tensor
    one_hot: torch.Tensor
    brightest: float = 1.0

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return self.X.nbytes + self.one_hot.nbytes

    @property
    def device(self) -> torch.device:
        return self.X.device


def torch_device(device: str) -> str:
    """Return torch's name of a device: ``cpu``, or ``cuda`` for ``gpu``."""
    return "cuda" if device == "gpu" else device


def _placed(X: np.ndarray, y: np.ndarray, n_classes: int, device: str, *more: float) -> DeviceRows:
    import torch

    one_hot = np.eye(n_classes, dtype=np.float32)[y]
    where = torch_device(device)
    return DeviceRows(torch.from_numpy(X).to(where), torch.from_numpy(one_hot).to(where), *more)


def place_parts(
    data: FoldedData, parts: Sequence[np.ndarray], n_classes: int, device: str
) -> DeviceRows:
    """Place all training rows once for each of ``parts``, prepared on that part's rows alone.

    For a table whose preparation is more than a mean and a deviation of each column. Row r
    of the data set as part p knows it is row p * n_samples + r of these.
    """
    X = np.concatenate([data.scaling_for(rows).transform(data.X) for rows in parts])
    return _placed(X, np.tile(data.y, len(parts)), n_classes, device)


def place_rows(
    data: FoldedData, n_classes: int, device: str, *, as_they_came: bool = False
) -> DeviceRows:
    """Place all training rows on ``device`` (``cpu`` or ``gpu``), once in this process.

    With ``as_they_came`` images, bytes or numbers, that each network scales for itself.
    """

    def place() -> DeviceRows:
        if as_they_came:
            X = np.ascontiguousarray(data.X, None if data.X.dtype == np.uint8 else np.float32)
            return _placed(X, data.y, n_classes, device, brightest_of(X))
        X = data.scaling_for(None).transform(data.X).astype(np.float32, copy=False)
        return _placed(X, data.y, n_classes, device)

    return cached((data.token, f"torch {device} {as_they_came}"), place)


def brightest_of(X: np.ndarray) -> float:
    """Return what is white in images: 1 where no pixel is above it, else 255."""
    return 1.0 if X.dtype != np.uint8 and X.max(initial=0) <= 1 else 255.0


def relative_scaling(data: FoldedData, rows: np.ndarray) -> FittedScaling | None:
    """Return the map from rows as they are placed to rows standardised on ``rows``; None for none.

    It takes out again what the placed rows know of the rows left out.
    """
    if data.scaling.kind != "standardise":
        return None
    whole, own = data.scaling_for(None), data.scaling_for(rows)
    assert isinstance(whole, FittedScaling)
    assert isinstance(own, FittedScaling)
    return FittedScaling((own.center - whole.center) / whole.scale, own.scale / whole.scale)
