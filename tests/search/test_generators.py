"""Estimators that draw from global generators draw the same wherever they are fitted."""

from __future__ import annotations

import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pipelines import GridSearch, cross_validate
from pipelines.data.generators import (
    generators_kept,
    seed_generators,
    state_of_generators,
    watch,
)
from pipelines.run_folder import names
from tests.search.awkward import DrawingStep, Draws, DrawsFromPython

X, y = load_iris(return_X_y=True)
GRIDS: list[tuple[Any, dict[str, list[Any]]]] = [
    (Draws(), {"k": [1, 2]}),
    (make_pipeline(StandardScaler(), Draws()), {"draws__k": [1, 2]}),
    (make_pipeline(DrawingStep(), Draws()), {"draws__k": [1, 2]}),
    (RandomForestClassifier(n_estimators=2, max_depth=1), {"criterion": ["gini", "entropy"]}),
]


def scores(estimator, grid, seed, **how):
    """Return the scores of every split of a search that meets the generators so seeded."""
    seed_generators(seed)
    search = GridSearch(estimator, grid, cv=3, refit=False, **how).fit(X, y)
    return np.stack([search.cv_results_[f"split{i}_test_score"] for i in range(3)])


@pytest.mark.parametrize(("estimator", "grid"), GRIDS, ids=repr)
def test_a_search_draws_the_same_on_one_thread_and_on_processes(estimator, grid, four_workers):
    here = scores(estimator, grid, 3)
    np.testing.assert_array_equal(scores(estimator, grid, 3), here)
    np.testing.assert_array_equal(scores(estimator, grid, 3, client=four_workers), here)
    assert any((scores(estimator, grid, seed) != here).any() for seed in (4, 5, 6))


@pytest.mark.slow
def test_it_draws_the_same_in_processes_of_joblib():
    for estimator, grid in [*GRIDS, (DrawsFromPython(), {"k": [1, 2]})]:
        here = scores(estimator, grid, 3)
        np.testing.assert_array_equal(scores(estimator, grid, 3, n_jobs=2), here)


def test_a_search_draws_one_number_from_its_caller(one_worker):
    """Of numpy's, as the next search must draw others."""
    for client in (None, one_worker):
        seed_generators("before")
        np.random.random()  # noqa: NPY002
        expected = random.random(), np.random.random()  # noqa: NPY002
        seed_generators("before")
        GridSearch(Draws(), {"k": [1, 2]}, cv=3, refit=False, client=client).fit(X, y)
        assert (random.random(), np.random.random()) == expected  # noqa: NPY002


def run(results, workers, cluster="threads"):
    """Return the scores, and the test error, of a run."""
    ran = cross_validate.run(
        dataset="digits",
        limit=150,
        folds=3,
        estimator=["tests.search.awkward.Draws"],
        param=["tests.search.awkward.Draws:k=1,2,3"],
        preprocess="none",
        cluster=cluster,
        workers=workers,
        results=str(results),
    )
    cells = pd.read_parquet(results / names.CELLS).sort_values(["candidate", "fold"])
    return cells["score"].tolist(), ran.record["test_error"]


def test_a_command_draws_the_same_on_one_thread_and_on_processes(tmp_path, capsys):
    before = state_of_generators()
    here = run(tmp_path / "here", 1)
    assert state_of_generators() == before
    assert "global generator" not in capsys.readouterr().out
    assert run(tmp_path / "there", 2, "local") == here
    assert "global generator" not in capsys.readouterr().out
    run(tmp_path / "threads", 2)
    assert "an estimator draws from numpy's or torch's global generator" in capsys.readouterr().out


def test_threads_say_nothing_of_estimators_that_do_not_draw(tmp_path, capsys):
    cross_validate.run(
        dataset="digits",
        limit=150,
        folds=3,
        estimator=["knn", "forest"],
        param=["knn:n_neighbors=1,3", "forest:n_estimators=2,3"],
        cluster="threads",
        workers=2,
        results=str(tmp_path / "run"),
    )
    assert "global generator" not in capsys.readouterr().out


def test_torch_is_seeded_and_kept_where_it_is_imported():
    torch = pytest.importorskip("torch")
    assert "torch" in sys.modules
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with generators_kept():
        seed_generators(1, ("search", 1.0))
        first = torch.rand(3)
        seed_generators(1, ("search", 1.0))
        assert torch.equal(torch.rand(3), first)
        seed_generators(2, ("search", 1.0))
        assert not torch.equal(torch.rand(3), first)
    assert torch.equal(torch.rand(3), expected)


def test_generators_are_kept_where_a_fit_fails():
    class Fails(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            raise ValueError(f"drew {np.random.random()}")  # noqa: NPY002

    before = state_of_generators()
    with pytest.raises(ValueError, match="drew"):
        GridSearch(Fails(), {}, cv=3, error_score="raise").fit(X, y)
    assert state_of_generators() == before


def test_threads_that_only_seed_draw_nothing():
    with generators_kept(), ThreadPoolExecutor(4) as pool:
        list(pool.map(seed_generators, range(400)))
    assert not watch.drawn


def test_equal_seeds_of_numpy_are_equal_searches_and_repeats_are_others():
    search = GridSearch(Draws(), {"k": [1, 2]}, cv=3, refit=False)
    result = []
    for state in (1, 2):  # of Python's generator, which starts anywhere
        random.seed(state)
        np.random.seed(0)  # noqa: NPY002
        result += [search.fit(X, y).cv_results_["mean_test_score"].tolist() for _ in range(2)]
    assert result[:2] == result[2:]
    assert result[0] != result[1]


def test_two_searches_on_threads_leave_the_generators_as_they_were():
    start = threading.Barrier(2)

    def use(number):
        start.wait()
        with generators_kept():
            for step in range(100):
                seed_generators(number, step)

    before = state_of_generators()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(use, range(2)))
    assert state_of_generators() == before
