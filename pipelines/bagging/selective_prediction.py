"""Selective prediction with a guarantee: threshold of certainty, prediction sets, novelty.

All three are set from the members' predictions of their out-of-bag rows; no test sample is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.bagging.calibration import UNSCALED, TemperatureScaling, normalised
from pipelines.bagging.members import load_stored
from pipelines.bagging.record import SELECTIVE_PREDICTION
from pipelines.bagging.reductions import EnsemblePrediction
from pipelines.data.model_file import Arrays, write_model
from pipelines.nn.member import OutOfBagPrediction

CONFIDENCE, FALSE_DISCOVERY_RATE = 0.95, 0.05
ASSUMPTION = (
    "It holds where new samples come as the training rows did (exchangeable with them), and where "
    "all members together err no more often at a certainty than those few that left a row out."
)
# Fixed before any row is seen, or the bound would not hold: 0.9999 to 0, denser near 1, where most
# certainties are.
THRESHOLDS = 1 - 10.0 ** -np.linspace(4, 0, 81)
STARTS = (20, 40, 54, 60)  # positions in THRESHOLDS: 0.999, 0.99, 0.955, 0.9


@dataclass(frozen=True)
class RiskControl:
    """A threshold of certainty, at or above which at most ``error`` of the predictions are wrong.

    Attributes
    ----------
    error, confidence : float
        The largest error rate among the kept answers, and the confidence that it holds.
    threshold : float, optional
        The least certainty of a kept answer; None where no threshold could be proved.
    bound : float, optional
        Upper bound of the error rate among the kept answers, at ``confidence``.
    n_out_of_bag, n_kept, n_wrong : int
        Out-of-bag rows; those at or above the threshold; the wrong ones among the latter.
    """

    error: float
    confidence: float
    threshold: float | None
    bound: float | None
    n_out_of_bag: int
    n_kept: int
    n_wrong: int

    def keeps(self, certainty: np.ndarray) -> np.ndarray:
        """Which samples need no human: bool array of the shape of ``certainty``."""
        return np.asarray(certainty) >= (np.inf if self.threshold is None else self.threshold)

    @property
    def line(self) -> str:
        """The guarantee in one sentence."""
        claim = (
            f"at most {100 * self.error:.4g} % wrong, with confidence {100 * self.confidence:.4g} %"
        )
        if self.threshold is None:
            return (
                f"{claim}, cannot be proved for any threshold with {self.n_out_of_bag:,} "
                "out-of-bag rows: every sample is deferred to a human"
            )
        return (
            f"{claim}, at certainty {self.threshold:.4f} or above, where {self.n_wrong:,} of "
            f"{self.n_kept:,} out-of-bag rows are wrong ({self.n_out_of_bag:,} in total)"
        )


@dataclass(frozen=True, eq=False)
class OutOfBag:
    """Training rows that at least one member left out, and the joint prediction of those members.

    A row is judged as a new sample would be, though by only a third of the members [1]_.

    Attributes
    ----------
    mean : float32 array of shape (n_rows, n_classes)
        Mean probabilities of the members that left a row out.
    vote : int64 array of shape (n_rows,)
        Class codes.
    truth : int32 array of shape (n_rows,)
        Class codes.
    distance : float32 array of shape (n_rows,)
        Mean of those members' distances, see ``FeatureDistance``.

    References
    ----------
    .. [1] Breiman, Out-of-bag estimation, technical report, University of California, Berkeley
       (1996).
    """

    mean: np.ndarray
    vote: np.ndarray
    truth: np.ndarray
    distance: np.ndarray

    @classmethod
    def of(cls, predictions: Iterable[OutOfBagPrediction], y: np.ndarray, n_classes: int) -> Self:
        """Pool the members' predictions; ``y`` are the class codes of all training rows."""
        total, votes = np.zeros((2, len(y), n_classes))
        n_members, distances = np.zeros((2, len(y)))
        for rows, probabilities, distance in predictions:
            total[rows] += probabilities
            distances[rows] += distance
            votes[rows, probabilities.argmax(axis=1)] += 1
            n_members[rows] += 1
        has_members = n_members > 0
        n_members = n_members[has_members]
        mean = total[has_members] / n_members[:, None]
        vote = (votes[has_members] + mean / 2).argmax(axis=1)  # ties as in ``reduce_members``
        distance = (distances[has_members] / n_members).astype(np.float32)
        return cls(mean.astype(np.float32), vote, y[has_members].astype(np.int32), distance)

    @property
    def certainty(self) -> np.ndarray:
        """Mean probability of the class of the vote, of shape (n_rows,)."""
        return self.mean[np.arange(len(self.vote)), self.vote]

    @property
    def is_wrong(self) -> np.ndarray:
        """Whether the vote is wrong: bool array of shape (n_rows,)."""
        return self.vote != self.truth


