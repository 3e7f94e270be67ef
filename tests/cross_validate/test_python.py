"""From Python: ``GridSearch`` here, on a cluster and in processes of joblib."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pipelines import GridSearch
from pipelines.search.shared import shared_fit_of


def test_a_search_on_a_cluster_is_that_of_scikit_learn(one_worker):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    weights = np.linspace(0.5, 1.5, len(y))
    forest, grid = RandomForestClassifier(random_state=0), {"n_estimators": [2, 5, 9]}
    options = {"cv": 3, "return_train_score": True}
    ours = GridSearch(forest, grid, client=one_worker, **options).fit(X, y, sample_weight=weights)
    theirs = GridSearchCV(forest, grid, **options).fit(X, y, sample_weight=weights)
    assert ours.fits == (9, 3)
    assert ours.best_params_ == theirs.best_params_
    for name, values in theirs.cv_results_.items():
        if name.startswith(("split", "mean_t", "rank")):
            np.testing.assert_array_equal(ours.cv_results_[name], values)
    assert (ours.predict(X) == theirs.predict(X)).all()


@pytest.mark.slow
def test_processes_of_joblib_give_the_same():
    X, y = load_iris(return_X_y=True)
    pipe, grid = (
        make_pipeline(StandardScaler(), KNeighborsClassifier()),
        {"kneighborsclassifier__n_neighbors": [1, 5, 9]},
    )
    ours = GridSearch(pipe, grid, n_jobs=2).fit(X, y)
    theirs = GridSearchCV(pipe, grid).fit(X, y)
    assert ours.fits == (15, 5)
    assert ours.cv_results_["mean_test_score"].tolist() == (
        theirs.cv_results_["mean_test_score"].tolist()
    )


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (KNeighborsClassifier(), {"n_neighbors": [1, 5, 9]}),
        (KNeighborsRegressor(), {"n_neighbors": [1, 5, 9]}),
        (Ridge(), {"alpha": [0.1, 10.0]}),
        (RandomForestClassifier(random_state=0), {"n_estimators": [2, 4]}),
    ],
)
def test_the_estimator_s_own_score_takes_the_shared_answers(estimator, grid, monkeypatch):
    X, y = load_iris(return_X_y=True)
    expected = GridSearchCV(estimator, grid, refit=False).fit(X, y).cv_results_

    calls = []
    kind = shared_fit_of(estimator)
    predict = kind.predict

    def ask(*arguments):
        calls.append(arguments)
        return predict(*arguments)

    monkeypatch.setattr(kind, "predict", ask)
    ours = GridSearch(estimator, grid, refit=False).fit(X, y).cv_results_
    assert ours["mean_test_score"] == pytest.approx(expected["mean_test_score"], rel=1e-12)
    assert len(calls) == 5, "once for each fold"


def test_a_scorer_that_looks_at_the_estimator_sees_a_real_one():
    X, y = load_iris(return_X_y=True)
    seen = []

    def n_trees(estimator, X, y):
        seen.append(type(estimator))
        return float(len(estimator.estimators_))

    search = GridSearch(
        RandomForestClassifier(random_state=0), {"n_estimators": [3, 7]}, scoring=n_trees, cv=2
    ).fit(X, y)
    assert search.cv_results_["mean_test_score"].tolist() == [3, 7]
    assert set(seen) == {RandomForestClassifier}
    assert search.fits == (4, 2)


def test_a_search_without_a_target():
    X, _ = load_iris(return_X_y=True)
    grid, estimator = {"n_clusters": [2, 3, 4]}, KMeans(n_init=1, random_state=0)
    ours = GridSearch(estimator, grid).fit(X)
    theirs = GridSearchCV(estimator, grid).fit(X)
    assert ours.best_params_ == theirs.best_params_
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )
