"""One fit of a step for all numbers of columns that pipelines keep of it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_classification
from sklearn.feature_selection import (
    SelectFdr,
    SelectFpr,
    SelectFwe,
    SelectKBest,
    SelectPercentile,
    chi2,
    f_classif,
    mutual_info_classif,
)
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from pipelines import GridSearch
from pipelines.search.shared.pipeline_steps import StepCache

pytestmark = pytest.mark.filterwarnings("ignore:.*constant", "ignore:invalid value")

# Equal columns have equal scores, and constant ones none.
X, y = make_classification(300, 12, n_informative=4, n_repeated=3, class_sep=2, random_state=0)
X = np.hstack([X, X[:, :4], np.zeros((300, 2)), np.round(X[:, 4:8])])

Case = tuple[Any, str, list[Any]]
CASES: dict[str, Case] = {
    "best": (SelectKBest(f_classif), "k", [1, 2, 3, 5, 8, 13, 21, "all"]),
    "best by chi2": (SelectKBest(chi2), "k", [1, 4, 9]),
    "best by information": (
        SelectKBest(partial(mutual_info_classif, random_state=0)),
        "k",
        [1, 4, 9],
    ),
    "percentile": (SelectPercentile(), "percentile", [5, 10, 33.3, 100]),
    "false positives": (SelectFpr(), "alpha", [0.01, 0.3, 1.0]),
    "false discoveries": (SelectFdr(), "alpha", [0.01, 0.3]),
    "any error": (SelectFwe(), "alpha", [0.05, 0.5]),
}


def fits_of_steps(monkeypatch):
    """Filled with how many steps were fitted for each group of pipelines."""
    prepare, n_fits = StepCache.prepare, list[int]()

    def counted(*arguments):
        prepared = prepare(*arguments)
        n_fits.append(prepared[2])
        return prepared

    monkeypatch.setattr(StepCache, "prepare", counted)
    return n_fits


@pytest.mark.filterwarnings("ignore:Clustering")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("form", [np.array, np.asfortranarray, pd.DataFrame, csr_array])
@pytest.mark.parametrize("final", [KNeighborsClassifier(), GaussianNB()], ids=["share", "plain"])
def test_selections_are_those_of_separate_fits(name, form, final, monkeypatch):
    selection, parameter, widths = CASES[name]
    rows = form(X - X.min(axis=0))  # chi2 is of counts
    if form is csr_array and isinstance(final, GaussianNB):
        final = KNeighborsClassifier(weights="distance")
    pipeline = Pipeline([("select", selection), ("final", final)])
    how = {"cv": 3, "scoring": ["accuracy", "neg_log_loss"], "refit": False}
    how |= {"return_train_score": True, "error_score": "raise"}
    grid = {f"select__{parameter}": widths}
    theirs = GridSearchCV(pipeline, grid, **how).fit(rows, y)
    n_fits = fits_of_steps(monkeypatch)
    ours = GridSearch(pipeline, grid, **how).fit(rows, y)
    for column in theirs.cv_results_:
        if column.startswith(("mean_test", "mean_train", "split")):
            np.testing.assert_array_equal(ours.cv_results_[column], theirs.cv_results_[column])
    assert sum(n_fits) == 3


def test_the_selection_behind_a_step_and_before_one_is_fitted_once_too(
    monkeypatch,
):
    steps = [("scale", StandardScaler()), ("select", SelectKBest()), ("again", StandardScaler())]
    pipeline = Pipeline([*steps, ("final", GaussianNB())])
    grid = {"select__k": [2, 4, 6], "final__var_smoothing": [1e-9, 1e-3]}
    theirs = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    n_fits = fits_of_steps(monkeypatch)
    ours = GridSearch(pipeline, grid, cv=2).fit(X, y)
    column = "mean_test_score"
    np.testing.assert_array_equal(ours.cv_results_[column], theirs.cv_results_[column])
    assert sum(n_fits) == 2 * (1 + 1 + 3)


def own_score(X, y):
    return np.random.random(X.shape[1])  # noqa: NPY002


@pytest.mark.parametrize("score", [mutual_info_classif, own_score, partial(own_score)])
def test_scores_that_may_draw_are_not_shared(score, monkeypatch):
    pipeline = Pipeline([("select", SelectKBest(score)), ("final", KNeighborsClassifier())])
    n_fits = fits_of_steps(monkeypatch)
    grid = {"select__k": [2, 3], "final__n_neighbors": [1, 3]}
    search = GridSearch(pipeline, grid, cv=2).fit(X, y)
    assert not n_fits
    assert search.fits.n_made == search.fits.n_requested


@pytest.mark.parametrize(
    ("selection", "parameter", "widths"),
    [
        (SelectKBest(), "k", [3, 1000]),
        (SelectKBest(), "k", [3, 0]),
        (SelectKBest(), "k", [3, -1]),
        (SelectFwe(), "alpha", [0.5, 1e-300]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_warns_or_fails_does_so_by_itself(selection, parameter, widths):
    pipeline = Pipeline([("select", selection), ("final", KNeighborsClassifier())])
    grid = {f"select__{parameter}": widths}
    noise = np.random.default_rng(0).normal(size=(300, 6))
    rows = np.hstack([X[:, :6], noise])
    theirs = GridSearchCV(pipeline, grid, cv=3).fit(rows, y)
    ours = GridSearch(pipeline, grid, cv=3).fit(rows, y)
    column = "mean_test_score"
    np.testing.assert_array_equal(ours.cv_results_[column], theirs.cv_results_[column])
