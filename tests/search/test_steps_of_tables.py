"""First steps made of several transformers are one step, with tables in and out of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_classif, mutual_info_classif
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pipelines import GridSearch
from pipelines.search.fitting import group_candidates
from pipelines.search.scoring import CandidateScorer

rng = np.random.default_rng(0)
N = 150
TABLE = pd.DataFrame(
    {f"number{i}": rng.normal(size=N) for i in range(4)}
    | {f"word{i}": rng.choice(list("abcd"), N) for i in range(2)}
)
TABLE.iloc[::7, 0] = np.nan
NUMBERS, WORDS = list(TABLE.columns[:4]), list(TABLE.columns[4:])
y = ((TABLE.number1 + (TABLE.word0 == "a") + rng.normal(size=N)) > 0).to_numpy().astype(int)


def of_columns(sparse=True):
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore", sparse_output=sparse)
    return ColumnTransformer([("numbers", numbers, NUMBERS), ("words", words, WORDS)])


def union(*parts):
    joined = FeatureUnion([(f"part{i}", part) for i, part in enumerate(parts)])
    return make_pipeline(SimpleImputer(), joined)


def steps_and(final, first):
    return Pipeline([("first", first), ("final", final)])


TABLES = of_columns(sparse=False).set_output(transform="pandas")
SHARED: dict[str, Any] = {
    "columns": (of_columns(), TABLE),
    "columns that give tables": (TABLES, TABLE),
    "columns, then numbers": (
        Pipeline([("a", TABLES), ("b", PCA(3)), ("c", StandardScaler())]),
        TABLE,
    ),
    "union": (
        union(PCA(2), SelectKBest(f_classif, k=2), StandardScaler()),
        TABLE[NUMBERS],
    ),
    "union that gives tables": (
        union(PCA(2), StandardScaler()).set_output(transform="pandas"),
        TABLE[NUMBERS],
    ),
}


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize(
    ("final", "grid", "n_made"),
    [
        (KNeighborsClassifier(), {"final__n_neighbors": [1, 3, 7]}, 3),
        (DecisionTreeClassifier(random_state=0), {"final__max_depth": [1, 3]}, 6),
    ],
    ids=["share", "plain"],
)
def test_a_step_of_several_parts_is_fitted_once(name, final, grid, n_made, monkeypatch):
    first, X = SHARED[name]
    pipeline = steps_and(final, first)
    how = {"cv": 3, "return_train_score": True, "error_score": "raise"}
    theirs = GridSearchCV(pipeline, grid, **how).fit(X, y)
    fitted, fit = list[Any](), SimpleImputer.fit_transform

    def counted(imputer, *arguments, **named):
        fitted.append(imputer)
        return fit(imputer, *arguments, **named)

    monkeypatch.setattr(SimpleImputer, "fit_transform", counted)
    ours = GridSearch(pipeline, grid, **{**how, "refit": False}).fit(X, y)
    assert len(fitted) == 3
    assert ours.fits.n_made == n_made
    for column in ("mean_test_score", "mean_train_score"):
        np.testing.assert_array_equal(ours.cv_results_[column], theirs.cv_results_[column])


def test_a_scorer_sees_the_names_that_tables_have():
    def names(estimator, X, y):
        assert list(estimator[-1].feature_names_in_) == list(estimator[0].get_feature_names_out())
        return float(len(estimator[-1].feature_names_in_))

    pipeline = steps_and(KNeighborsClassifier(), TABLES)
    grid = {"final__n_neighbors": [1, 3]}
    search = GridSearch(pipeline, grid, cv=2, scoring=names, error_score="raise").fit(TABLE, y)
    assert search.fits.n_made == 2
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], 12)


@pytest.mark.parametrize(
    "part", [mutual_info_classif, partial(mutual_info_classif, random_state=None)]
)
def test_a_part_that_draws_is_not_shared(part):
    for first in (union(SelectKBest(part, k=2)), union(PCA(2, svd_solver="randomized"))):
        pipelines = [steps_and(KNeighborsClassifier(k), first) for k in (1, 2)]
        groups = group_candidates(pipelines, CandidateScorer())
        assert [group.shared for group in groups] == [None, None]


def test_an_analysis_inside_that_turned_out_to_draw_is_not_shared():
    wide = rng.normal(size=(90, 520))
    for seed, n_made in ((None, 6), (0, 2)):
        pipeline = steps_and(KNeighborsClassifier(), union(PCA(3, random_state=seed)))
        search = GridSearch(pipeline, {"final__n_neighbors": [1, 2, 3]}, cv=2)
        assert search.fit(wide, y[:90]).fits.n_made == n_made


def test_tables_and_arrays_out_of_equal_steps_are_two_steps():
    first, second = StandardScaler(), StandardScaler().set_output(transform="pandas")
    pipelines = [steps_and(KNeighborsClassifier(k), step) for step in (first, second) for k in (1,)]
    assert len(group_candidates(pipelines, CandidateScorer())) == 2
