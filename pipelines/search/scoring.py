"""Find the scorers of a search, and refuse unusable ones before any fit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from difflib import get_close_matches

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
INSTEAD = {"classification": "use for instance balanced_accuracy, f1_macro or matthews_corrcoef",
           "regression": "use for instance neg_mean_absolute_error"}  # fmt: skip


def make_scoring(names: Sequence[str], data: Dataset) -> tuple[str, ...]:
    """Return the names of the scorers of any estimators, by default that of the task.

    Raises
    ------
    InputError
        See ``check_scoring``.
    """
    chosen = tuple(dict.fromkeys(names)) or (DEFAULT_SCORING[data.task],)
    for name in chosen:
        check_scoring(name, np.arange(len(data.classes)), data.task, of_predictions=False)
    return chosen


def check_scoring(
    name: str, classes: np.ndarray, task: str = CLASSIFICATION, of_predictions: bool = True
) -> None:
    """Check that a scorer can be used.

    Parameters
    ----------
    classes : labels of shape (n_classes,); the scorer is tried on a few made-up rows of them
    task : "classification" or "regression"
    of_predictions : whether there are predictions and decision values alone, no probabilities

    Raises
    ------
    InputError
        There is no such scorer, it is for the other task, it needs probabilities, or it cannot
        score these classes, as ``roc_auc`` cannot more than two.
    """
    if name == DEFAULT_SCORING[task]:
        return
    from sklearn.metrics import get_scorer, get_scorer_names

    if name not in get_scorer_names():
        close = get_close_matches(name, get_scorer_names(), n=1)
        way_out = f"did you mean {close[0]}?" if close else INSTEAD[task]
        raise InputError(
            f"{opt('scoring')} must be a scorer that scikit-learn knows, got {name!r}; {way_out}"
        )
    scorer = get_scorer(name)
    # Nothing public tells what a score is of.
    module = scorer._score_func.__module__.rsplit(".", 1)[-1]
    of_clusters = module.endswith("supervised") and not of_predictions
    if of_clusters or (module == "_regression") == (task == CLASSIFICATION):
        raise InputError(f"{opt('scoring')} must be one for {task}, got {name}; {INSTEAD[task]}")
    if of_predictions and not methods_of(scorer) <= PREDICTIONS:
        raise InputError(
            f"{opt('scoring')} must work with predictions or decision values, but {name} "
            f"needs probabilities; {INSTEAD[task]}; {opt('probability')} gives the best candidate's"
        )
    if task != CLASSIFICATION:
        return
    from sklearn.linear_model import LogisticRegression

    n, truth = len(classes), np.repeat(np.arange(len(classes)), 2)
    values = np.eye(n)[truth]
    made_up = {
        "predict": np.roll(truth, 1), "predict_proba": values,
        "decision_function": values[:, 1] if n == 2 else values,
    }  # fmt: skip
    response = Response(0, 0, lambda method, part: made_up[method], classes=np.arange(n))
    trial, see = CandidateScorer((name,), labels=classes), (truth[:, None], truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = trial.score(response, LogisticRegression(), lambda: see, truth, "test", {})[name]
    if isinstance(found, str) or not math.isfinite(found):
        raise InputError(
            f"{opt('scoring', name)} cannot score these {n} classes ({found}); {INSTEAD[task]}"
        )
