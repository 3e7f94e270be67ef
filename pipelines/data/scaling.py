"""Scaling of features to a common range: fixed constants for images, fitted ones for tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

SMALL = 1e-150  # the square of a smaller difference is below the range of float64


@dataclass(frozen=True, eq=False)
class FittedScaling:
    """The map x -> (x - center) / scale.

    Attributes
    ----------
    center, scale : float, or float64 array of shape (n_features,)
    """

    center: float | NDArray[np.float64]
    scale: float | NDArray[np.float64]

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays to store in a model file."""
        return {
            "scaling.center": np.atleast_1d(self.center),
            "scaling.scale": np.atleast_1d(self.scale),
        }

    def transform(self, X: NDArray[Any]) -> NDArray[Any]:
        """Scale rows into a new array of the same shape.

        Returns
        -------
        array
            float32 for uint8 input, float64 for any other.
        """
        # Only methods and operators, so that an array on a GPU stays there if the scales are
        # numbers.
        dtype = np.float32 if X.dtype == np.uint8 else np.float64
        scaled: NDArray[np.floating[Any]] = X.astype(dtype)
        scaled -= self.center
        scaled /= self.scale
        return scaled


@dataclass(frozen=True)
class Scaling:
    """An unfitted scaling.

    Attributes
    ----------
    kind : {"constants", "standardise", "none"}
    center, scale : float
        Used by "constants" only.
    """

    kind: Literal["constants", "standardise", "none"]
    center: float = 0.0
    scale: float = 1.0

    @property
    def learns(self) -> bool:
        """Whether the scaling depends on the rows it is fitted on."""
        return self.kind == "standardise"

    def fit(self, X: NDArray[Any]) -> FittedScaling:
        """Fit the map on training rows.

        Returns
        -------
        FittedScaling
            The constants; or each feature's mean and standard deviation (divisor n, as in
            scikit-learn's StandardScaler), where a feature with no spread gets scale 1.
        """
        if self.kind == "constants":
            return FittedScaling(self.center, self.scale)
        if self.kind == "none":
            return FittedScaling(0.0, 1.0)
        # Deviations are from the first row, so that a constant feature has a spread of exactly 0;
        # rounding would give a column of 0.1 a spread of 1e-17, and noise would be scaled up.
        shifted = X.astype(np.float64) - X[0]
        spread = shifted.std(axis=0)
        if np.any(small := spread < SMALL):  # their squares are 0 or lose digits
            columns, spread = shifted[..., small], np.array(spread)
            unit = np.abs(columns).max(axis=0)
            unit[unit == 0] = 1.0
            spread[small] = (columns / unit).std(axis=0) * unit
        return FittedScaling(X[0] + shifted.mean(axis=0), np.where(spread == 0, 1.0, spread))

    def describe(self) -> dict[str, Any]:
        """The JSON-serialisable metadata of the scaling."""
        if self.kind == "constants":
            return {"kind": self.kind, "center": self.center, "scale": self.scale}
        if self.kind == "standardise":
            return {"kind": self.kind, "fitted_on": "training rows of each fold"}
        return {"kind": self.kind}


# The map of the study of MNIST that this program grew from, and the same for the pixels 0..16 of
# the digits.
PIXELS_0_255 = Scaling("constants", center=127.5, scale=73.61)
PIXELS_0_16 = Scaling("constants", center=8.0, scale=73.61 * 16 / 255)
