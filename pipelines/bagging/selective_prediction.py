"""Selective prediction with a guarantee: threshold, prediction sets, novelty.

All three are set from what members say of the training rows that their samples left out; no test
sample is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.bagging.guarantees import (
    ASSUMPTION,
    CONFIDENCE,
    FALSE_DISCOVERY_RATE,
    RiskControl,
    find_threshold,
    novelty_p_values,
    prediction_sets,
    select_novel,
)
from pipelines.bagging.reductions import EnsemblePrediction
from pipelines.data.model_file import Arrays, load_model, write_model
from pipelines.nn.member import OutOfBagPrediction
from pipelines.run_folder import names


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
        total = np.zeros((len(y), n_classes))
        votes = np.zeros((len(y), n_classes), dtype=np.int64)
        n_members, distances = np.zeros(len(y), dtype=np.int64), np.zeros(len(y))
        for rows, probabilities, distance in predictions:
            total[rows] += probabilities
            distances[rows] += distance
            votes[rows, probabilities.argmax(axis=1)] += 1
            n_members[rows] += 1
        assessed = n_members > 0
        mean = total[assessed] / n_members[assessed, None]
        vote = (votes[assessed] + mean / 2).argmax(axis=1)  # the tie rule of the ensemble
        distance = (distances[assessed] / n_members[assessed]).astype(np.float32)
        return cls(mean.astype(np.float32), vote, y[assessed].astype(np.int32), distance)

    @property
    def certainty(self) -> np.ndarray:
        """Return the mean certainty of the class that was voted for, of shape (n_rows,)."""
        return self.mean[np.arange(len(self.vote)), self.vote]

    @property
    def is_wrong(self) -> np.ndarray:
        """Bool array of shape (n_rows,)."""
        return self.vote != self.truth


@dataclass(frozen=True, eq=False)
class Assessment:
    """An assessment of predictions; the first axis of each array is the samples'.

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
        """Return which samples to defer to a human; bool array of shape (n_samples,)."""
        deferred: np.ndarray = answers.deferred | self.is_novel
        return deferred if self.kept is None else deferred | ~self.kept

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """A column of a table for each."""
        kept = {} if self.kept is None else {"kept": self.kept}
        return {
            **kept, "classes_in_set": self.sets.sum(axis=1), "novelty_p_value": self.p,
            "novel": self.is_novel,
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class SelectivePrediction:
    """The fitted rules by which an ensemble judges its predictions.

    Attributes
    ----------
    risk_control : Guarantee, or None where no error was asked for
    confidence : float
        Of the guarantee and the sets.
    """

    out_of_bag: OutOfBag
    risk_control: RiskControl | None
    confidence: float = CONFIDENCE

    @classmethod
    def of(
        cls,
        predictions: Iterable[OutOfBagPrediction],
        y: np.ndarray,
        n_classes: int,
        *,
        error: float | None = None,
        confidence: float = CONFIDENCE,
    ) -> Self:
        """Learn from the training rows.

        Parameters
        ----------
        predictions : of every member
        y : int array of shape (n_rows,), class codes
        error : share of wrong answers among those kept; None for no threshold
        confidence : float between 0 and 1
        """
        out_of_bag = OutOfBag.of(predictions, y, n_classes)
        risk_control = None
        if error is not None:
            risk_control = find_threshold(
                out_of_bag.certainty, out_of_bag.is_wrong, error, confidence
            )
        return cls(out_of_bag, risk_control, confidence)

    def assess(self, answers: EnsemblePrediction, distance: np.ndarray) -> Assessment:
        """Assess predictions; ``distance`` is the mean of the members', of shape (n_samples,)."""
        p = self.novelty_p(answers.certainty, distance)
        return Assessment(
            None if self.risk_control is None else self.risk_control.keeps(answers.certainty),
            prediction_sets(
                self.out_of_bag.mean, self.out_of_bag.truth, answers.mean, self.confidence
            ),
            p,
            select_novel(p),
        )

    def novelty_p(self, certainty: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """Return p-values of samples, of the larger distance and the smaller certainty.

        A network of few weights averages noise away, and is then uncertain of it.
        """
        smaller = np.minimum(
            novelty_p_values(self.out_of_bag.distance, distance),
            novelty_p_values(-self.out_of_bag.certainty, -certainty),
        )
        p: np.ndarray = np.where(np.isnan(distance), 1.0, 2 * smaller).clip(max=1)
        return p

    def save(self, path: Path) -> None:
        """Write one safetensors file: numbers and text, no code."""
        arrays = {f"out_of_bag.{name}": one for name, one in vars(self.out_of_bag).items()}
        risk_control = None if self.risk_control is None else asdict(self.risk_control)
        write_model(path, arrays, {"confidence": self.confidence, "risk_control": risk_control})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what ``save`` wrote.

        Raises
        ------
        InputError
            The file is missing or not such a file.
        """
        return load_model(
            path, cls._from_stored, "what nn_bagging stored beside its members",
            "resume the run, which writes it again",
        )  # fmt: skip

    @classmethod
    def _from_stored(cls, arrays: Arrays, about: dict[str, Any]) -> Self:
        out_of_bag = OutOfBag(*(arrays[f"out_of_bag.{one.name}"] for one in fields(OutOfBag)))
        n, stored = len(out_of_bag.mean), about["risk_control"]
        if {len(one) for one in vars(out_of_bag).values()} != {n}:
            raise ValueError("its out-of-bag rows do not belong together")
        risk_control = None if stored is None else RiskControl(**stored)
        return cls(out_of_bag, risk_control, float(about["confidence"]))


def stored_selective_prediction(run: Path) -> SelectivePrediction | None:
    """Load a run's rules; None if it is unfinished or has none."""
    path = run / names.SELECTIVE_PREDICTION
    return SelectivePrediction.load(path) if path.is_file() else None


def lines_of(
    selective: SelectivePrediction,
    assessed: Assessment,
    number: int,
    certainty: float,
    classes: list[str],
) -> list[str]:
    """Return lines on one sample: its prediction set, the guarantee, whether it is novel."""
    inside = [name for name, one in zip(classes, assessed.sets[number], strict=True) if one]
    lines = [
        f"set        {', '.join(inside) or 'no class'} ({100 * selective.confidence:.4g} % "
        "prediction "
        "set, for each class)"
    ]
    if assessed.is_novel[number]:  # nothing is promised of it
        return [*lines, (
            f"warning    novel sample (p = {assessed.p[number]:.2g}), unlike all training rows: "
            "do not use its answer"
        )]  # fmt: skip
    risk_control = selective.risk_control
    if risk_control is not None and assessed.kept is not None:
        if risk_control.threshold is None:
            lines.append(f"warning    {risk_control.line}")
        elif assessed.kept[number]:
            lines.append(
                f"guarantee  certainty {certainty:.4f} reaches {risk_control.threshold:.4f}: of "
                f"such answers at most {100 * risk_control.error:.4g} % are wrong"
            )
        else:
            lines.append(
                f"warning    defer to a human: certainty {certainty:.4f} is "
                f"below {risk_control.threshold:.4f}, from which on at most "
                f"{100 * risk_control.error:.4g} % are wrong"
            )
    return lines


def lines_of_all(selective: SelectivePrediction, assessed: Assessment) -> list[str]:
    """Return lines on the rows of a table together."""
    lines = []
    if selective.risk_control is not None and assessed.kept is not None:
        lines.append(
            f"guarantee  {int(assessed.kept.sum()):,} of {len(assessed.kept):,} rows are kept: "
            f"{selective.risk_control.line}"
        )
    if n := int(assessed.is_novel.sum()):
        found = "row is a novel sample" if n == 1 else "rows are novel samples"
        lines.append(f"warning    {n:,} {found}, unlike all training rows")
    return lines


def metadata_of(
    selective: SelectivePrediction,
    assessed: Assessment,
    answers: EnsemblePrediction,
    truth: np.ndarray,
) -> dict[str, Any]:
    """Measure threshold, sets and novelty detection on test samples, for ``run.json``."""
    wrong = answers.vote != truth
    held = assessed.sets[np.arange(len(truth)), truth]
    by_class = [held[truth == code].mean() for code in np.unique(truth)]
    metadata: dict[str, Any] = {
        "prediction_sets": {
            "confidence": selective.confidence,
            "mean_size": float(assessed.sets.sum(axis=1).mean()) if len(truth) else None,
            "coverage": float(held.mean()) if len(truth) else None,
            "least_coverage": float(min(by_class)) if by_class else None,
        },
        "novelty": {"rate": FALSE_DISCOVERY_RATE, "n_named": int(assessed.is_novel.sum())},
        "risk_control": None,
    }
    if selective.risk_control is not None and assessed.kept is not None:
        metadata["risk_control"] = asdict(selective.risk_control) | {
            "n_kept_test": int(assessed.kept.sum()),
            "n_wrong_kept_test": int(np.sum(assessed.kept & wrong)),
            "line": selective.risk_control.line,
            "assumption": ASSUMPTION,
        }
    return metadata