@dataclass(frozen=True, eq=False)
class Assessment:
    """How far to trust predictions; the first axis of each array is the samples'.

    Attributes
    ----------
    kept : bool array of shape (n_samples,), optional
        Whether the certainty reaches the proved threshold; None without a target error.
    sets : bool array of shape (n_samples, n_classes)
        The prediction sets: which classes a sample may have.
    p : float64 array of shape (n_samples,)
        Novelty p-values, near 0 for a sample unlike the training rows.
    is_novel : bool array of shape (n_samples,)
        As ``select_novel`` decides for the whole batch.
    """

    kept: np.ndarray | None
    sets: np.ndarray
    p: np.ndarray
    is_novel: np.ndarray

    def deferred(self, answers: EnsemblePrediction) -> np.ndarray:
        """Which samples to defer to a human: bool array of shape (n_samples,)."""
        deferred: np.ndarray = answers.deferred | self.is_novel
        return deferred if self.kept is None else deferred | ~self.kept

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The columns of a table of predictions."""
        kept = {} if self.kept is None else {"kept": self.kept}
        kept["classes_in_set"] = self.sets.sum(axis=1)
        return {**kept, "novelty_p_value": self.p, "novel": self.is_novel}


@dataclass(frozen=True, eq=False)
class SelectivePrediction:
    """The fitted rules by which an ensemble judges its predictions.

    Attributes
    ----------
    out_of_bag : OutOfBag
    risk_control : RiskControl, optional
        None without a target error.
    confidence : float, default 0.95
        The confidence of the guarantee and of the prediction sets.
    calibration : TemperatureScaling
        The scaling of the mean probabilities; threshold, sets and novelty go by the uncalibrated
        mean.
    """

    out_of_bag: OutOfBag
    risk_control: RiskControl | None
    confidence: float = CONFIDENCE
    calibration: TemperatureScaling = UNSCALED

    @classmethod
    def of(
        cls,
        predictions: Iterable[OutOfBagPrediction],
        y: np.ndarray,
        n_classes: int,
        *,
        error: float | None = None,
        confidence: float = CONFIDENCE,
        weights: np.ndarray | None = None,
    ) -> Self:
        """Fit the rules to the members' out-of-bag predictions.

        Parameters
        ----------
        predictions : iterable of OutOfBagPrediction
            One for each member.
        y : int array of shape (n_rows,)
            Class codes of all training rows.
        n_classes : int
        error : float, optional
            The largest fraction of wrong answers among those kept; None for no threshold.
        confidence : float, default 0.95
        weights : float array of shape (n_rows,), optional
            Sample weights; they count for the temperature.
        """
        predictions, risk_control = list(predictions), None
        out_of_bag = OutOfBag.of(predictions, y, n_classes)
        if error is not None:
            evidence = out_of_bag.certainty, out_of_bag.is_wrong
            risk_control = find_threshold(*evidence, error, confidence)
        calibration = calibrate(predictions, y, n_classes, weights)
        return cls(out_of_bag, risk_control, confidence, calibration)

    def assess(self, answers: EnsemblePrediction, distance: np.ndarray) -> Assessment:
        """Judge predictions; ``distance`` is the mean of the members', of shape (n_samples,)."""
        # Two p-values share the error, hence the factor 2: a network of few weights averages noise
        # away, so that its distance is small, but is uncertain of it.
        out_of_bag, certainty, risk_control = self.out_of_bag, answers.certainty, self.risk_control
        smaller_p = np.minimum(
            novelty_p_values(out_of_bag.distance, distance),
            novelty_p_values(-out_of_bag.certainty, -certainty),
        )
        p = np.where(np.isnan(distance), 1.0, 2 * smaller_p).clip(max=1)
        sets = prediction_sets(out_of_bag.mean, out_of_bag.truth, answers.mean, self.confidence)
        kept = None if risk_control is None else risk_control.keeps(certainty)
        return Assessment(kept, sets, p, select_novel(p))

    def save(self, path: Path) -> None:
        """Write one safetensors file: numbers and text, no code."""
        arrays = {f"out_of_bag.{name}": array for name, array in vars(self.out_of_bag).items()}
        risk_control = self.risk_control and asdict(self.risk_control)
        about = {"confidence": self.confidence, "risk_control": risk_control}
        write_model(path, arrays, about | {"calibration": asdict(self.calibration)})

    @classmethod
    def _from_stored(cls, arrays: Arrays, about: dict[str, Any]) -> Self:
        out_of_bag = OutOfBag(*(arrays[f"out_of_bag.{field.name}"] for field in fields(OutOfBag)))
        n, stored = len(out_of_bag.mean), about["risk_control"]
        if {len(array) for array in vars(out_of_bag).values()} != {n}:
            raise ValueError("its out-of-bag rows do not belong together")
        risk_control = None if stored is None else RiskControl(**stored)
        fitted = about.get("calibration")  # older runs have no temperature
        calibration = UNSCALED if fitted is None else TemperatureScaling(**fitted)
        return cls(out_of_bag, risk_control, float(about["confidence"]), calibration)


