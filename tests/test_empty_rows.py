"""Data without rows, or without columns, is refused in scikit-learn's words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from pipelines import (
    BaggedNets,
    BaggedNetsRegressor,
    GridSearch,
    PathSVC,
    PathSVR,
    RaceSearch,
    SVMGridSearch,
)
from pipelines.nn.estimator import NetworkClassifier, NetworkRegressor

ROWS = np.empty((0, 3)), np.empty(0), r"n_samples=0|0 sample\(s\)"
COLUMNS = np.empty((30, 0)), np.arange(30) % 2, r"0 feature\(s\) \(shape=\(\d+, 0\)\)"
OWN = (
    PathSVC(),
    PathSVR(),
    SVMGridSearch(),
    BaggedNets(),
    BaggedNetsRegressor(),
    NetworkClassifier(),
    NetworkRegressor(),
)
SEARCHED: tuple[tuple[Any, dict[str, list[Any]]], ...] = (
    (SVC(), {"C": [1, 10]}),
    (SVR(), {"C": [1, 10]}),
    (make_pipeline(StandardScaler(), SVC()), {"svc__C": [1, 10]}),
    (KNeighborsClassifier(), {"n_neighbors": [1, 2]}),
    (Ridge(), {"alpha": [1, 10]}),
)


@pytest.mark.parametrize(("X", "y", "says"), [ROWS, COLUMNS], ids=["rows", "columns"])
@pytest.mark.parametrize("estimator", OWN, ids=lambda estimator: type(estimator).__name__)
def test_an_estimator_refuses_it(estimator, X, y, says):
    with pytest.raises(ValueError, match=says):
        estimator.fit(X, y)


@pytest.mark.parametrize(("X", "y", "says"), [ROWS, COLUMNS], ids=["rows", "columns"])
@pytest.mark.parametrize(("estimator", "grid"), SEARCHED)
@pytest.mark.parametrize("search", [GridSearch, RaceSearch])
def test_a_search_refuses_it(search, estimator, grid, X, y, says):
    for budget in (None, 60.0):
        with pytest.raises(ValueError, match=says):
            search(estimator, grid, cv=3, time_budget=budget).fit(X, y)
