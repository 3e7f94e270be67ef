from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import (
    balanced_accuracy_score,
    f1_score,
    fbeta_score,
    get_scorer_names,
    make_scorer,
    roc_auc_score,
)

from pipelines.errors import InputError
from pipelines.search.scoring import Scoring, ScoringFailed, resolve_scoring

WORDS = np.array(["cat", "dog", "eel"])
TRUTH, PREDICTED = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 1, 2, 0])


def scoring_for(scoring: object, classes: np.ndarray = WORDS) -> Scoring:
    found = resolve_scoring(scoring)
    assert found is not None
    return found.on(classes)


@pytest.mark.parametrize("scoring", [None, "accuracy"])
def test_accuracy_needs_no_scorer(scoring: str | None) -> None:
    assert resolve_scoring(scoring) is None


def test_scores_are_scikit_learns_on_the_labels() -> None:
    f1 = scoring_for("f1_macro")
    assert not f1.needs_decisions
    assert f1.score(TRUTH, PREDICTED) == f1_score(TRUTH, PREDICTED, average="macro")
    balanced = scoring_for("balanced_accuracy").score(TRUTH, PREDICTED)
    assert balanced == balanced_accuracy_score(TRUTH, PREDICTED)
    dogs = scoring_for(make_scorer(fbeta_score, beta=2, labels=["dog"], average="macro"))
    assert dogs.name == "fbeta_score"
    expected = fbeta_score(TRUTH, PREDICTED, beta=2, labels=[1], average="macro")
    assert dogs.score(TRUTH, PREDICTED) == expected


def test_decision_values_are_used_where_they_are_needed() -> None:
    auc = scoring_for("roc_auc", WORDS[:2])
    truth, values = np.array([0, 1, 0, 1]), np.array([-2.0, 0.5, 0.7, 3.0])
    assert auc.needs_decisions
    assert auc.score(truth, (values > 0).astype(int), values) == roc_auc_score(truth, values)
    best_two = scoring_for("top_k_accuracy")
    values = np.eye(3)[[0, 0, 1, 1, 2, 2]]
    assert best_two.score(TRUTH, TRUTH, values) == 1


def test_a_class_that_is_never_predicted_is_no_warning() -> None:
    scoring_for("precision_macro").score(TRUTH, np.zeros(6, dtype=int))


def test_rows_that_cannot_be_scored_say_why() -> None:
    auc = scoring_for("roc_auc", WORDS[:2])
    with pytest.raises(ScoringFailed, match="it gives nan"):
        auc.score(np.zeros(3, dtype=int), np.zeros(3, dtype=int), np.arange(3.0))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("f1_marco", r"must be a scorer .* got 'f1_marco'; did you mean f1_macro\?"),
        ("zzz", "got 'zzz'; use for instance balanced_accuracy"),
        ("neg_log_loss", "got neg_log_loss, which needs probabilities"),
        ("roc_auc_ovr", "got roc_auc_ovr, which needs probabilities"),
        ("neg_mean_squared_error", "must be a scorer of classes, got neg_mean_squared_error"),
        (len, "must be a name or what sklearn.metrics.make_scorer gives"),
        (["accuracy", "f1"], "must be a name or what sklearn.metrics.make_scorer gives"),
    ],
)
def test_a_scoring_that_cannot_be_used_is_one_line(name: object, words: str) -> None:
    with pytest.raises(InputError, match=f"^scoring .*{words}") as caught:
        resolve_scoring(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("roc_auc", WORDS),
        ("f1", WORDS),
        ("f1", WORDS[:2]),  # which of two words is positive, it cannot know
        ("f1_samples", WORDS),
    ],
)
def test_classes_that_it_cannot_score_are_refused_before_the_run(
    name: str, classes: np.ndarray
) -> None:
    scoring = resolve_scoring(name)
    assert scoring is not None
    words = f"scoring={name!r} cannot score these {len(classes)} classes"
    with pytest.raises(InputError, match=words) as caught:
        scoring.on(classes)
    assert "\n" not in str(caught.value)


def test_every_scorer_of_scikit_learn_is_used_or_refused() -> None:
    usable = 0
    for name in get_scorer_names():
        try:
            scoring = resolve_scoring(name)
            usable += scoring is None or scoring.on(np.array([0, 1])) is not None
        except InputError:
            continue
    assert usable > 25
