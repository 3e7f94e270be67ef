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
        Scaled; a table is standardised as a whole.
    one_hot : float32 tensor of shape (n_samples, n_classes)
    """

    X: torch.Tensor
    one_hot: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.X.device


def torch_device(device: str) -> str:
    """Return torch's name of a device: ``cpu``, or ``cuda`` for ``gpu``."""
    return "cuda" if device == "gpu" else device


def place_parts(
    data: FoldedData, parts: Sequence[np.ndarray], n_classes: int, device: str
) -> DeviceRows:
    """Place all training rows once for each of ``parts``, prepared on that part's rows alone.

    For a table whose preparation is more than a mean and a deviation of each column. Row r
    of the data set as part p knows it is row p * n_samples + r of these.
    """
    import torch

    X = np.concatenate([data.scaling_for(rows).transform(data.X) for rows in parts])
    one_hot = np.tile(np.eye(n_classes, dtype=np.float32)[data.y], (len(parts), 1))
    where = torch_device(device)
    return DeviceRows(torch.from_numpy(X).to(where), torch.from_numpy(one_hot).to(where))


def place_rows(data: FoldedData, n_classes: int, device: str) -> DeviceRows:
    """Place all training rows on ``device`` (``cpu`` or ``gpu``), once in this process."""

    def place() -> DeviceRows:
        import torch

        X = data.scaling_for(None).transform(data.X).astype(np.float32, copy=False)
        one_hot = np.eye(n_classes, dtype=np.float32)[data.y]
        where = torch_device(device)
        return DeviceRows(torch.from_numpy(X).to(where), torch.from_numpy(one_hot).to(where))

    return cached((data.token, f"torch {device}"), place)


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
