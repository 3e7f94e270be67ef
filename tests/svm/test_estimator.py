from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from distributed import Client
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from pipelines import SVMGridSearch

X, y = load_digits(return_X_y=True)
X, y = ((X - 8) / 4.6)[:500], y[:500]
C, GAMMA = [100.0, 1.0], [1e-2, 1e-4]


@parametrize_with_checks([SVMGridSearch(C=(1.0, 10.0), gamma=(0.01, 0.1))])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:The least populated class")
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "cv",
    [
        3,
        StratifiedKFold(4, shuffle=True, random_state=1),
        ShuffleSplit(3, random_state=0),
        RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0),
    ],
    ids=lambda cv: type(cv).__name__,
)
def test_results_are_those_of_grid_search_cv(cv: Any) -> None:
    ours = SVMGridSearch(C, GAMMA, cv=cv, solver="sklearn").fit(X, y)
    peer = GridSearchCV(SVC(), {"C": sorted(C), "gamma": sorted(GAMMA)}, cv=cv).fit(X, y)
    assert set(ours.cv_results_) == set(peer.cv_results_)
    for key, expected in peer.cv_results_.items():
        if "test_score" in key:
            np.testing.assert_allclose(ours.cv_results_[key], expected, atol=1e-12)
    assert ours.cv_results_["params"] == peer.cv_results_["params"]
    assert ours.best_params_ == peer.best_params_
    assert ours.best_index_ == peer.best_index_
    assert ours.best_score_ == pytest.approx(peer.best_score_)
    assert ours.n_splits_ == peer.n_splits_
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X))
    assert ours.score(X, y) == peer.score(X, y)


def test_the_path_solver_finds_the_same_scores() -> None:
    ours = SVMGridSearch(C, GAMMA).fit(X, y)
    peer = SVMGridSearch(C, GAMMA, solver="sklearn").fit(X, y)
    difference = ours.cv_results_["mean_test_score"] - peer.cv_results_["mean_test_score"]
    assert np.abs(difference * len(y)).max() <= 2  # rows whose votes tie
    assert ours.best_params_ == peer.best_params_
    assert np.mean(ours.predict(X) == peer.predict(X)) > 0.99


@pytest.mark.parametrize("solver", ["path", "sklearn"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
        {"class_weight": "balanced"},
        {"class_weight": {"odd": 3.0}},
    ],
    ids=str,
)
def test_what_svc_takes_it_takes(solver: str, parameters: dict[str, Any]) -> None:
    words = np.array(["even", "odd", "nine"])[np.where(y == 9, 2, y % 2)]
    ours = SVMGridSearch([1.0], [1e-2], cv=3, solver=solver, **parameters).fit(X, words)
    peer = GridSearchCV(SVC(**parameters), {"C": [1.0], "gamma": [1e-2]}, cv=3).fit(X, words)
    assert ours.best_score_ == pytest.approx(peer.best_score_, abs=0.005)
    assert np.mean(ours.predict(X) == peer.predict(X)) > 0.995


@pytest.mark.parametrize("solver", ["path", "sklearn"])
@pytest.mark.parametrize(
    "scoring",
    ["f1_macro", make_scorer(fbeta_score, beta=2, pos_label="nine"), "roc_auc"],
    ids=["f1_macro", "fbeta of a label", "roc_auc"],
)
def test_any_scorer_of_predictions_or_decision_values(solver: str, scoring: Any) -> None:
    words = np.where(y == 9, "nine", "other")
    ours = SVMGridSearch(C, GAMMA, cv=3, solver=solver, scoring=scoring).fit(X, words)
    grid = {"C": sorted(C), "gamma": sorted(GAMMA)}
    peer = GridSearchCV(SVC(), grid, cv=3, scoring=scoring).fit(X, words)
    for key in ("split1_test_score", "mean_test_score"):
        np.testing.assert_allclose(ours.cv_results_[key], peer.cv_results_[key], atol=0.02)
    assert ours.best_params_ == peer.best_params_
    assert ours.score(X, words) == pytest.approx(peer.score(X, words), abs=0.005)


