"""The gradient noise scale: the batch size beyond which more rows bring little.

S. McCandlish, J. Kaplan, D. Amodei et al., *An empirical model of large-batch training*, 2018:
the simple noise scale, the trace of the covariance of a row's gradient over the square of the
mean gradient, in rows; from the gradients of the ranks' batches and of their union (appendix A).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

STEPS_BETWEEN_LOOKS = 8


class NoiseScale:
    """The gradient noise scale, summed up over the steps of an epoch."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._small: torch.Tensor | float = 0.0
        self._large: torch.Tensor | float = 0.0
        self._n_small = self._n_large = 0

    def add(
        self, small: torch.Tensor, large: torch.Tensor, n_small: int, n_large: int
    ) -> None:  # fmt: skip
        """Note a step.

        Parameters
        ----------
        small : square of the length of the mean gradient of ``n_small`` rows, mean of the ranks
        large : that of all ranks' ``n_large`` rows; the numbers are those of every step
        """
        self._small, self._large = self._small + small, self._large + large
        self._n_small, self._n_large = n_small, n_large

    def take(self) -> float | None:
        """Return the noise scale in rows and start again; None if it cannot be estimated."""
        small, large = float(self._small), float(self._large)
        n_small, n_large = self._n_small, self._n_large
        self._begin()
        if n_small == n_large:
            return None
        mean = (n_large * large - n_small * small) / (n_large - n_small)
        scatter = (small - large) / (1 / n_small - 1 / n_large)
        return scatter / mean if mean > 0 and scatter >= 0 else None
