"""Find the scorers of a search, and refuse unusable ones before any fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from pipelines.data.dataset import CLASSIFICATION, Dataset
from pipelines.errors import InputError, opt
from pipelines.search.candidate_scorer import (
    ACCURACY,
    PREDICTIONS,
    CandidateScorer,
    methods_of,
)
from pipelines.search.shared.base import Response

DEFAULT_SCORING = {"classification": ACCURACY, "regression": "r2"}
FOR_INSTANCE = {"classification": "f1_macro or roc_auc_ovr",
                "regression": "neg_mean_absolute_error"}  # fmt: skip
OF_PREDICTIONS = "use for instance balanced_accuracy, f1_macro or matthews_corrcoef"
OF_TWO = {
    "roc_auc", "f1", "precision", "recall", "jaccard", "average_precision", "neg_brier_score",
}  # fmt: skip


def make_scoring(names: Sequence[str], data: Dataset) -> tuple[str, ...]:
    """Return the names of the scorers of any estimators, by default that of the task.

    Raises
    ------
    InputError
        There is no such scorer, or it does not fit the task.
    """
    from sklearn.metrics import get_scorer_names

    chosen = tuple(dict.fromkeys(names)) or (DEFAULT_SCORING[data.task],)
    for name in chosen:
        scorer = _scorer(name, get_scorer_names(), f"use {DEFAULT_SCORING[data.task]}")
        of_clusters = scorer._score_func.__module__.rsplit(".", 1)[-1].endswith("supervised")
        if of_clusters or _is_of_numbers(scorer) == (data.task == CLASSIFICATION):
            raise InputError(
                f"{opt('scoring')} must be one for {data.task}, got {name}; use for instance "
                + FOR_INSTANCE[data.task]
            )
        if data.task == CLASSIFICATION and len(data.classes) > 2 and name in OF_TWO:
            raise InputError(
                f"{opt('scoring')} must be one for {len(data.classes)} classes, got {name}, which "
                f"is one for two; use for instance f1_macro or roc_auc_ovr"
            )
    return chosen


def check_scoring(name: str, classes: np.ndarray) -> None:
    """Check that a scorer can be computed from a kernel machine's outputs for these classes.

    Parameters
    ----------
    classes : labels of shape (n_classes,); the scorer is tried on a few made-up rows of them

    Raises
    ------
    InputError
        There is no such scorer, it needs more than predictions or decision values, or it cannot
        score these classes, as ``roc_auc`` cannot more than two.
    """
    if name == ACCURACY:
        return
    from sklearn.metrics import get_scorer, get_scorer_names

    from pipelines.svm.path_svc import PathSVC

    known = get_scorer_names()
    if name not in known:  # one that would do is proposed
        scorers = {one: get_scorer(one) for one in known}
        known = [
            one for one, scorer in scorers.items()
            if methods_of(scorer) <= PREDICTIONS and not _is_of_numbers(scorer)
        ]  # fmt: skip
    scorer = _scorer(name, known, OF_PREDICTIONS)
    if not methods_of(scorer) <= PREDICTIONS:
        raise InputError(
            f"{opt('scoring')} must work with predictions or decision values, but {name} "
            f"needs probabilities; {OF_PREDICTIONS}; {opt('probability')} gives the best "
            "candidate's"
        )
    if _is_of_numbers(scorer):
        raise InputError(
            f"{opt('scoring')} must be a scorer for classification, got {name}, which is for "
            "regression; "
            f"{OF_PREDICTIONS}"
        )
    truth = np.repeat(np.arange(len(classes)), 2)
    values = np.eye(len(classes))[truth]
    made_up = {
        "predict": np.roll(truth, 1),
        "decision_function": values[:, 1] if len(classes) == 2 else values,
    }
    response = Response(0, 0, lambda method, part: made_up[method], classes=np.arange(len(classes)))
    trial = CandidateScorer((name,), labels=classes)
    found = trial.score(response, PathSVC(), lambda: (truth[:, None], truth), truth, "test", {})[
        name
    ]
    if isinstance(found, str) or not math.isfinite(found):
        raise InputError(
            f"{opt('scoring', name)} cannot score these {len(classes)} classes ({found}); "
            f"{OF_PREDICTIONS}"
        )


def _scorer(name: str, known: Sequence[str], otherwise: str) -> Any:
    from sklearn.metrics import get_scorer

    try:
        return get_scorer(name)
    except ValueError:
        close = get_close_matches(name, known, n=1)
        way_out = f"did you mean {close[0]}?" if close else otherwise
        raise InputError(
            f"{opt('scoring')} must be a scorer that scikit-learn knows, got {name!r}; {way_out}"
        ) from None


def _is_of_numbers(scorer: Any) -> bool:
    # Nothing public tells a score of regression from one of classification.
    module: str = scorer._score_func.__module__
    return module.rsplit(".", 1)[-1] == "_regression"