def calibrate(
    predictions: Sequence[OutOfBagPrediction],
    y: np.ndarray,
    n_classes: int,
    weights: np.ndarray | None = None,
) -> TemperatureScaling:
    """The temperature of the mean of all members, fitted to their out-of-bag predictions.

    A third of the members answer for an out-of-bag row, and the mean of few is more certain than
    that of many. So temperatures are fitted to these members and to half of them, and extrapolated.

    Parameters
    ----------
    predictions : sequence of OutOfBagPrediction
        One for each member.
    y : int array of shape (n_rows,)
        Class codes of all training rows.
    n_classes : int
    weights : float array of shape (n_rows,), optional
        Sample weights.
    """
    weights = np.ones(len(y)) if weights is None else weights

    def fit_temperature(
        groups: Sequence[Sequence[OutOfBagPrediction]],
    ) -> tuple[TemperatureScaling, float]:
        pools = [OutOfBag.of(group, y, n_classes) for group in groups]
        rows = [
            np.unique(np.concatenate([prediction.rows for prediction in group])) for group in groups
        ]
        n_answers = sum(len(prediction.rows) for group in groups for prediction in group)
        fit = TemperatureScaling.of(
            np.concatenate([pool.mean for pool in pools]),
            np.concatenate([pool.truth for pool in pools]),
            weights[np.concatenate(rows)],
        )
        return fit, n_answers / max(1, sum(map(len, rows)))

    if not predictions:
        return UNSCALED
    of_all, n_members = fit_temperature([predictions])
    if len(predictions) == 1:
        return of_all
    half, n_half = fit_temperature([predictions[::2], predictions[1::2]])
    return of_all.of_more_members(half, n_members, n_half, len(predictions))


def stored_selective_prediction(run: Path) -> SelectivePrediction | None:
    """The rules of a run, or None if it is unfinished or has none."""
    return load_stored(run / SELECTIVE_PREDICTION, SelectivePrediction._from_stored)


def upper_bound(n_wrong: int, n: int, confidence: float) -> float:
    """The exact one-sided upper confidence bound [1]_ for an error rate, with n_wrong among n.

    References
    ----------
    .. [1] Clopper and Pearson, The use of confidence or fiducial limits illustrated in the case of
       the binomial, Biometrika 26 (1934).
    """
    from scipy.stats import beta

    return 1.0 if n_wrong >= n else float(beta.ppf(confidence, n_wrong + 1, n - n_wrong))


