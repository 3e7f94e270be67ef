"""What is searched, and who searches it: one grid each, the same folds and arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import parallel_config
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier

from pipelines.search.grid_search import GridSearch

if TYPE_CHECKING:
    from distributed import Client

OURS, ON_CLUSTER = "GridSearch(n_jobs=-1)", "GridSearch(client=...)"
JOBLIB, ON_DASK = "GridSearchCV(n_jobs=-1)", "GridSearchCV, joblib's dask backend"
DASK_ML = "dask_ml GridSearchCV"


@dataclass(frozen=True)
class Workload:
    """A grid.

    Attributes
    ----------
    name : str
    estimator : unfitted
    grid : values by parameter
    wanted : times faster than ``GridSearchCV(n_jobs=-1)`` it is to be, at least
    """

    name: str
    estimator: Any
    grid: Mapping[str, list[Any]]
    wanted: float


WORKLOADS = {
    workload.name: workload
    for workload in (
        # Nothing is shared: what is measured is what our way of carrying them out costs.
        Workload(
            "plain",
            ExtraTreesClassifier(n_estimators=120, random_state=0),
            {"max_features": [4, 6, 8, 12, 16, 20], "max_depth": [8, 16]},
            1 / 1.05,
        ),
        Workload("knn", KNeighborsClassifier(), {"n_neighbors": list(range(1, 51))}, 2.5),
        Workload("ridge", RidgeClassifier(), {"alpha": np.logspace(-2, 5, 50).tolist()}, 5.0),
        Workload(
            "forest",
            RandomForestClassifier(random_state=0),
            {"n_estimators": [200, 250, 300, 350, 400]},
            3.0,
        ),
    )
}


@dataclass(frozen=True)
class Found:
    """Scores of every candidate on every fold, (n_candidates, n_folds), and fits made."""

    scores: np.ndarray
    n_fits: int | None = None


def lines_of(
    workload: Workload, X: np.ndarray, y: np.ndarray, folds: list[Any], client: Client
) -> tuple[dict[str, Callable[[], Found]], list[str]]:
    """A function for each line, and who is missing."""
    options: dict[str, Any] = {"cv": folds, "refit": False}

    def ours(**where: Any) -> Found:
        search = GridSearch(workload.estimator, dict(workload.grid), **options, **where).fit(X, y)
        return Found(_scores(search, len(folds)), search.fits.n_made)

    def theirs(**where: Any) -> Found:
        search = GridSearchCV(workload.estimator, dict(workload.grid), **options, **where)
        return Found(_scores(search.fit(X, y), len(folds)))

    def on_dask() -> Found:
        with client.as_current(), parallel_config("dask"):
            return theirs(n_jobs=-1)

    lines: dict[str, Callable[[], Found]] = {
        OURS: lambda: ours(n_jobs=-1),
        ON_CLUSTER: lambda: ours(client=client),
        JOBLIB: lambda: theirs(n_jobs=-1),
        ON_DASK: on_dask,
    }
    try:
        from dask_ml.model_selection import GridSearchCV as DaskSearch
    except Exception as error:  # it may be there and not fit this Dask
        return lines, [f"{DASK_ML} ({type(error).__name__}: {error})"]

    def dask_ml() -> Found:
        with client.as_current():
            search = DaskSearch(
                workload.estimator, dict(workload.grid), cv=folds, refit=False, scheduler=client
            )
            return Found(_scores(search.fit(X, y), len(folds)))

    lines[DASK_ML] = dask_ml
    return lines, []


def _scores(search: Any, n_folds: int) -> np.ndarray:
    return np.stack(
        [search.cv_results_[f"split{fold}_test_score"] for fold in range(n_folds)], axis=1
    )
