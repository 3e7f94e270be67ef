"""How a score is shown: the one convention of console, pages and comparisons.

Classifiers are shown by their error, a fraction read in percent, which is 1 less the accuracy.
Scorings that scikit-learn negates, such as ``neg_mean_absolute_error``, are shown as what they
negate. All others have their own name and number. Rankings go by scores, larger is better,
whatever is shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

ACCURACY = "accuracy"


@dataclass(frozen=True)
class Measure:
    """What stands for the score of a scoring.

    Attributes
    ----------
    name : str, such as ``error``, ``mean absolute error`` or ``f1_macro``
    is_error : bool, whether it is a fraction that is read in percent
    is_loss : bool, whether smaller is better
    """

    name: str
    is_error: bool
    is_loss: bool

    def of(self, score: Any) -> Any:
        """Return what is shown in place of a score; one, or an array of them."""
        return 1 - score if self.is_error else -score if self.is_loss else score

    def text(self, value: float | None, sign: str = "") -> str:
        """Return a value as it is read: ``1.39 %``, ``0.9123``; ``sign="+"`` of a difference."""
        if value is None or not math.isfinite(value):
            return "–"
        if self.is_error:
            # Without what arithmetic adds: 29.375 % is rounded alike however it was computed.
            return f"{round(100 * value, 9):{sign}.2f} %"
        if self.is_loss and not sign and 0 < abs(value) < 5e-5:  # 0.0000 is no error of 1e-12
            return f"{value:.4g}"
        return f"{value:{sign}.4f}" if abs(value) < 10 else f"{value:{sign}.4g}"

    def behind(self, difference: float) -> str:
        """How much a score is below another in words: ``3.1 points`` of percent, or ``0.0312``."""
        if not self.is_error:
            return self.text(difference)
        points = 100 * difference
        return f"{points:.1f} points" if points >= 0.1 or not points else f"{points:.1g} points"

    def mean_and_spread(self, score: float, std: float | None) -> str:
        """The mean of some scores and their standard deviation: ``1.39 % ± 0.38 %``."""
        spread = "" if std is None else f" ± {self.text(std)}"
        return self.text(self.of(score)) + spread


def measure_of(scoring: str | None) -> Measure:
    """Return what is shown of a scoring; None, where a run names none, is accuracy."""
    if scoring in (None, ACCURACY):
        return Measure("error", is_error=True, is_loss=True)
    if scoring.startswith("neg_"):
        return Measure(scoring.removeprefix("neg_").replace("_", " "), False, is_loss=True)
    return Measure(scoring, False, is_loss=False)
