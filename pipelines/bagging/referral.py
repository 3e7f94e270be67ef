"""Which answers need a person, with a guarantee: threshold, sets of classes, strangers.

All three are set from what members say of the training rows that their samples left out, or
from those rows themselves; no test point is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.bagging.class_sets import class_sets
from pipelines.bagging.guarantee import ASSUMPTION, CONFIDENCE, Guarantee, find_threshold
from pipelines.bagging.left_out import OutOfBag, OutOfBagPrediction
from pipelines.bagging.reductions import Answers
from pipelines.bagging.strangers import (
    FALSE_ALARMS,
    ConformalNoveltyDetector,
    choose_known,
    false_discoveries,
)
from pipelines.data.dataset import rows_of
from pipelines.data.model_file import Arrays, load_model, write_model
from pipelines.data.preparation import Fitted, fitted_from
from pipelines.run_folder import names


@dataclass(frozen=True, eq=False)
class Judgement:
    """What is known of answers beside their votes, each array with the points as its first axis.

    Attributes
    ----------
    kept : bool of shape (n_points,), or None where no error was asked for
        Whether the certainty reaches the proved threshold.
    sets : bool of shape (n_points, n_classes)
        Which classes a point may have.
    p : float64 of shape (n_points,)
        How well it goes with the training rows; near 0 for a stranger.
    is_stranger : bool of shape (n_points,)
        Named by the rule for the whole batch.
    """

    kept: np.ndarray | None
    sets: np.ndarray
    p: np.ndarray
    is_stranger: np.ndarray

    def refers(self, answers: Answers) -> np.ndarray:
        """Which points to leave to a person, for any of the reasons; bool of shape (n_points,)."""
        refer: np.ndarray = answers.refer | self.is_stranger
        return refer if self.kept is None else refer | ~self.kept

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """A column of a table for each."""
        kept = {} if self.kept is None else {"kept": self.kept}
        return {
            **kept, "classes_in_set": self.sets.sum(axis=1), "p_familiar": self.p,
            "stranger": self.is_stranger,
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Referral:
    """What an ensemble keeps to judge its answers.

    Attributes
    ----------
    scaling : FittedScaling or FittedPreparation, or None for images
        Brings rows of a table to the numbers of ``familiar``.
    guarantee : Guarantee, or None where no error was asked for
    confidence : float
        Of the guarantee and the sets.
    """

    left_out: OutOfBag
    familiar: ConformalNoveltyDetector
    scaling: Fitted | None
    guarantee: Guarantee | None
    confidence: float = CONFIDENCE

    @classmethod
    def of(
        cls,
        said: Iterable[OutOfBagPrediction],
        X: Any,
        y: np.ndarray,
        n_classes: int,
        *,
        scaling: Fitted | None,
        error: float | None = None,
        confidence: float = CONFIDENCE,
        seed: int = 0,
    ) -> Self:
        """Learn from the training rows.

        Parameters
        ----------
        said : of every member
        X : array of shape (n_rows, n_features), or a DataFrame; unscaled training rows
        y : int array of shape (n_rows,), class codes
        scaling : fitted on ``X``; None for images, whose pixels are compared as they are
        error : share of wrong answers among those kept; None for no threshold
        confidence : float between 0 and 1
        seed : draws the training rows that are kept
        """
        left_out = OutOfBag.of(said, y, n_classes)
        guarantee = None
        if error is not None:
            guarantee = find_threshold(left_out.certainty, left_out.is_wrong, error, confidence)
        known = rows_of(X, choose_known(len(y), seed))
        familiar = ConformalNoveltyDetector.of(_numbers(known, scaling), scaling is None)
        return cls(left_out, familiar, scaling, guarantee, confidence)

    def judge(self, answers: Answers, X: Any) -> Judgement:
        """Judge the answers to the rows of ``X``, unscaled."""
        p = self.familiar.p_values(_numbers(X, self.scaling))
        return Judgement(
            None if self.guarantee is None else self.guarantee.keeps(answers.certainty),
            class_sets(self.left_out.mean, self.left_out.truth, answers.mean, self.confidence),
            p,
            false_discoveries(p),
        )

    def save(self, path: Path) -> None:
        """Write one safetensors file: numbers and text, no code."""
        scaling = {} if self.scaling is None else self.scaling.arrays()
        arrays = {f"scaling.{name}": np.asarray(one) for name, one in scaling.items()} | {
            "left_out.mean": self.left_out.mean, "left_out.vote": self.left_out.vote,
            "left_out.truth": self.left_out.truth, "familiar.rows": self.familiar.rows,
            "familiar.apart": self.familiar.apart,
        }  # fmt: skip
        guarantee = None if self.guarantee is None else self.guarantee.describe()
        about = {"is_image": self.familiar.is_image, "confidence": self.confidence}
        write_model(path, arrays, about | {"guarantee": guarantee})

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
        left_out = OutOfBag(*(arrays[f"left_out.{name}"] for name in ("mean", "vote", "truth")))
        n, is_image, stored = len(left_out.mean), bool(about["is_image"]), about["guarantee"]
        if left_out.vote.shape != (n,) or left_out.truth.shape != (n,):
            raise ValueError("its left-out rows do not belong together")
        return cls(
            left_out,
            ConformalNoveltyDetector(arrays["familiar.rows"], is_image, arrays["familiar.apart"]),
            None if is_image else fitted_from(arrays, "scaling."),
            None if stored is None else Guarantee(**stored),
            float(about["confidence"]),
        )


def _numbers(X: Any, scaling: Fitted | None) -> np.ndarray:
    rows = X if scaling is None else scaling.transform(X).astype(np.float32)
    return np.ascontiguousarray(rows)


def stored_referral(run: Path) -> Referral | None:
    """What a run stored beside its members; None of a run of before, or one not finished."""
    path = run / names.REFERRAL
    return Referral.load(path) if path.is_file() else None


def lines_of(
    referral: Referral, judged: Judgement, number: int, certainty: float, classes: list[str]
) -> list[str]:
    """What is said of one point: its set of classes, the guarantee, whether it is a stranger."""
    inside = [name for name, one in zip(classes, judged.sets[number], strict=True) if one]
    lines = [
        f"set        {', '.join(inside) or 'no class'}: {100 * referral.confidence:.4g} % of the "
        "points of each class have theirs in it"
    ]
    if judged.is_stranger[number]:  # nothing is promised of it
        return [*lines, (
            f"attention  a stranger (p = {judged.p[number]:.2g}): unlike all training rows; its "
            "answer means nothing"
        )]  # fmt: skip
    guarantee = referral.guarantee
    if guarantee is not None and judged.kept is not None:
        if guarantee.threshold is None:
            lines.append(f"attention  {guarantee.line}")
        elif judged.kept[number]:
            lines.append(
                f"guarantee  certainty {certainty:.4f} reaches {guarantee.threshold:.4f}: of such "
                f"answers at most {100 * guarantee.error:.4g} % are wrong"
            )
        else:
            lines.append(
                f"attention  refer to a person: certainty {certainty:.4f} is "
                f"below {guarantee.threshold:.4f}, from which on at most "
                f"{100 * guarantee.error:.4g} % are wrong"
            )
    return lines


def lines_of_all(referral: Referral, judged: Judgement) -> list[str]:
    """What is said of the rows of a table together."""
    lines = []
    if referral.guarantee is not None and judged.kept is not None:
        lines.append(
            f"guarantee  {int(judged.kept.sum()):,} of {len(judged.kept):,} rows are kept: "
            f"{referral.guarantee.line}"
        )
    if n := int(judged.is_stranger.sum()):
        lines.append(f"attention  {n:,} rows are strangers, unlike all training rows")
    return lines


def metadata_of(
    referral: Referral, judged: Judgement, answers: Answers, truth: np.ndarray
) -> dict[str, Any]:
    """How threshold, sets and strangers do on test points, for ``run.json``."""
    wrong = answers.vote != truth
    held = judged.sets[np.arange(len(truth)), truth]
    by_class = [held[truth == code].mean() for code in np.unique(truth)]
    metadata: dict[str, Any] = {
        "class_sets": {
            "confidence": referral.confidence,
            "mean_size": float(judged.sets.sum(axis=1).mean()) if len(truth) else None,
            "coverage": float(held.mean()) if len(truth) else None,
            "least_coverage": float(min(by_class)) if by_class else None,
        },
        "strangers": {"rate": FALSE_ALARMS, "n_named": int(judged.is_stranger.sum())},
        "guarantee": None,
    }
    if referral.guarantee is not None and judged.kept is not None:
        metadata["guarantee"] = referral.guarantee.describe() | {
            "n_kept_test": int(judged.kept.sum()),
            "n_wrong_kept_test": int(np.sum(judged.kept & wrong)),
            "line": referral.guarantee.line,
            "assumption": ASSUMPTION,
        }
    return metadata
