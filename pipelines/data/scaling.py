"""Bring features to a common range: fixed constants for images, fitted ones for tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

SMALL = 1e-150  # numbers that differ by less have squares that float64 does not hold


@dataclass(frozen=True, eq=False)
class FittedScaling:
    """The map x -> (x - center) / scale.

    ``center`` and ``scale`` are numbers, or float64 arrays of shape (n_features,).
    """

    center: float | NDArray[np.float64]
    scale: float | NDArray[np.float64]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to store in a model file."""
        return {
            "scaling.center": np.atleast_1d(self.center),
            "scaling.scale": np.atleast_1d(self.scale),
        }

    def transform(self, X: NDArray[Any]) -> NDArray[Any]:
        """Scale rows into a new array of the same shape.

        Returns
        -------
        float32 array for uint8 input, float64 for any other
        """
        # Methods and operators only, so that with constants an array on a GPU stays there.
        dtype = np.float32 if X.dtype == np.uint8 else np.float64
        scaled: NDArray[np.floating[Any]] = X.astype(dtype)
        scaled -= self.center
        scaled /= self.scale
        return scaled


@dataclass(frozen=True)
class Scaling:
    """An unfitted scaling; ``center`` and ``scale`` are used by kind "constants" only."""

    kind: Literal["constants", "standardise", "none"]
    center: float = 0.0
    scale: float = 1.0

    @property
    def learns(self) -> bool:
        """Whether the scaling depends on the rows it is fitted on."""
        return self.kind == "standardise"

    def fit(self, X: NDArray[Any]) -> FittedScaling:
        """Find the map, from the training rows alone.

        Returns
        -------
        The constants; or each feature's mean and standard deviation (divisor n, as in
        scikit-learn's StandardScaler), where a feature with no spread gets scale 1.
        """
        if self.kind == "constants":
            return FittedScaling(self.center, self.scale)
        if self.kind == "none":
            return FittedScaling(0.0, 1.0)
        # Measured from the first row, so that a constant feature has a spread of exactly 0;
        # rounding would give a column of 0.1 a spread of 1e-17, and scale noise up with it.
        shifted = X.astype(np.float64) - X[0]
        spread = shifted.std(axis=0)
        if np.any(small := spread < SMALL):  # squares of such numbers are 0, or lose their digits
            columns, spread = shifted[..., small], np.array(spread)
            unit = np.abs(columns).max(axis=0)
            unit[unit == 0] = 1.0
            spread[small] = (columns / unit).std(axis=0) * unit
        return FittedScaling(X[0] + shifted.mean(axis=0), np.where(spread == 0, 1.0, spread))

    def describe(self) -> dict[str, Any]:
        """Return the JSON-serialisable metadata of the scaling."""
        if self.kind == "constants":
            return {"kind": self.kind, "center": self.center, "scale": self.scale}
        if self.kind == "standardise":
            return {"kind": self.kind, "fitted_on": "training rows of each fold"}
        return {"kind": self.kind}


# The map of the MNIST study, and the same map brought to the 0..16 pixels of the digits.
PIXELS_0_255 = Scaling("constants", center=127.5, scale=73.61)
PIXELS_0_16 = Scaling("constants", center=8.0, scale=73.61 * 16 / 255)
