"""The fits of a search come to its backend, and nothing else does."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import numpy as np
import pytest
from joblib import delayed, effective_n_jobs, parallel_config
from joblib.parallel import Parallel, ParallelBackendBase, get_active_backend
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pipelines import GridSearch
from pipelines.search.executor import SearchExecutor
from pipelines.search.joblib_backend import SearchBackend
from pipelines.search.shared.pipeline_steps import StepCache

X, y = load_iris(return_X_y=True)
backends: list[tuple[type[ParallelBackendBase], int]] = []


class Watcher(ClassifierMixin, BaseEstimator):
    """Notes the backend that its fit would use."""

    def __init__(self, level=0):
        self.level = level

    def fit(self, X, y):
        backend, n_jobs = get_active_backend()
        backends.append((type(backend), n_jobs))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[self.level])


def test_the_refit_uses_the_backend_outside():
    backends.clear()
    with parallel_config("threading", n_jobs=3):
        outside = type(get_active_backend()[0]), 3
        search = GridSearch(Watcher(), {"level": [0, 1]}, cv=3).fit(X, y)
    assert search.fits == (6, 6)
    assert len(backends) == 7
    assert backends[-1] == outside
    assert SearchBackend not in {backend for backend, _ in backends}


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
@pytest.mark.parametrize("pre_dispatch", ["2*n_jobs", 1, "all"])
def test_all_fits_come_together_whatever_joblib_is_told(n_jobs, pre_dispatch):
    estimator, grid = KNeighborsClassifier(), {"n_neighbors": [1, 3, 5, 7]}
    search = GridSearch(estimator, grid, cv=3, n_jobs=n_jobs, pre_dispatch=pre_dispatch)
    with parallel_config("threading"):
        assert search.fit(X, y).fits == (12, 3)


def test_a_search_may_be_what_is_searched():
    inner = GridSearch(KNeighborsClassifier(), {"n_neighbors": [1, 3, 5]}, cv=2)
    outer = GridSearch(inner, {"cv": [2, 3]}, cv=3).fit(X, y)
    assert outer.fits == (6, 6)
    assert outer.best_estimator_.fits.n_made == outer.best_params_["cv"]
    assert cross_val_score(inner, X, y, cv=3).mean() > 0.9


def test_a_search_that_fails_leaves_the_backend_as_it_was():
    before = get_active_backend()
    search = GridSearch(KNeighborsClassifier(), {"n_neighbors": [0]}, error_score="raise")
    with pytest.raises(ValueError, match="n_neighbors"):
        search.fit(X, y)
    with pytest.raises(ValueError, match="cv"):
        GridSearch(KNeighborsClassifier(), {"n_neighbors": [1]}, cv="three").fit(X, y)
    assert type(get_active_backend()[0]) is type(before[0])
    assert get_active_backend()[1] == before[1]


def test_calls_of_something_else_are_carried_out_as_they_are():
    executor = SearchExecutor(None)
    with parallel_config(SearchBackend(executor)):
        results = Parallel(n_jobs=2)(delayed(pow)(base, 2) for base in range(5))
    assert results == [0, 1, 4, 9, 16]
    assert executor.fits == []


class Slow(TransformerMixin, BaseEstimator):
    """A first step that writes down each of its fits."""

    def __init__(self, log=""):
        self.log = log

    def fit(self, X, y=None):
        with Path(self.log).open("a") as file:
            file.write("fit\n")
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_pipelines_share_their_first_steps_in_every_process(tmp_path, n_jobs):
    log = tmp_path / "fits"
    pipe = make_pipeline(Slow(str(log)), LogisticRegression(max_iter=500))
    grid = {"logisticregression__C": np.logspace(-2, 2, 8)}
    GridSearch(pipe, grid, cv=3, n_jobs=n_jobs).fit(X, y)
    assert len(log.read_text().splitlines()) <= 3 * n_jobs + 1  # and the refit


def test_parameters_are_validated_once(monkeypatch):
    validate, validated = GridSearch._validate_params, []

    def noted(search):
        validated.append(search)
        validate(search)

    monkeypatch.setattr(GridSearch, "_validate_params", noted)
    GridSearch(KNeighborsClassifier(), {"n_neighbors": [1, 3]}).fit(X, y)
    assert len(validated) == 1
    with pytest.raises(ValueError, match="'verbose' parameter of GridSearch must be"):
        GridSearch(KNeighborsClassifier(), {"n_neighbors": [1, 3]}, verbose="much").fit(X, y)


class Splitter(KFold):
    """Calls joblib, in its own ways, before the search does."""

    def get_n_splits(self, X=None, y=None, groups=None):
        assert effective_n_jobs(2) < 10
        assert Parallel(n_jobs=2)(delayed(pow)(base, 2) for base in range(3)) == [0, 1, 4]
        return int(super().get_n_splits(X, y, groups))

    def split(self, X, y=None, groups=None):
        assert cross_val_score(KNeighborsClassifier(), X, y, cv=2).size == 2
        return super().split(X, y, groups)


def lazy_splits():
    for train, test in KFold(3).split(X):
        assert Parallel(n_jobs=2)(delayed(pow)(base, 2) for base in range(3)) == [0, 1, 4]
        yield train, test


@pytest.mark.parametrize("cv", [Splitter(3), lazy_splits()], ids=["splitter", "generator"])
def test_who_calls_joblib_before_the_search_takes_nothing_from_it(cv):
    search = GridSearch(KNeighborsClassifier(), {"n_neighbors": [1, 3, 5]}, cv=cv).fit(X, y)
    assert search.fits == (9, 3)


@pytest.mark.parametrize(
    "context", [{"require": "sharedmem"}, {"backend": "threading"}, {"prefer": "threads"}], ids=str
)
def test_the_search_is_served_in_any_context(context):
    with parallel_config(**context):
        search = GridSearch(KNeighborsClassifier(), {"n_neighbors": [1, 3, 5]}, cv=3).fit(X, y)
    assert search.fits == (9, 3)


def shared_on(dask_scheduler):
    return [str(key) for key in dask_scheduler.tasks if "SharedData" in str(key)]


def test_workers_keep_nothing_of_a_search_that_ended(one_worker):
    """Without waiting for Python's garbage collection, which knows nothing of their memory."""
    gc.collect()
    before = one_worker.run_on_scheduler(shared_on)
    gc.disable()
    try:
        grid = {"n_neighbors": [1, 3]}
        search = GridSearch(KNeighborsClassifier(), grid, cv=3, client=one_worker).fit(X, y)
        assert search.fits == (6, 3)
        while set(one_worker.run_on_scheduler(shared_on)) - set(before):
            time.sleep(0.05)
    finally:
        gc.enable()


