"""What is proved by samples not trained on: a threshold, prediction sets, novelty."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

CONFIDENCE, FALSE_DISCOVERY_RATE = 0.95, 0.05
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


def prediction_sets(
    known: np.ndarray, truth: np.ndarray, new: np.ndarray, confidence: float = 0.95
) -> np.ndarray:
    """Return the classes a sample may have; each class is missed at most 1 - ``confidence``.

    For each class the threshold of its certainty is set on known samples of that class alone
    (class-conditional, or Mondrian, conformal prediction: Vovk, Gammerman and Shafer,
    Algorithmic Learning in a Random World, 2005), so that a rare or hard class is served like
    the others. A class with too few known samples is in every set.

    Parameters
    ----------
    known : float array of shape (n_known, n_classes), probabilities of samples not trained on
    truth : int array of shape (n_known,), class codes
    new : float array of shape (n_new, n_classes)
    confidence : float between 0 and 1

    Returns
    -------
    bool array of shape (n_new, n_classes)
    """
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin

    class PrecomputedProbabilities(ClassifierMixin, BaseEstimator):
        """A fitted classifier that takes class probabilities for ``X`` and predicts just them."""

        def __init__(self, n_classes: int) -> None:
            self.n_classes, self.classes_ = n_classes, np.arange(n_classes)

        def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
            """Do nothing: part of scikit-learn's interface."""
            return self

        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            """Return ``X`` itself, of shape (n_samples, n_classes)."""
            return X

        def predict(self, X: np.ndarray) -> np.ndarray:
            """Return the class of the largest."""
            return X.argmax(axis=1)

    n_classes = known.shape[1]
    inside = np.ones((len(new), n_classes), dtype=bool)
    fewest = int(max(1 / confidence, 1 / (1 - confidence))) + 1  # what MAPIE asks for
    # Single precision has rounded their sums.
    known, new = (
        one / one.sum(1, keepdims=True) for one in (known.astype(float), new.astype(float))
    )
    for code in range(n_classes):
        own = known[truth == code]
        if len(own) < fewest or not len(new):
            continue
        with warnings.catch_warnings():
            # It misses the other classes, which are what each turn leaves out.
            warnings.filterwarnings("ignore", message=".*conformalization dataset has less labels")
            classifier = SplitConformalClassifier(
                PrecomputedProbabilities(n_classes), confidence_level=confidence,
                conformity_score="lac", prefit=True,
            ).conformalize(own, np.full(len(own), code))  # fmt: skip
        inside[:, code] = classifier.predict_set(new)[1][:, code, 0]
    return inside


def novelty_p_values(known: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Return the share of training rows at least as far as each sample, itself counted in.

    If a sample is of the training rows' kind it is at most p with probability at most p,
    but for one thing: a row's distance is the mean over the third of the members that left it
    out, which varies more than that of all members; so p errs on the large side. Laxhammar
    and Falkman, Conformal prediction for distribution-independent anomaly detection (2010).

    Parameters
    ----------
    known : float array of shape (n_known,), out-of-bag distances of training rows
    distance : float array of shape (n_samples,); one that is not a number has a p of 1

    Returns
    -------
    float64 array of shape (n_samples,)
    """
    n = len(known)
    p = (1 + n - np.searchsorted(np.sort(known), distance, side="left")) / (n + 1)
    return np.where(np.isnan(distance), 1.0, p)


def select_novel(p: np.ndarray, rate: float = FALSE_DISCOVERY_RATE) -> np.ndarray:
    """Select the novel samples of a batch, with a false discovery rate of at most ``rate``.

    The rule of Benjamini and Hochberg, Journal of the Royal Statistical Society B 57 (1995);
    for p-values from one set of rows see Bates et al., Testing for outliers with conformal
    p-values, Annals of Statistics 51 (2023). A sample alone is named where its p is at
    most ``rate``.

    Parameters
    ----------
    p : float array of shape (n_samples,)
    rate : float between 0 and 1, a mean over batches
    """
    order = np.argsort(p, kind="stable")
    small = np.flatnonzero(p[order] <= rate * np.arange(1, len(p) + 1) / max(1, len(p)))
    named = np.zeros(len(p), dtype=bool)
    if len(small):
        named[order[: small[-1] + 1]] = True
    return named