def find_threshold(
    certainty: np.ndarray, is_wrong: np.ndarray, error: float, confidence: float = CONFIDENCE
) -> RiskControl:
    """The least certainty at or above which at most ``error`` of the answers are wrong [1]_.

    Thresholds are tried from strict to lax until the first whose bound exceeds ``error``. A
    threshold that is too lax is passed only if its own test errs, so that many may be tried at the
    price of one (fixed-sequence testing [2]_). Above the strictest thresholds lie too few rows to
    prove anything, so that the walk begins at four of them, each with a quarter of
    1 - ``confidence``.

    Parameters
    ----------
    certainty : float array of shape (n_rows,)
        Values for rows that were not trained on.
    is_wrong : bool array of shape (n_rows,)
    error : float
        The largest error rate.
    confidence : float, default 0.95

    References
    ----------
    .. [1] Angelopoulos et al., Learn then Test: calibrating predictive algorithms to achieve risk
       control, Annals of Applied Statistics 19 (2025).
    .. [2] Bauer, Multiple testing in clinical trials, Statistics in Medicine 10 (1991).
    """
    order = np.argsort(-certainty, kind="stable")
    wrong = np.concatenate([[0], np.cumsum(is_wrong[order])])
    n_kept = np.searchsorted(-certainty[order], -THRESHOLDS, side="right")
    start_confidence = 1 - (1 - confidence) / len(STARTS)
    laxest = -1
    for start in STARTS:
        for position in range(start, len(THRESHOLDS)):
            n = int(n_kept[position])
            if upper_bound(int(wrong[n]), n, start_confidence) > error:
                break
            laxest = max(laxest, position)
    if laxest < 0:
        return RiskControl(error, confidence, None, None, len(certainty), 0, 0)
    n, threshold = int(n_kept[laxest]), float(THRESHOLDS[laxest])
    n_wrong = int(wrong[n])
    bound = upper_bound(n_wrong, n, start_confidence)
    return RiskControl(error, confidence, threshold, bound, len(certainty), n, n_wrong)


def prediction_sets(
    probabilities: np.ndarray,
    truth: np.ndarray,
    new_probabilities: np.ndarray,
    confidence: float = 0.95,
) -> np.ndarray:
    """The classes that samples may have: a class is missed at most 1 - ``confidence`` of the time.

    The threshold of each class is set on samples of that class alone (class-conditional, or
    Mondrian, conformal prediction [1]_), so that a rare or hard class is covered like the others. A
    class with too few samples is in every set.

    Parameters
    ----------
    probabilities : array of shape (n_rows, n_classes)
        Values for rows that were not trained on.
    truth : int array of shape (n_rows,)
        Their class codes.
    new_probabilities : array of shape (n_samples, n_classes)
    confidence : float, default 0.95

    Returns
    -------
    bool array of shape (n_samples, n_classes)

    References
    ----------
    .. [1] Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, Springer (2005).
    """
    probabilities, new_probabilities = normalised(probabilities), normalised(new_probabilities)
    sets = np.ones(new_probabilities.shape, dtype=bool)
    for code in range(probabilities.shape[1]):
        of_class = probabilities[truth == code, code]
        if len(of_class) * (1 - confidence) >= 1:
            limit = np.sort(1 - of_class)[math.ceil((len(of_class) + 1) * confidence) - 1]
            # The tolerance is for the rounding of probabilities.
            sets[:, code] = 1 - new_probabilities[:, code] <= limit + 1e-8
    return sets


def novelty_p_values(training_distances: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Conformal p-values [1]_: the fraction of rows at least as far out, the sample included.

    A sample that is exchangeable with the training rows has a p-value of at most p with probability
    at most p, up to one thing: the distance of a training row is a mean over the third of the
    members that left it out and varies more than that of all members, so that p-values err on the
    large side.

    Parameters
    ----------
    training_distances : array of shape (n_rows,)
        Out-of-bag distances of training rows.
    distance : array of shape (n_samples,)
        Distances of the samples; NaN has a p-value of 1.

    Returns
    -------
    float64 array of shape (n_samples,)

    References
    ----------
    .. [1] Laxhammar and Falkman, Conformal prediction for distribution-independent anomaly
       detection in streaming vessel data, StreamKDD (2010).
    """
    n = len(training_distances)
    p = (1 + n - np.searchsorted(np.sort(training_distances), distance, side="left")) / (n + 1)
    return np.where(np.isnan(distance), 1.0, p)


def select_novel(p: np.ndarray, rate: float = FALSE_DISCOVERY_RATE) -> np.ndarray:
    """The novel samples of a batch, by the rule of Benjamini and Hochberg [1]_.

    At most ``rate`` of the samples that are called novel are ordinary, on average over batches. For
    p-values from one set of rows see [2]_. A sample alone is novel if its p-value is at most
    ``rate``.

    References
    ----------
    .. [1] Benjamini and Hochberg, Controlling the false discovery rate, Journal of the Royal
       Statistical Society B 57 (1995).
    .. [2] Bates et al., Testing for outliers with conformal p-values, Annals of Statistics 51
       (2023).
    """
    from scipy.stats import false_discovery_control

    return false_discovery_control(p) <= rate if len(p) else np.zeros(0, dtype=bool)
