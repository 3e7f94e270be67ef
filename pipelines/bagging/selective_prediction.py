"""Selective prediction with a guarantee: threshold, prediction sets, novelty.

All three are set from what members say of the training rows that their samples left out; no test
sample is used.
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
    n_out_of_bag, n_kept, n_wrong : int
        Out-of-bag rows; those at or above the threshold; and the wrong ones of those.
    """

    error: float
    confidence: float
    threshold: float | None
    bound: float | None
    n_out_of_bag: int
    n_kept: int
    n_wrong: int

    def keeps(self, certainty: np.ndarray) -> np.ndarray:
        """Which samples need no human, bool array of the shape of ``certainty``."""
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
    """Training rows that at least one member left out, and what those members say together.

    Breiman, Out-of-bag estimation (1996): a row is judged as a new sample would be, though by
    a third of the members.

    Attributes
    ----------
    mean : float32 array of shape (n_rows, n_classes)
        Mean certainty of the members that left a row out.
    vote : int64 array of shape (n_rows,), class codes
    truth : int32 array of shape (n_rows,), class codes
    distance : float32 array of shape (n_rows,)
        Mean of those members' distances of their last hidden layers.
    """

    mean: np.ndarray
    vote: np.ndarray
    truth: np.ndarray
    distance: np.ndarray

    @classmethod
    def of(cls, predictions: Iterable[OutOfBagPrediction], y: np.ndarray, n_classes: int) -> Self:
        """Pool what members say; ``y`` are the codes of all training rows."""
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
        vote = (votes[has_members] + mean / 2).argmax(axis=1)  # the tie rule of the ensemble
        distance = (distances[has_members] / n_members).astype(np.float32)
        return cls(mean.astype(np.float32), vote, y[has_members].astype(np.int32), distance)

    @property
    def certainty(self) -> np.ndarray:
        """Mean certainty of the class that was voted for, of shape (n_rows,)."""
        return self.mean[np.arange(len(self.vote)), self.vote]

    @property
    def is_wrong(self) -> np.ndarray:
        """Bool array of shape (n_rows,)."""
        return self.vote != self.truth


@dataclass(frozen=True, eq=False)
class Assessment:
    """How far to trust predictions; the first axis of each array is the samples'.

    Attributes
    ----------
    kept : bool of shape (n_samples,), or None where no error was asked for
        Whether the certainty reaches the proved threshold.
    sets : bool of shape (n_samples, n_classes)
        Which classes a sample may have.
    p : float64 of shape (n_samples,)
        How well it goes with the training rows; near 0 for a novel sample.
    is_novel : bool of shape (n_samples,)
        Named by the rule for the whole batch.
    """

    kept: np.ndarray | None
    sets: np.ndarray
    p: np.ndarray
    is_novel: np.ndarray

    def deferred(self, answers: EnsemblePrediction) -> np.ndarray:
        """Which samples to defer to a human; bool array of shape (n_samples,)."""
        deferred: np.ndarray = answers.deferred | self.is_novel
        return deferred if self.kept is None else deferred | ~self.kept

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """A column of a table for each."""
        kept = {} if self.kept is None else {"kept": self.kept}
        kept["classes_in_set"] = self.sets.sum(axis=1)
        return {**kept, "novelty_p_value": self.p, "novel": self.is_novel}


@dataclass(frozen=True, eq=False)
class SelectivePrediction:
    """The fitted rules by which an ensemble judges its predictions.

    Attributes
    ----------
    risk_control : RiskControl, or None where no error was asked for
    confidence : float, of the guarantee and the sets
    calibration : TemperatureScaling
        Of the mean certainty; threshold, sets and novelty go by that mean as it is.
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
        """Learn from the training rows, by what every member says of those it left out.

        ``y`` are the class codes of all, ``weights`` what each counts for the temperature, both of
        shape (n_rows,). ``error`` is the share of wrong answers among those kept; None for no
        threshold.
        """
        predictions, risk_control = list(predictions), None
        out_of_bag = OutOfBag.of(predictions, y, n_classes)
        if error is not None:
            evidence = out_of_bag.certainty, out_of_bag.is_wrong
            risk_control = find_threshold(*evidence, error, confidence)
        calibration = calibrate(predictions, y, n_classes, weights)
        return cls(out_of_bag, risk_control, confidence, calibration)

    def assess(self, answers: EnsemblePrediction, distance: np.ndarray) -> Assessment:
        """Assess predictions; ``distance`` is the mean of the members', of shape (n_samples,)."""
        # A network of few weights averages noise away, and is then uncertain of it: of the larger
        # distance and the smaller certainty.
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
        fitted = about.get("calibration")  # none of a run before there were temperatures
        calibration = UNSCALED if fitted is None else TemperatureScaling(**fitted)
        return cls(out_of_bag, risk_control, float(about["confidence"]), calibration)


