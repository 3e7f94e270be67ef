"""Calibrate an ensemble's probabilities by a temperature, fitted on out-of-bag rows.

Guo et al., On calibration of modern neural networks (ICML 2017), by the rule of scikit-learn's
``CalibratedClassifierCV(method="temperature")``, which needs rows held back; here the rows that
members left out take their place, and each member is trained on its whole sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

# Ten events for a parameter: Peduzzi et al., Journal of Clinical Epidemiology 49 (1996).
LEAST_EVENTS = 10
SMALLEST = 1e-12  # added to a probability before its logarithm
BOUNDS = (-10.0, 10.0)  # of the logarithm of 1 / temperature
MOST_CHANGE = 0.5  # of the logarithm, from all out-of-bag answers to those of half the members


@dataclass(frozen=True)
class TemperatureScaling:
    """Probabilities to the power of 1 / temperature, brought to a sum of one.

    The order of a row's classes stays. Above 1 probabilities were too certain, below 1 too
    uncertain.

    Attributes
    ----------
    temperature : float
        1 where too few rows speak for another.
    fitted : float
        Of the least log loss of the out-of-bag rows; see ``of_more_members``.
    n_rows, n_wrong : int
        Out-of-bag rows, and those whose most probable class is wrong.
    log_loss, scaled_log_loss : float or None
        Of those rows, in nats, before and after; None without a row. The temperature was fitted
        on them: new rows gain a little less.
    """

    temperature: float
    n_rows: int
    n_wrong: int
    log_loss: float | None
    scaled_log_loss: float | None
    fitted: float = 1.0

    @classmethod
    def of(
        cls, probabilities: np.ndarray, truth: np.ndarray, weights: np.ndarray | None = None
    ) -> TemperatureScaling:
        """Fit the temperature of the least log loss.

        It stays 1 with fewer than ``LEAST_EVENTS`` wrong rows, or as few right ones: where all
        are right, the least loss is at no uncertainty at all.

        ``probabilities``, of shape (n_rows, n_classes), are of rows not trained on, ``truth``
        their class codes; rows of weight 0 are left out.
        """
        weights = np.ones(len(truth)) if weights is None else weights
        kept = weights > 0
        logits, truth, weights = _logits(probabilities[kept]), truth[kept], weights[kept]
        n_rows, n_wrong = len(truth), int(np.sum(logits.argmax(axis=1) != truth))
        if not n_rows:
            return UNSCALED

        def loss(log_inverse: float) -> float:
            from scipy.special import log_softmax

            scaled = log_softmax(np.exp(log_inverse) * logits, axis=1)
            return -float(np.average(scaled[np.arange(n_rows), truth], weights=weights))

        before = loss(0.0)
        unscaled = cls(1.0, n_rows, n_wrong, before, before)
        if not unscaled.is_fitted:
            return unscaled
        from scipy.optimize import minimize_scalar

        tolerance = {"xatol": 64 * np.finfo(np.float64).eps}
        least = minimize_scalar(loss, bounds=BOUNDS, method="bounded", options=tolerance)
        fitted = float(np.exp(-least.x))
        return cls(fitted, n_rows, n_wrong, before, float(least.fun), fitted)

    def of_more_members(
        self, half: TemperatureScaling, n_members: float, n_half: float, n_all: int
    ) -> TemperatureScaling:
        """Extrapolate to the mean of all members, of which ``half`` was fitted to one half.

        Only the members that left a row out answer for it, ``n_members`` and ``n_half`` on
        average, and the mean of few is more certain than that of many. The logarithm of the
        temperature is taken to be linear in 1 / members.
        """
        if not (self.is_fitted and half.is_fitted and n_half < n_members):
            return self
        change = np.clip(np.log(half.fitted / self.fitted), -MOST_CHANGE, MOST_CHANGE)
        part = (1 / n_members - 1 / n_all) / (1 / n_half - 1 / n_members)
        return replace(self, temperature=float(self.fitted * np.exp(-change * part)))

    def scaled(self, probabilities: np.ndarray) -> np.ndarray:
        """Calibrate probabilities; float64 of their shape, (n_rows, n_classes)."""
        from scipy.special import softmax

        if self.temperature == 1:
            return normalised(probabilities)
        return np.asarray(softmax(_logits(probabilities) / self.temperature, axis=1))

    @property
    def is_fitted(self) -> bool:
        """Whether enough rows spoke for a temperature."""
        return min(self.n_wrong, self.n_rows - self.n_wrong) >= LEAST_EVENTS

    @property
    def line(self) -> str:
        """What was fitted, in one sentence."""
        if self.log_loss is None:
            return "probabilities are as the members give them: no row was left out of a sample"
        if not self.is_fitted:
            return (
                f"probabilities are as the members give them: of {self.n_rows:,} out-of-bag rows "
                f"{self.n_wrong:,} are wrong, and a temperature needs {LEAST_EVENTS} wrong and as "
                "many right"
            )
        return (
            f"temperature {self.temperature:.3f} (of the members that left a row out: "
            f"{self.fitted:.3f}); log loss of {self.n_rows:,} out-of-bag rows {self.log_loss:.4f} "
            f"before, {self.scaled_log_loss:.4f} after"
        )


UNSCALED = TemperatureScaling(1.0, 0, 0, None, None)


def normalised(probabilities: np.ndarray) -> np.ndarray:
    """Make rows add up to 1: sums of single-precision numbers do to six digits only."""
    wide = np.asarray(probabilities, dtype=np.float64)
    return np.divide(wide, wide.sum(axis=1, keepdims=True))


def _logits(probabilities: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(normalised(probabilities) + SMALLEST))
