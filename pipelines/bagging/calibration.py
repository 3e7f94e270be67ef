"""Calibrate an ensemble's probabilities by a temperature [1]_, fitted on out-of-bag rows.

The rule is that of scikit-learn's ``CalibratedClassifierCV(method="temperature")``, which needs
rows that are held back. Here out-of-bag rows take their place, so that each member is trained on
its whole sample.

References
----------
.. [1] Guo, Pleiss, Sun and Weinberger, On calibration of modern neural networks, ICML 2017.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

# Ten events for each fitted parameter: Peduzzi et al., A simulation study of the number of events
# per variable in logistic regression analysis, Journal of Clinical Epidemiology 49 (1996).
LEAST_EVENTS = 10
SMALLEST = 1e-12  # added to a probability before its logarithm, which is not finite at 0
BOUNDS = (-10.0, 10.0)  # bounds for the logarithm of 1 / temperature
# The largest change of that logarithm, from all members to half of them, that is extrapolated.
MOST_CHANGE = 0.5


@dataclass(frozen=True)
class TemperatureScaling:
    """Probabilities raised to the power 1 / temperature and normalised.

    The order of a row's classes stays the same. A temperature above 1 says that probabilities were
    too certain, one below 1 that they were too uncertain.

    Attributes
    ----------
    temperature : float
        1 where there are too few rows to fit it.
    n_rows, n_wrong : int
        Out-of-bag rows, and those whose most probable class is wrong.
    log_loss, scaled_log_loss : float, optional
        The loss on those rows, in nats, before and after; None without rows. As the temperature was
        fitted on them, new rows gain a little less.
    fitted : float
        The temperature of the least log loss of the out-of-bag rows, before ``of_more_members``.
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

        It stays 1 with fewer than ``LEAST_EVENTS`` wrong or right rows: where all are right, the
        loss is least without any uncertainty.

        Parameters
        ----------
        probabilities : array of shape (n_rows, n_classes)
            Probabilities for rows that were not trained on.
        truth : int array of shape (n_rows,)
            Their class codes.
        weights : float array of shape (n_rows,), optional
            Rows of weight 0 are left out.
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
        """Extrapolate to the mean of all members.

        Only the members that left a row out answer for it, and the mean of few is more certain than
        that of many. The logarithm of the temperature is taken to be linear in 1 / members.

        Parameters
        ----------
        half : TemperatureScaling
            Fitted to the means of half of the members.
        n_members, n_half : float
            Members that answer for a row on average, here and in ``half``.
        n_all : int
            All members.
        """
        if not (self.is_fitted and half.is_fitted and n_half < n_members):
            return self
        change = np.clip(np.log(half.fitted / self.fitted), -MOST_CHANGE, MOST_CHANGE)
        part = (1 / n_members - 1 / n_all) / (1 / n_half - 1 / n_members)
        return replace(self, temperature=float(self.fitted * np.exp(-change * part)))

    def scaled(self, probabilities: np.ndarray) -> np.ndarray:
        """The calibrated probabilities, float64 of the same shape, (n_rows, n_classes)."""
        from scipy.special import softmax

        if self.temperature == 1:
            return normalised(probabilities)
        return np.asarray(softmax(_logits(probabilities) / self.temperature, axis=1))

    @property
    def is_fitted(self) -> bool:
        """Whether there were enough wrong and right rows to fit a temperature."""
        return min(self.n_wrong, self.n_rows - self.n_wrong) >= LEAST_EVENTS

    @property
    def line(self) -> str:
        """The fit in one sentence."""
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
    """Probabilities as float64 rows that add up to 1; float32 rows do so to six digits only."""
    wide = np.asarray(probabilities, dtype=np.float64)
    return np.divide(wide, wide.sum(axis=1, keepdims=True))


def _logits(probabilities: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(normalised(probabilities) + SMALLEST))
