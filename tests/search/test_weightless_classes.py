"""Weights of 0 for all training rows of a class: fits of SVCs that share are those of ``SVC``."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from pipelines import GridSearch

X, y = load_iris(return_X_y=True)
GRID = {"C": [0.1, 10], "gamma": [0.01, 0.1]}


def scores(search, weights, rows=slice(None)):
    search_cv = search(SVC(), GRID, cv=3, refit=False)
    results = search_cv.fit(X[rows], y[rows], sample_weight=weights[rows]).cv_results_
    return np.stack([results[f"split{i}_test_score"] for i in range(3)])


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_class_of_three_is_lost(lost):
    weights = np.where(y == lost, 0.0, 1.0)
    np.testing.assert_array_equal(scores(GridSearch, weights), scores(GridSearchCV, weights))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore:One or more of the test scores")
def test_a_split_of_which_one_class_is_left_fails():
    # The rows of the first class that weigh something are all tested by the first split.
    weights = np.where((y == 0) & (np.arange(len(y)) >= 17), 0.0, 1.0)
    ours = scores(GridSearch, weights, y < 2)
    np.testing.assert_array_equal(ours, scores(GridSearchCV, weights, y < 2))
    assert np.isnan(ours[0]).all()
    assert not np.isnan(ours[1:]).any()
