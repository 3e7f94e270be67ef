from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import (
    balanced_accuracy_score,
    f1_score,
    get_scorer_names,
    mean_squared_error,
    roc_auc_score,
    top_k_accuracy_score,
)
from sklearn.svm import SVC

from pipelines.data.fits import Fit
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.errors import InputError
from pipelines.search.scoring import (
    METHOD_OF,
    PREDICTIONS,
    CandidateScorer,
    check_scoring,
    methods_of,
)
from pipelines.search.shared.base import SplitRows
from pipelines.sklearn_private import safe_split
from pipelines.svm.path_svc import PathSVC
from pipelines.svm.path_svr import PathSVR

WORDS = np.array(["cat", "dog", "eel"])
TRUTH, PREDICTED = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 1, 2, 0])


def score(
    name,
    truth,
    predicted,
    decisions=None,
    classes=WORDS,
):
    """What a scorer gives of predictions alone: no estimator is fitted."""
    answers = {"predict": predicted, "decision_function": decisions}
    fit = Fit(0, 0, lambda method, part: answers[method])
    fit.classes = None if classes is None else np.arange(len(classes))
    scorer = CandidateScorer((name,), labels=classes)
    everything, X = np.arange(len(truth)), truth[:, None]
    data = FoldedData(X, truth, X[:0], truth[:0], (), Scaling("none"))
    estimator = PathSVR() if classes is None else PathSVC()
    rows = SplitRows(data, [(everything, everything)], [0], "search", None, estimator)
    scorer.score_fit(fit, estimator, rows)
    return fit.scores["test_scores"][name]


def test_scores_are_scikit_learns_on_the_labels():
    assert score("accuracy", TRUTH, PREDICTED) == 4 / 6
    assert score("f1_macro", TRUTH, PREDICTED) == f1_score(TRUTH, PREDICTED, average="macro")
    expected = balanced_accuracy_score(TRUTH, PREDICTED)
    assert score("balanced_accuracy", TRUTH, PREDICTED) == expected


def test_decision_values_are_used_where_they_are_needed():
    truth, values = np.array([0, 1, 0, 1]), np.array([-2.0, 0.5, 0.7, 3.0])
    scored = score("roc_auc", truth, (values > 0).astype(int), values, WORDS[:2])
    assert scored == roc_auc_score(truth, values)
    values = np.array([[3.0, 2, 1], [1, 3, 2], [1, 2, 3], [3, 2, 1], [2, 1, 3], [3, 2, 1]])
    assert score("top_k_accuracy", TRUTH, TRUTH, values) == top_k_accuracy_score(TRUTH, values)


def test_squared_errors_have_scikit_learns_bits():
    generator = np.random.default_rng(0)
    for n in (1, 2, 7, 8, 9, 127, 129, 1000, 20_001):
        truth, noise = generator.normal(size=(2, n)) * 10.0 ** generator.uniform(-3, 3)
        predicted = truth + noise
        scored = score("neg_mean_squared_error", truth, predicted, classes=None)
        assert scored == -mean_squared_error(truth, predicted)
    predicted[3] = np.nan
    assert "NaN" in str(score("neg_mean_squared_error", truth, predicted, classes=None))


class NoClasses(ClassifierMixin, BaseEstimator):
    """A classifier that does not say which classes it knows."""

    def predict(self, X):
        return PREDICTED[: len(X)]


def test_accuracy_is_scored_without_scikit_learns_checks():
    scorer, estimator = CandidateScorer(), NoClasses()
    estimator.classes_ = np.arange(3)
    assert scorer.by_name(estimator, TRUTH[:, None], TRUTH) == {"accuracy": 4 / 6}
    assert "scorer" not in vars(scorer)  # it was not made


def test_where_accuracy_is_refused_the_reason_is_scikit_learns():
    estimator = NoClasses()
    for classes, reason in ((None, "classes_"), (np.arange(3), "inconsistent numbers of samples")):
        if classes is not None:
            estimator.classes_ = classes
        X = TRUTH[:, None] if classes is None else TRUTH[1:, None]
        assert reason in CandidateScorer().by_name(estimator, X, TRUTH)["accuracy"]


def test_rows_of_a_split_are_scikit_learns():
    generator = np.random.default_rng(0)
    train, test = np.arange(4, 20), np.array([3, 1, 0])
    arrays = generator.normal(size=(20, 3)), np.asfortranarray(generator.normal(size=(20, 3)))
    kernel = generator.normal(size=(20, 20))
    for X, estimator in (
        *((X, SVC()) for X in (*arrays, arrays[0].tolist(), pd.DataFrame(arrays[0]), kernel)),
        (kernel, SVC(kernel="precomputed")),
    ):
        y = np.arange(20)
        data = FoldedData(X, y, X[:0], y[:0], (), Scaling("none"))
        rows = SplitRows(data, [(train, test)], [0], "search", None, estimator)
        for name, part, other_parts in (("train", train, ()), ("test", test, (train,))):
            for ours, theirs in zip(
                rows.part_rows(0, name),
                safe_split(estimator, X, y, part, *other_parts),
                strict=True,
            ):
                np.testing.assert_array_equal(ours, theirs)
                assert type(ours) is type(theirs)
                if isinstance(ours, np.ndarray):
                    assert ours.strides == theirs.strides


def test_a_kernel_that_is_not_square_is_refused():
    X, y = np.ones((6, 3)), np.arange(6)
    data = FoldedData(X, y, X[:0], y[:0], (), Scaling("none"))
    rows = SplitRows(data, [(y[:4], y[4:])], [0], "search", None, SVC(kernel="precomputed"))
    with pytest.raises(ValueError, match="square"):
        rows.part_rows(0, "train")


def test_what_scorers_need_is_known_before():
    assert CandidateScorer().methods == {"predict"}
    assert CandidateScorer(("f1_macro", "roc_auc")).methods == {"predict", "decision_function"}
    assert CandidateScorer(("f1_macro", "roc_auc")).methods <= PREDICTIONS
    assert not CandidateScorer(("neg_log_loss",)).methods <= PREDICTIONS
    for name in METHOD_OF:
        assert CandidateScorer((name,)).methods == methods_of(CandidateScorer((name,)).scorer)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("f1_marco", r"must be a scorer .* got 'f1_marco'; did you mean f1_macro\?"),
        ("zzz", "got 'zzz'; use for instance balanced_accuracy"),
        ("neg_log_loss", "but neg_log_loss needs probabilities"),
        ("roc_auc_ovr", "but roc_auc_ovr needs probabilities"),
        ("neg_mean_squared_error", "must be one for classification, got neg_mean_squared_error"),
    ],
)
def test_a_scoring_that_cannot_be_used_is_one_line(name, words):
    with pytest.raises(InputError, match=f"^scoring .*{words}") as caught:
        check_scoring(name, WORDS)
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
def test_classes_that_it_cannot_score_are_refused_before_the_run(name, classes):
    words = f"scoring={name!r} cannot score these {len(classes)} classes"
    with pytest.raises(InputError, match=words) as caught:
        check_scoring(name, classes)
    assert "\n" not in str(caught.value)


def test_every_scorer_of_scikit_learn_is_used_or_refused():
    usable = 0
    for name in get_scorer_names():
        try:
            check_scoring(name, np.array([0, 1]))
        except InputError:
            continue
        usable += 1
    assert usable > 25
