from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from distributed import Client
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import FitFailedWarning, NotFittedError
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
        ({"decision": "all"}, "decision must be 'ovo' or 'ovr', got 'all'"),
        ({"solver": "svc"}, "--solver must be auto or one of"),
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
