"""scikit-learn's own checks: ``GridSearch`` and ``RaceSearch`` pass what ``GridSearchCV`` does."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator

from pipelines import GridSearch, RaceSearch

MEMBERS: dict[str, list[Any]] = {"n_estimators": [2, 3]}
TREES: dict[str, Any] = {"n_estimators": 2, "random_state": 0}
SMALL: dict[str, Any] = {"max_leaf_nodes": 5, "random_state": 0}
KINDS: list[tuple[Any, dict[str, list[Any]]]] = [
    (SVC(), {"C": [1, 10]}),
    (SVR(), {"C": [1, 10]}),
    (NuSVC(), {"nu": [0.3, 0.4]}),
    (LinearSVC(), {"C": [0.1, 1]}),
    (KNeighborsClassifier(), {"n_neighbors": [1, 2]}),
    (KNeighborsRegressor(), {"n_neighbors": [1, 2]}),
    (Ridge(), {"alpha": [0.1, 1]}),
    (Lasso(), {"alpha": [0.1, 1]}),
    (ElasticNet(), {"alpha": [0.1, 1]}),
    (LogisticRegression(), {"C": [0.1, 1]}),
    (DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2]}),
    (DecisionTreeRegressor(random_state=0), {"ccp_alpha": [0, 0.1]}),
    (RandomForestClassifier(**TREES), MEMBERS),
    (RandomForestRegressor(**TREES), MEMBERS),
    (ExtraTreesClassifier(**TREES), MEMBERS),
    (GradientBoostingClassifier(**TREES), MEMBERS),
    (GradientBoostingRegressor(**TREES), MEMBERS),
    (AdaBoostClassifier(**TREES), MEMBERS),
    (BaggingClassifier(**TREES), MEMBERS),
    (BaggingRegressor(**TREES), MEMBERS),
    (HistGradientBoostingClassifier(**SMALL), {"max_iter": [2, 3]}),
    (HistGradientBoostingRegressor(**SMALL), {"max_iter": [2, 3]}),
]
QUICK = "SVC", "Ridge"


def piped(estimator, grid):
    pipeline = make_pipeline(StandardScaler(), estimator)
    return pipeline, {f"{pipeline.steps[-1][0]}__{name}": grid[name] for name in grid}


def by_name():
    estimators = {type(estimator).__name__: (estimator, grid) for estimator, grid in KINDS}
    return estimators | {f"scaled {name}": piped(*kind) for name, kind in estimators.items()}


ALL = by_name()


@cache
def failing(search, kind):
    """What each check that does not pass says."""
    outcomes = check_estimator(search(*ALL[kind], cv=2), on_skip=None, on_fail=None)
    return {
        outcome["check_name"]: str(outcome["exception"])
        for outcome in outcomes
        if outcome["status"] == "failed"
    }


# Every kind by itself, and of the rest a few, as a minute goes by for every dozen.
CASES = [
    *((GridSearch, name) for name in ALL if not name.startswith("scaled")),
    *((GridSearch, name) for name in ("scaled SVC", "scaled LogisticRegression", "scaled Lasso")),
    *((RaceSearch, name) for name in (*QUICK, "scaled RandomForestClassifier")),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("search", "kind"),
    [
        pytest.param(*case, marks=() if case[1] in QUICK else pytest.mark.slow, id=" ".join(name))
        for case in CASES
        if (name := (case[0].__name__, case[1]))
    ],
)
def test_no_check_fails_that_grid_search_cv_passes(search, kind):
    theirs = failing(GridSearchCV, kind)
    ours = failing(search, kind)
    assert {name: says for name, says in ours.items() if name not in theirs} == {}
