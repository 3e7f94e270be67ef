"""An estimator starts what its worker has, and no more."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import joblib
import numpy as np
import pytest
import threadpoolctl
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

from pipelines.search.candidates import Candidate
from pipelines.search.fitting import with_jobs
from pipelines.search.tasks import make_tasks, task_rows

from .problems import problem_of

seen: dict[str, Any] = {}


class Watcher(ClassifierMixin, BaseEstimator):
    """Notes what it may use."""

    def __init__(self, n_jobs=None):
        self.n_jobs = n_jobs

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        seen["n_jobs"] = self.n_jobs
        seen["effective"] = joblib.effective_n_jobs(self.n_jobs)
        seen["blas"] = max(pool["num_threads"] for pool in threadpool_info())
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def problem_with(estimator):
    X, y = np.arange(60.0).reshape(30, 2), np.arange(30) % 2
    split = (np.arange(20), np.arange(20, 30))
    return problem_of([Candidate("it", {}, estimator)], X, y, [split])


@pytest.mark.parametrize("n_jobs", [None, 1, 16, -1])
@pytest.mark.parametrize("has", [1, 2])
def test_a_task_starts_what_its_worker_has(n_jobs, has):
    problem = problem_with(Watcher(n_jobs))
    (task,) = make_tasks(problem)
    (row,) = task_rows(problem, task, n_threads=has)
    assert row["status"] == "ok"
    assert seen["n_jobs"] == seen["effective"] == has
    assert seen["blas"] <= has


def test_every_n_jobs_in_an_estimator_is_set():
    pipe = make_pipeline(StandardScaler(), BaggingClassifier(RandomForestClassifier(n_jobs=-1)))
    estimator = with_jobs(pipe, 2)
    jobs = [value for name, value in estimator.get_params().items() if name.endswith("n_jobs")]
    assert jobs == [2, 2]


def test_pools_of_threads_are_looked_for_after_imports_alone(
    monkeypatch,
):
    looks = []

    class Controller(threadpoolctl.ThreadpoolController):
        def __init__(self):
            looks.append(len(sys.modules))
            super().__init__()

    problem = problem_with(GaussianNB())
    (task,) = make_tasks(problem)
    task_rows(problem, task)
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", Controller)
    monkeypatch.setitem(sys.modules, "loads_a_library", ModuleType("loads_a_library"))
    for _ in range(3):
        task_rows(problem, task)
    assert looks == [len(sys.modules)]