def n_step_caches():
    return sum(type(entry) is StepCache for entry in gc.get_objects())  # no proxy is asked


def test_no_transformed_rows_outlive_a_search(one_worker):
    """Not even until Python's garbage collection."""
    gc.collect()
    before = n_step_caches(), one_worker.submit(n_step_caches, pure=False).result()
    gc.disable()
    try:
        pipeline, grid = make_pipeline(StandardScaler(), LogisticRegression()), {"memory": [None]}
        for client in (None, one_worker):
            search = GridSearch(pipeline, grid, cv=3, client=client).fit(X, y)
            assert search.fits == (3, 3)
        assert n_step_caches() == before[0]
        while one_worker.submit(n_step_caches, pure=False).result() != before[1]:
            time.sleep(0.05)
    finally:
        gc.enable()


def test_a_search_on_a_client_can_be_cloned(one_worker):
    search = GridSearch(KNeighborsClassifier(), {"n_neighbors": [1, 3]}, cv=3, client=one_worker)
    alike = clone(search.fit(X, y))
    assert alike.client is one_worker
    assert alike.estimator is not search.estimator
    assert not hasattr(alike, "best_params_")
    scores = cross_val_score(search, X, y, cv=3)
    plain = GridSearch(KNeighborsClassifier(), {"n_neighbors": [1, 3]}, cv=3)
    np.testing.assert_array_equal(scores, cross_val_score(plain, X, y, cv=3))
