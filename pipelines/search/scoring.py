"""How a cell is scored where the share of right predictions is not what counts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from pipelines.errors import InputError, opt

DEFAULT = "accuracy"  # 1 - error, which every row has without further work
FOR_INSTANCE = "use for instance balanced_accuracy, f1_macro or matthews_corrcoef"


class ScoringFailed(ValueError):
    """A fold cannot be scored; the message is a row's status."""


@dataclass(frozen=True, eq=False)
class Scoring:
    """A scikit-learn scorer, called with what a solver found on a fold.

    Attributes
    ----------
    scorer : what ``sklearn.metrics.make_scorer`` or ``get_scorer`` give
    classes : array of shape (n_classes,)
        The labels that class codes stand for: a scorer may name one of them.
    """

    name: str
    scorer: Any
    classes: np.ndarray | None = None

    @property
    def needs_decisions(self) -> bool:
        """Whether it takes decision values, not predictions."""
        return self.scorer._response_method != "predict"

    def on(self, classes: np.ndarray) -> Scoring:
        """This scoring for the labels of a data set, after a trial on a few made-up rows.

        Raises
        ------
        InputError
            It cannot score these classes, as ``roc_auc`` cannot more than two.
        """
        bound = replace(self, classes=classes)
        truth = np.repeat(np.arange(len(classes)), 2)
        values = np.eye(len(classes))[truth]
        try:
            bound.score(truth, np.roll(truth, 1), values[:, 1] if len(classes) == 2 else values)
        except ScoringFailed as error:
            raise InputError(
                f"{opt('scoring', self.name)} cannot score these {len(classes)} classes ({error}); "
                f"{FOR_INSTANCE}"
            ) from None
        return bound

    def score(
        self, truth: np.ndarray, predicted: np.ndarray, decisions: np.ndarray | None = None
    ) -> float:
        """The score of some rows; larger is better.

        Parameters
        ----------
        truth, predicted : int arrays of shape (n_samples,), class codes
        decisions : array, optional
            As ``SVC.decision_function`` gives them; for a scoring that needs them.

        Raises
        ------
        ScoringFailed
            The scorer raised an error, or is not defined on these rows.
        """
        from pipelines.search.answers import Answers

        assert self.classes is not None
        answers = Answers(self.classes, self.classes[predicted], decisions)
        try:
            with warnings.catch_warnings():
                # A class that is never predicted is no news in a corner of the grid.
                warnings.simplefilter("ignore", UserWarning)
                score = float(self.scorer(answers, None, self.classes[truth]))
        except (ValueError, TypeError) as error:
            raise ScoringFailed(_first_line(error)) from None
        if not np.isfinite(score):
            raise ScoringFailed(f"it gives {score}")
        return score


def resolve_scoring(scoring: Any) -> Scoring | None:
    """The scoring that a name or a scorer stands for; None for the default, accuracy.

    Parameters
    ----------
    scoring : None, a name that ``sklearn.metrics.get_scorer`` knows, or a scorer

    Raises
    ------
    InputError
        There is no such scorer, or it needs more than predictions or decision values.
    """
    if scoring is None or scoring == DEFAULT:
        return None
    scorer = _by_name(scoring) if isinstance(scoring, str) else scoring
    if not hasattr(scorer, "_response_method"):
        raise InputError(
            f"{opt('scoring')} must be a name or what sklearn.metrics.make_scorer gives, got "
            f"{scoring!r}; wrap a function of labels and predictions with make_scorer"
        )
    name = scoring if isinstance(scoring, str) else _name_of(scorer)
    if _needs_probabilities(scorer):
        raise InputError(
            f"{opt('scoring')} must need predictions or decision values alone, got {name}, which "
            f"needs probabilities; {FOR_INSTANCE}; {opt('probability')} gives the best candidate's"
        )
    if _is_of_numbers(scorer):
        raise InputError(
            f"{opt('scoring')} must be a scorer of classes, got {name}, which is one of numbers; "
            f"{FOR_INSTANCE}"
        )
    return Scoring(name, scorer)


def _by_name(name: str) -> Any:
    from sklearn.metrics import get_scorer, get_scorer_names

    try:
        return get_scorer(name)
    except ValueError:
        usable = [one for one in get_scorer_names() if _is_usable(get_scorer(one))]
        close = get_close_matches(name, usable, n=1)
        way_out = f"did you mean {close[0]}?" if close else FOR_INSTANCE
        raise InputError(
            f"{opt('scoring')} must be a scorer that scikit-learn knows, got {name!r}; {way_out}"
        ) from None


def _is_usable(scorer: Any) -> bool:
    return not _needs_probabilities(scorer) and not _is_of_numbers(scorer)


def _needs_probabilities(scorer: Any) -> bool:
    methods = scorer._response_method
    return methods not in ("predict", "decision_function") and "decision_function" not in methods


def _is_of_numbers(scorer: Any) -> bool:
    # Nothing public tells a score of regression from one of classification.
    return scorer._score_func.__module__ == "sklearn.metrics._regression"


def _name_of(scorer: Any) -> str:
    return getattr(scorer._score_func, "__name__", "a scorer")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
