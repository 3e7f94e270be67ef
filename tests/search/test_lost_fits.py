"""Fits that end their worker, or their task, cost a ``GridSearch`` no other fit."""

from __future__ import annotations

import dask
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV

from cluster_setup import open_cluster
from pipelines import GridSearch
from tests.search.awkward import Interrupts, Kills, Nearest, NoParams, Surrogates

X, y = load_iris(return_X_y=True)
GRID = {"k": [1, 2, 3]}


@pytest.mark.slow
def test_a_candidate_that_kills_its_worker_has_the_error_score():
    once = dask.config.set({"distributed.scheduler.allowed-failures": 0})
    with once, open_cluster("local", 2) as client:
        search = GridSearch(Kills(), GRID, cv=2, client=client, return_train_score=True)
        with (
            pytest.warns(FitFailedWarning, match="its worker died 1 times"),
            pytest.warns(UserWarning, match="non-finite"),
        ):
            search.fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    usual = GridSearchCV(Nearest(), {"k": [1]}, cv=2).fit(X, y).best_score_
    np.testing.assert_array_equal(scores, [usual, np.nan, usual])
    assert np.isnan(search.cv_results_["mean_train_score"][1])
    assert search.fits == (6, 4)
    assert search.best_params_ == {"k": 1}


def test_a_candidate_that_raises_an_interrupt_has_it_too(one_worker):
    search = GridSearch(Interrupts(), GRID, cv=3, client=one_worker, error_score=-1.0)
    with pytest.warns(FitFailedWarning, match="the task raised KeyboardInterrupt"):
        search.fit(X, y)
    assert search.cv_results_["mean_test_score"][1] == -1.0
    with pytest.raises(RuntimeError, match="the task raised KeyboardInterrupt"):
        search.set_params(error_score="raise").fit(X, y)


@pytest.mark.parametrize("on_a_cluster", [False, True])
def test_error_score_raise_gives_the_error_itself(on_a_cluster, one_worker):
    client = one_worker if on_a_cluster else None
    search = GridSearch(Surrogates(), GRID, cv=3, client=client, error_score="raise")
    with pytest.raises(KeyError, match="nor there"):
        search.fit(X, y)


def test_what_scikit_learn_raises_is_raised(one_worker):
    for search in (GridSearchCV(NoParams(), GRID), GridSearch(NoParams(), GRID, client=one_worker)):
        kind = type(search)
        with pytest.raises(RuntimeError, match="they are secret"):
            kind.fit(search, X, y)