def calibrate(
    predictions: Sequence[OutOfBagPrediction],
    y: np.ndarray,
    n_classes: int,
    weights: np.ndarray | None = None,
) -> TemperatureScaling:
    """Fit the temperature of the mean of all members to what they say of rows they left out."""
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
    """Load a run's rules; None if it is unfinished or has none."""
    return load_stored(run / SELECTIVE_PREDICTION, SelectivePrediction._from_stored)


def upper_bound(n_wrong: int, n: int, confidence: float) -> float:
    """The exact one-sided upper confidence bound of an error rate.

    Clopper and Pearson, The use of confidence or fiducial limits, Biometrika 26 (1934).
    """
    from scipy.stats import beta

    return 1.0 if n_wrong >= n else float(beta.ppf(confidence, n_wrong + 1, n - n_wrong))


def find_threshold(
    certainty: np.ndarray, is_wrong: np.ndarray, error: float, confidence: float = CONFIDENCE
) -> RiskControl:
    """Find the least certainty from which on at most ``error`` of the answers are wrong.

    Thresholds are tried from strict to lax, and the walk ends at the first whose bound is
    above ``error``: a threshold that is too lax is passed only where its own test errs, so
    many may be tried at the price of one (fixed-sequence testing). The walk begins at four
    places, each with a quarter of 1 - ``confidence``, since too few rows lie beyond a
    strict threshold. Angelopoulos et al., Learn then Test, Annals of Applied Statistics 19
    (2025); Bauer, Statistics in Medicine 10 (1991).

    ``certainty`` and ``is_wrong``, of shape (n_rows,), are of rows that were not trained on.
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
    """Find the classes a sample may have; each is missed at most 1 - ``confidence`` of the time.

    For each class the threshold of its certainty is set on known samples of that class alone
    (class-conditional, or Mondrian, conformal prediction: Vovk, Gammerman and Shafer,
    Algorithmic Learning in a Random World, 2005), so that a rare or hard class is served like
    the others. A class with too few known samples is in every set.

    ``known`` are probabilities of samples not trained on, (n_known, n_classes), ``truth`` their
    class codes, (n_known,); ``new`` has the shape (n_new, n_classes), as have the sets, bool.
    """
    probabilities, new_probabilities = normalised(probabilities), normalised(new_probabilities)
    sets = np.ones(new_probabilities.shape, dtype=bool)
    for code in range(probabilities.shape[1]):
        of_class = probabilities[truth == code, code]
        if len(of_class) * (1 - confidence) >= 1:
            limit = np.sort(1 - of_class)[math.ceil((len(of_class) + 1) * confidence) - 1]
            sets[:, code] = 1 - new_probabilities[:, code] <= limit + 1e-8
    return sets


def novelty_p_values(training_distances: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """The share of training rows at least as far as each sample, itself counted in.

    If a sample is of the training rows' kind it is at most p with probability at most p,
    but for one thing: a row's distance is the mean over the third of the members that left it
    out, which varies more than that of all members; so p errs on the large side. Laxhammar
    and Falkman, Conformal prediction for distribution-independent anomaly detection (2010).

    ``known`` are the out-of-bag distances of training rows; a distance that is not a number has a
    p of 1. The p are float64 of the shape of ``distance``, (n_samples,).
    """
    n = len(training_distances)
    p = (1 + n - np.searchsorted(np.sort(training_distances), distance, side="left")) / (n + 1)
    return np.where(np.isnan(distance), 1.0, p)


def select_novel(p: np.ndarray, rate: float = FALSE_DISCOVERY_RATE) -> np.ndarray:
    """Select the novel samples of a batch, with a false discovery rate of at most ``rate``.

    The rule of Benjamini and Hochberg, Journal of the Royal Statistical Society B 57 (1995);
    for p-values from one set of rows see Bates et al., Testing for outliers with conformal
    p-values, Annals of Statistics 51 (2023). The rate is a mean over batches; a sample alone is
    named where its p is at most ``rate``.
    """
    from scipy.stats import false_discovery_control

    return false_discovery_control(p) <= rate if len(p) else np.zeros(0, dtype=bool)
