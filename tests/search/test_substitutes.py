"""Other implementations, with a stand-in for cuML: nothing here runs on a GPU."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pipelines.search.candidates import Candidate
from pipelines.search.substitutes import substitute
from pipelines.search.tasks import make_tasks, run_task

from .problems import problem_of


class Stand(LogisticRegression):
    """A class with some of the parameters of scikit-learn's."""

    def __init__(self, C: float = 1.0, max_iter: int = 100) -> None:
        super().__init__(C=C, max_iter=max_iter)


@pytest.fixture
def cuml(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Modules called as cuML's, with one class."""
    module: Any = ModuleType("cuml.linear_model")
    module.LogisticRegression = Stand
    monkeypatch.setitem(sys.modules, "cuml", ModuleType("cuml"))
    monkeypatch.setitem(sys.modules, "cuml.linear_model", module)
    return module


def test_the_last_step_is_replaced_by_a_class_with_all_parameters_that_are_set(
    cuml: ModuleType,
) -> None:
    pipe = make_pipeline(StandardScaler(), LogisticRegression(C=3.0))
    found = substitute(pipe, "gpu")
    assert type(found.estimator.steps[-1][1]) is Stand
    assert found.estimator.steps[-1][1].C == 3.0
    assert type(pipe.steps[-1][1]) is LogisticRegression, "the one that was given stays"
    assert (found.implementation, found.replaced) == ("cuml", True)
    assert "has every parameter that is set" in found.reason


@pytest.mark.parametrize(
    ("estimator", "why"),
    [
        (LogisticRegression(solver="saga"), "has no solver='saga'"),
        (MLPClassifier(), "cuML has no MLPClassifier that is the same model"),
        (Ridge(), "cuml.linear_model.Ridge cannot be imported (AttributeError)"),
        (RandomForestClassifier(), "cannot be imported (ModuleNotFoundError)"),
    ],
)
def test_what_falls_back_says_why(cuml: ModuleType, estimator: Any, why: str) -> None:
    found = substitute(estimator, "gpu")
    assert found.estimator is estimator
    assert found.implementation == "scikit-learn"
    assert why in found.reason


class Breaks(Stand):
    """Takes every parameter, and fails on the rows of the second split."""

    def fit(self, X: Any, y: Any) -> Breaks:
        if len(X) == 30:
            raise RuntimeError("no kernel image is available")
        return super().fit(X, y)


def test_a_fit_that_fails_on_the_gpu_is_made_by_scikit_learn(cuml: Any) -> None:
    sys.modules["cuml.linear_model"].LogisticRegression = Breaks  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(np.int64)
    splits = [(np.arange(n), np.arange(n, 60)) for n in (40, 30)]
    candidates = (Candidate("logistic", {}, LogisticRegression(C=0.1)),)
    rows = {}
    for device in ("gpu", "cpu"):
        problem = problem_of(candidates, X, y, splits, device=device)
        rows[device] = [row for task in make_tasks(problem) for row in run_task(problem, task)]
    assert [row["status"] for row in rows["gpu"]] == ["ok", "ok"]
    said = [(row["implementation"], row["reason"]) for row in rows["gpu"]]
    why = "cuml failed: RuntimeError: no kernel image is available"
    assert said[1] == ("scikit-learn", why)
    assert said[0][0] == "cuml"
    assert [row["score"] for row in rows["gpu"]] == [row["score"] for row in rows["cpu"]]


def test_rows_say_what_was_fitted_and_why(cuml: ModuleType) -> None:
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
    rows = [row for task in make_tasks(problem) for row in run_task(problem, task)]
    assert [row["implementation"] for row in rows] == ["cuml", "cuml", "scikit-learn"]
    assert [row["family"] for row in rows] == ["plain", "plain", "one query of neighbors"]
    assert all(row["status"] == "ok" and row["reason"] for row in rows)
