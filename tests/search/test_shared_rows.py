"""Estimators that write to their rows see copies, and get the scores that fresh rows give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from pipelines import GridSearch
from pipelines.data.dataset import copy_of, read_only
from pipelines.search.shared.base import SharedEstimators
from tests.search.awkward import Nearest, WritesAsked, WritesRows, WritingStep, writing_score

X, y = make_classification(120, 8, random_state=0)
X = 3 * X + 5
HOW: dict[str, Any] = {"cv": 3, "refit": False, "error_score": "raise"}

SEARCHES: dict[str, tuple[Any, dict[str, list[Any]], Any]] = {
    "ridge": (Ridge(copy_X=False), {"alpha": [0.1, 1.0, 10.0]}, None),
    "scaler": (
        make_pipeline(StandardScaler(copy=False), LogisticRegression()),
        {"logisticregression__C": [0.1, 1.0]},
        None,
    ),
    "analysis": (
        make_pipeline(StandardScaler(copy=False), PCA(copy=False), KNeighborsClassifier()),
        {"pca__n_components": [2, 3, None], "kneighborsclassifier__n_neighbors": [1, 5]},
        None,
    ),
    "fit": (WritesRows(), {"k": [1, 2, 3]}, None),
    "fit behind a step that gives its own rows": (
        make_pipeline(FunctionTransformer(), WritesRows()),
        {"writesrows__k": [1, 2, 3]},
        None,
    ),
    "predict": (
        make_pipeline(StandardScaler(), WritesAsked()),
        {"writesasked__k": [1, 2]},
        ["accuracy", "f1"],
    ),
    "step": (
        make_pipeline(WritingStep(), Nearest()),
        {"nearest__k": [1, 2]},
        None,
    ),
    "scorer": (KNeighborsClassifier(), {"n_neighbors": [1, 3, 5]}, writing_score),
    "scorer behind a step": (
        make_pipeline(StandardScaler(copy=False), KNeighborsClassifier()),
        {"kneighborsclassifier__n_neighbors": [1, 3, 5]},
        writing_score,
    ),
}


def scores_of(search, part="test"):
    """Return the scores of a part of the rows, by column."""
    return {
        name: column
        for name, column in search.cv_results_.items()
        if f"_{part}_" in name and not name.startswith(("rank", "std"))
    }


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_search_of_estimators_that_write_has_the_scores_of_scikit_learn(name, n_jobs):
    estimator, grid, scoring = SEARCHES[name]
    how = HOW | {"scoring": scoring}
    rows, targets = X.copy(), y.copy()
    theirs = GridSearchCV(estimator, grid, **how).fit(X, y)
    with parallel_config("threading"):
        ours = GridSearch(estimator, grid, n_jobs=n_jobs, **how).fit(rows, targets)
    for column, scores in scores_of(theirs).items():
        np.testing.assert_allclose(ours.cv_results_[column], scores, rtol=1e-9)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(targets, y)


@pytest.mark.parametrize("name", SEARCHES)
def test_they_have_them_on_worker_processes(name, four_workers):
    estimator, grid, scoring = SEARCHES[name]
    how = HOW | {"scoring": scoring}
    theirs = GridSearchCV(estimator, grid, **how).fit(X, y)
    ours = GridSearch(estimator, grid, client=four_workers, **how).fit(X, y)
    for column, scores in scores_of(theirs).items():
        np.testing.assert_allclose(ours.cv_results_[column], scores, rtol=1e-9)


def test_train_scores_are_of_the_rows_as_they_were():
    # scikit-learn scores what a fit of which that cannot be known has left of them.
    for awkward in (WritesRows(), WritesAsked()):
        searches = [
            GridSearch(
                make_pipeline(StandardScaler(), estimator),
                {f"{type(estimator).__name__.lower()}__k": [1, 2]},
                return_train_score=True,
                **HOW,
            ).fit(X, y)
            for estimator in (awkward, Nearest())
        ]
        for column, scores in scores_of(searches[1], "train").items():
            np.testing.assert_array_equal(searches[0].cv_results_[column], scores)


def test_frames_are_not_written_to_either():
    frame = pd.DataFrame(X)
    for name in ("ridge", "scaler", "analysis"):
        estimator, grid, _ = SEARCHES[name]
        theirs = GridSearchCV(estimator, grid, **HOW).fit(frame, y)
        ours = GridSearch(estimator, grid, **HOW).fit(frame, y)
        for column, scores in scores_of(theirs).items():
            np.testing.assert_allclose(ours.cv_results_[column], scores, rtol=1e-9)
    np.testing.assert_array_equal(frame.to_numpy(), X)


def test_what_shares_work_and_fails_on_rows_it_may_not_write_is_fitted_on_copies():
    class Writing(SharedEstimators):
        """Writes to the rows that all its candidates share."""

        name = "writing"
        types = (WritesRows,)
        shared = ("k",)

        def fit(self, estimators, X, y, **weights):
            return [estimator.fit(X, y) for estimator in estimators]

    search = GridSearch(WritesRows(), {"k": [1, 2]}, **HOW)
    search._search(X, y, {}, None, shared_fits=[Writing()])
    theirs = GridSearchCV(WritesRows(), {"k": [1, 2]}, **HOW).fit(X, y)
    assert search.fits == (6, 6)
    for column, scores in scores_of(theirs).items():
        np.testing.assert_array_equal(search.cv_results_[column], scores)


@pytest.mark.parametrize("write", [copy_of, read_only])
@pytest.mark.parametrize(
    "rows",
    [
        np.asfortranarray(X),
        X.astype(object),
        pd.DataFrame(X),
        csr_array(X),
        X.tolist(),
        np.ma.masked_array(X),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_rows_of_any_kind_are_kept_as_they_are(write, rows):
    kept = write(rows)
    assert type(kept) is type(rows)
    same = np.asarray(kept.todense() if hasattr(kept, "todense") else kept)
    np.testing.assert_array_equal(same.astype(float), X)
    if isinstance(rows, np.ndarray):
        assert kept.flags.f_contiguous == rows.flags.f_contiguous
        assert kept.flags.writeable == (write is copy_of)
        assert rows.flags.writeable
    elif hasattr(kept, "iloc"):
        kept.iloc[0, 0] = -1.0
        assert rows.iloc[0, 0] == X[0, 0]
