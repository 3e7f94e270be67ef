"""How a score is shown, the same on the console, on pages and in comparisons.

Classifiers are shown by their error in percent, which is 1 minus the accuracy. Scorings that
scikit-learn negates, such as ``neg_mean_absolute_error``, are shown as the quantity they negate.
All others keep their name and value. Rankings use scores, where larger is better, whatever is
shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

ACCURACY = "accuracy"


@dataclass(frozen=True)
class Measure:
    """The quantity that is shown for a scoring.

    Attributes
    ----------
    name : str
        Such as ``error``, ``mean absolute error`` or ``f1_macro``.
    is_error : bool
        Whether it is a fraction shown in percent.
    is_loss : bool
        Whether smaller is better.
    """

    name: str
    is_error: bool
    is_loss: bool

    def of(self, score: Any) -> Any:
        """The quantity shown for a score, or for an array of scores."""
        return 1 - score if self.is_error else -score if self.is_loss else score

    def text(self, value: float | None, sign: str = "") -> str:
        """A value as text: ``1.39 %``, ``0.9123``; ``sign="+"`` for a difference."""
        if value is None or not math.isfinite(value):
            return "–"
        if self.is_error:
            # Rounding errors are removed first: 29.375 % then rounds alike however it was computed.
            return f"{round(100 * value, 9):{sign}.2f} %"
        if self.is_loss and not sign and 0 < abs(value) < 5e-5:  # 1e-12 must not be shown as 0.0000
            return f"{value:.4g}"
        return f"{value:{sign}.4f}" if abs(value) < 10 else f"{value:{sign}.4g}"

    def behind(self, difference: float) -> str:
        """How far a score is below another: ``3.1 points`` of percent, or ``0.0312``."""
        if not self.is_error:
            return self.text(difference)
        points = 100 * difference
        return f"{points:.1f} points" if points >= 0.1 or not points else f"{points:.1g} points"

    def mean_and_spread(self, score: float, std: float | None) -> str:
        """The mean of scores and their standard deviation: ``1.39 % ± 0.38 %``."""
        spread = "" if std is None else f" ± {self.text(std)}"
        return self.text(self.of(score)) + spread


def measure_of(scoring: str | None) -> Measure:
    """The measure of a scoring; None, as in a run that names no scoring, means accuracy."""
    if scoring in (None, ACCURACY):
        return Measure("error", is_error=True, is_loss=True)
    if scoring.startswith("neg_"):
        return Measure(scoring.removeprefix("neg_").replace("_", " "), False, is_loss=True)
    return Measure(scoring, False, is_loss=False)
