"""Other implementations, with a stand-in for cuML: nothing here runs on a GPU."""

from __future__ import annotations

import gc
import sys
import weakref
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pipelines.search.candidates import Candidate
from pipelines.search.substitutes import substitute
from pipelines.search.tasks import make_tasks, task_rows

from .problems import problem_of


class Stand(LogisticRegression):
    """A class with some of the parameters of scikit-learn's."""

    def __init__(self, C=1.0, max_iter=1000):
        super().__init__(C=C, max_iter=max_iter)

    @classmethod
    def from_sklearn(cls, model):
        if model.warm_start:
            raise ValueError("`warm_start=True` is not supported")
        return cls(model.C, model.max_iter)


class Pairs(SVC):
    """A machine whose kind of problems its decision values name, as cuML's."""

    @classmethod
    def from_sklearn(cls, model):
        return cls(**model.get_params())


@pytest.fixture
def cuml(monkeypatch):
    """Modules called as cuML's, with a class each."""
    modules = {name: ModuleType(name) for name in ("cuml", "cuml.linear_model", "cuml.svm")}
    modules["cuml.linear_model"].LogisticRegression = Stand
    modules["cuml.svm"].SVC = Pairs
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return modules["cuml.linear_model"]


def test_the_last_step_is_converted_with_its_parameters(cuml):
    pipe = make_pipeline(StandardScaler(), LogisticRegression(C=3.0))
    substituted = substitute(pipe, "gpu")
    assert type(substituted.estimator.steps[-1][1]) is Stand
    params = substituted.estimator.steps[-1][1].get_params()
    assert params == {"C": 3.0, "max_iter": 100}, "defaults are scikit-learn's"
    assert type(pipe.steps[-1][1]) is LogisticRegression, "the one that was given stays"
    assert (substituted.implementation, substituted.replaced) == ("cuml", True)
    assert substituted.reason == "converted by cuml.linear_model.LogisticRegression.from_sklearn"


def test_a_machine_stays_one_vs_one(cuml):
    substituted = substitute(SVC(C=2.0), "gpu").estimator
    assert (type(substituted), substituted.C, substituted.decision_function_shape) == (
        Pairs,
        2.0,
        "ovo",
    )


@pytest.mark.parametrize(
    ("estimator", "why"),
    [
        (LogisticRegression(warm_start=True), "Regression: `warm_start=True` is not supported"),
        (MLPClassifier(), "not by cuml.neural_network.MLPClassifier: No module named"),
        (Ridge(), "not by cuml.linear_model.Ridge: module 'cuml.linear_model' has no attribute"),
        (RandomForestClassifier(), "ensemble.RandomForestClassifier: No module named"),
    ],
)
def test_what_falls_back_says_why(cuml, estimator, why):
    substituted = substitute(estimator, "gpu")
    assert substituted.estimator is estimator
    assert substituted.implementation == "scikit-learn"
    assert why in substituted.reason


class Breaks(Stand):
    """Takes every parameter, and fails on the rows of the second split."""

    def fit(self, X, y):
        if len(X) == 30:
            raise RuntimeError("no kernel image is available")
        return super().fit(X, y)


def test_a_fit_that_fails_on_the_gpu_is_made_by_scikit_learn(cuml):
    sys.modules["cuml.linear_model"].LogisticRegression = Breaks
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(np.int64)
    splits = [(np.arange(n), np.arange(n, 60)) for n in (40, 30)]
    candidates = (Candidate("logistic", {}, LogisticRegression(C=0.1)),)
    rows = {}
    for device in ("gpu", "cpu"):
        problem = problem_of(candidates, X, y, splits, device=device)
        rows[device] = [row for task in make_tasks(problem) for row in task_rows(problem, task)]
    assert [row["status"] for row in rows["gpu"]] == ["ok", "ok"]
    reasons = [(row["implementation"], row["reason"]) for row in rows["gpu"]]
    why = "cuml failed: RuntimeError: no kernel image is available"
    assert reasons[1] == ("scikit-learn", why)
    assert reasons[0][0] == "cuml"
    assert [row["score"] for row in rows["gpu"]] == [row["score"] for row in rows["cpu"]]


class Circular(Stand):
    """A model that only Python's collector can free, as some of cuML's."""

    fitted: ClassVar = weakref.WeakSet[Any]()

    def fit(self, X, y):
        self.me = self
        self.fitted.add(self)
        return super().fit(X, y)


def test_models_on_the_gpu_are_freed_with_each_task(cuml, gpu_stand_in):
    import cupy  # the stand-in, which counts when unused memory is freed

    assert cupy.get_default_memory_pool()
    cuml.LogisticRegression = Circular
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    candidates = tuple(Candidate("logistic", {}, LogisticRegression(C=C)) for C in (0.1, 1.0))
    split = (np.arange(40), np.arange(40, 60))
    problem = problem_of(candidates, X, y, [split], device="gpu")
    gc.disable()
    try:
        for n_done, task in enumerate(make_tasks(problem), 1):
            assert task_rows(problem, task)[0]["implementation"] == "cuml"
            assert not Circular.fitted
            assert [what for _, what, _ in gpu_stand_in()].count("free") == n_done
    finally:
        gc.enable()
    assert n_done == 1, "both candidates in one task"


def test_rows_say_what_was_fitted_and_why(cuml):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(np.int64)
    candidates = (
        Candidate("logistic", {"C": 0.1}, LogisticRegression(C=0.1)),
        Candidate("logistic", {"C": 1.0}, LogisticRegression(C=1.0)),
        Candidate("knn", {}, KNeighborsClassifier()),
    )
    split = (np.arange(40), np.arange(40, 60))
    problem = problem_of(candidates, X, y, [split], device="gpu")
    rows = [row for task in make_tasks(problem) for row in task_rows(problem, task)]
    assert [row["implementation"] for row in rows] == ["cuml", "cuml", "scikit-learn"]
    alone = "plain (cuml shares nothing)"
    assert [row["family"] for row in rows] == [alone, alone, "one query of neighbors"]
    assert all(row["status"] == "ok" and row["reason"] for row in rows)