@pytest.mark.parametrize("solver", ["path", "sklearn"])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_probabilities_are_those_of_the_calibrated_best(solver: str, n_classes: int) -> None:
    some = y < n_classes
    words = np.array([f"{code} of ten" for code in y[some]])
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    ours = SVMGridSearch([1.0], [1e-2], cv=cv, solver=solver, probability=True)
    probabilities = ours.fit(X[some], words).predict_proba(X[some])
    peer = CalibratedClassifierCV(SVC(C=1.0, gamma=1e-2), cv=cv, ensemble=False)
    expected = peer.fit(X[some], words).predict_proba(X[some])
    difference = np.abs(probabilities - expected)
    # a pair's value about 0 may go the other way and be a vote for another class
    assert np.mean(difference.max(axis=1) < 1e-3) > 0.97
    np.testing.assert_array_equal(ours.predict_log_proba(X[some]), np.log(probabilities))
    assert ours.best_estimator_.classes_.tolist() == peer.classes_.tolist()


def test_without_probability_there_is_none() -> None:
    assert not hasattr(SVMGridSearch(), "predict_proba")
    assert not hasattr(SVMGridSearch(), "predict_log_proba")


def test_labels_may_be_words_and_groups_are_kept() -> None:
    words = np.array(["odd" if code % 2 else "even" for code in y])
    groups = np.arange(len(y)) % 5
    search = SVMGridSearch(C, GAMMA, cv=GroupKFold(5)).fit(X, words, groups=groups)
    assert search.n_splits_ == 5
    assert set(search.predict(X)) == {"odd", "even"}
    assert search.best_estimator_.classes_.tolist() == ["even", "odd"]


def test_a_cluster_gives_the_same(four_workers: Client) -> None:
    here = SVMGridSearch(C, GAMMA).fit(X, y)
    there = SVMGridSearch(C, GAMMA, client=four_workers).fit(X, y)
    np.testing.assert_array_equal(
        here.cv_results_["mean_test_score"], there.cv_results_["mean_test_score"]
    )
    np.testing.assert_array_equal(here.predict(X), there.predict(X))


def test_without_a_client_no_port_is_opened() -> None:
    program = """
import socket
def refuse(self, *address):
    raise AssertionError(f"a port was opened: {address}")
socket.socket.bind = socket.socket.listen = refuse
from sklearn.datasets import load_iris
from pipelines import SVMGridSearch
search = SVMGridSearch([1.0, 10.0], [0.1]).fit(*load_iris(return_X_y=True))
print(search.best_params_)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "{'C': 1.0, 'gamma': 0.1}\n"


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"C": []}, "C must be positive finite numbers, at least one"),
        ({"gamma": [0.1, -1]}, "gamma must be positive finite numbers"),
        ({"decision": "all"}, "'decision' parameter of SVMGridSearch .* Got 'all'"),
        ({"solver": "svc"}, "^solver must be auto or one of"),
        ({"kernel": "rbg"}, "'kernel' parameter .* Got 'rbg'"),
        ({"class_weight": "even"}, "'class_weight' parameter .*'balanced'"),
        (
            {"class_weight": {1: 2.0}, "decision": "ovr", "solver": "sklearn"},
            "class_weight must be None or 'balanced' for decision='ovr' with solver='sklearn'",
        ),
        ({"scoring": "f1_marco"}, "^scoring must be a scorer .*; did you mean f1_macro?"),
        ({"scoring": "roc_auc"}, "^scoring='roc_auc' cannot score these 10 classes"),
        ({"scoring": "neg_log_loss"}, "^scoring must need predictions or decision values"),
        (
            {"probability": True, "cv": ShuffleSplit(2, random_state=0)},
            "probability=True needs a cv whose folds validate every row once, and",
        ),
    ],
)
def test_parameters_that_cannot_be_used(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SVMGridSearch(**parameters).fit(X, y)


def test_failed_fits_are_counted_and_never_best() -> None:
    with (
        pytest.warns(
            FitFailedWarning,
            match="6 of 6 fits failed: 6 failed: the training rows are of one class",
        ),
        pytest.raises(ValueError, match="every candidate failed"),
    ):
        # the first training part of unshuffled folds has one class only
        SVMGridSearch([1.0, 2.0], [0.1], cv=[(np.arange(9), np.arange(9, 12))] * 3).fit(
            X[:12], [0] * 9 + [1] * 3
        )


def test_it_is_an_estimator_like_others() -> None:
    search = clone(SVMGridSearch(C=C, gamma=GAMMA, cv=3))
    assert search.get_params()["cv"] == 3
    with pytest.raises(NotFittedError):
        search.predict(X)
