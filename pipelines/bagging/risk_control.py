"""A threshold of certainty above which at most so many answers are wrong, with confidence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

CONFIDENCE = 0.95
ASSUMPTION = (
    "It holds where new samples come as the training rows did (exchangeable with them), and where "
    "all members together err no more often at a certainty than those few that left a row out."
)
# Fixed before any row is seen: 0.9999 to 0, denser where certainties are.
THRESHOLDS = 1 - 10.0 ** -np.linspace(4, 0, 81)
STARTS = (20, 40, 54, 60)  # places in THRESHOLDS: 0.999, 0.99, 0.955, 0.9


@dataclass(frozen=True)
class RiskControl:
    """A threshold of certainty above which at most ``error`` of the predictions are wrong.

    Attributes
    ----------
    error, confidence : float, as they were asked for
    threshold : float or None
        Least certainty that is kept; None where no threshold could be proved.
    bound : float or None
        Upper bound of the error among what is kept, at ``confidence``.
    n_left_out, n_kept, n_wrong : int
        Training rows that a member left out; of them those at or above the threshold, and
        the wrong ones of those.
    """

    error: float
    confidence: float
    threshold: float | None
    bound: float | None
    n_out_of_bag: int
    n_kept: int
    n_wrong: int

    def keeps(self, certainty: np.ndarray) -> np.ndarray:
        """Return which samples need no human, bool array of the shape of ``certainty``."""
        if self.threshold is None:
            return np.zeros(np.shape(certainty), dtype=bool)
        return np.asarray(certainty) >= self.threshold

    def describe(self) -> dict[str, Any]:
        """Return the JSON-serialisable metadata of the threshold."""
        return asdict(self)

    @property
    def line(self) -> str:
        """The guarantee in one sentence."""
        asked = (
            f"at most {100 * self.error:.4g} % wrong, with confidence {100 * self.confidence:.4g} %"
        )
        if self.threshold is None:
            return (
                f"{asked}, cannot be proved for any threshold with {self.n_out_of_bag:,} "
                "out-of-bag "
                "rows: every sample is deferred to a human"
            )
        return (
            f"{asked}, at certainty {self.threshold:.4f} or above, where {self.n_wrong:,} of "
            f"{self.n_kept:,} out-of-bag rows are wrong ({self.n_out_of_bag:,} in total)"
        )


def upper_bound(n_wrong: int, n: int, confidence: float) -> float:
    """Return the exact one-sided upper confidence bound of an error rate.

    Clopper and Pearson, The use of confidence or fiducial limits, Biometrika 26 (1934).
    """
    from scipy.stats import beta

    return 1.0 if n_wrong >= n else float(beta.ppf(confidence, n_wrong + 1, n - n_wrong))


def find_threshold(
    certainty: np.ndarray, is_wrong: np.ndarray, error: float, confidence: float = CONFIDENCE
) -> RiskControl:
    """Return the least certainty from which on at most ``error`` of the answers are wrong.

    Thresholds are tried from strict to lax, and the walk ends at the first whose bound is
    above ``error``: a threshold that is too lax is passed only where its own test errs, so
    many may be tried at the price of one (fixed-sequence testing). The walk begins at four
    places, each with a quarter of 1 - ``confidence``, since too few rows lie beyond a
    strict threshold. Angelopoulos et al., Learn then Test, Annals of Applied Statistics 19
    (2025); Bauer, Statistics in Medicine 10 (1991).

    Parameters
    ----------
    certainty : float array of shape (n_rows,), of rows that were not trained on
    is_wrong : bool array of shape (n_rows,)
    error, confidence : float between 0 and 1
    """
    order = np.argsort(-certainty, kind="stable")
    wrong = np.concatenate([[0], np.cumsum(is_wrong[order])])
    n_kept = np.searchsorted(-certainty[order], -THRESHOLDS, side="right")
    each = 1 - (1 - confidence) / len(STARTS)
    laxest = -1
    for start in STARTS:
        for place in range(start, len(THRESHOLDS)):
            n = int(n_kept[place])
            if upper_bound(int(wrong[n]), n, each) > error:
                break
            laxest = max(laxest, place)
    if laxest < 0:
        return RiskControl(error, confidence, None, None, len(certainty), 0, 0)
    n = int(n_kept[laxest])
    return RiskControl(
        error, confidence, float(THRESHOLDS[laxest]), upper_bound(int(wrong[n]), n, each),
        len(certainty), n, int(wrong[n]),
    )  # fmt: skip
