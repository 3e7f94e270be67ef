"""Support vector machines that the path solver would not give as scikit-learn does are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.svm import SVC, SVR, NuSVC

from pipelines.data.dataset import read_only
from pipelines.search.grid_search import GridSearch
from pipelines.search.shared import shared_fit_of

X, Y = load_iris(return_X_y=True)
GRID: dict[str, Any] = {"C": [0.1, 1.0, 10.0]}


@pytest.mark.parametrize(
    "estimator",
    [
        SVC(max_iter=3),
        SVR(max_iter=1000),
        SVC(probability=True),
        SVC(break_ties=True),
        SVC(kernel="precomputed"),
        SVR(kernel="precomputed"),
        SVC(kernel=lambda A, B: A @ B.T),
        SVC(gamma=0.0),
    ],
)
def test_refused(estimator):
    kind = shared_fit_of(estimator)
    assert kind is not None
    assert kind.group_key(estimator) is None


def test_another_problem_is_not_known():
    assert shared_fit_of(NuSVC()) is None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_limit_of_iterations_gives_scikit_learns_scores():
    ours, theirs = (
        kind(SVC(max_iter=3), GRID, cv=3, refit=False).fit(X, Y)
        for kind in (GridSearch, GridSearchCV)
    )
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_array_equal(ours.cv_results_[name], theirs.cv_results_[name])


@pytest.mark.parametrize("weights", ["balanced", {0: 2.0, 1: 0.5}])
def test_weights_of_classes_on_read_only_rows(weights):
    cancer = load_breast_cancer()
    rows, y = read_only(scale(cancer.data)), read_only(cancer.target)
    grid = [{"C": [C], "gamma": [gamma]} for C, gamma in ((0.3, 0.002), (20.0, 0.02), (5.0, 0.1))]
    ours, theirs = (
        kind(SVC(class_weight=weights, tol=1e-5), grid, cv=3, refit=False).fit(rows, y)
        for kind in (GridSearch, GridSearchCV)
    )
    assert ours._n_iterations > 0  # by the path solver
    means = ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    np.testing.assert_allclose(*means, atol=1e-12)
