"""A plugin of pytest: ``SVC`` and ``GridSearchCV`` are ours before a test module is imported.

``python -m pytest -p benchmarks.peers.plugin --pyargs sklearn.svm.tests.test_svm``. Only what
test modules take from ``sklearn.svm`` and ``sklearn.model_selection`` is replaced;
scikit-learn's own code keeps its own. ``PEER_SUITE_REPLACES=GridSearch`` leaves ``SVC`` as it is
and puts ``GridSearch`` in the place of every ``GridSearchCV``. With ``backend`` no class is
replaced: the joblib backend on which searches share their work is the default of the process;
with ``nothing`` not even that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sklearn.model_selection
import sklearn.svm

from pipelines import GridSearch, PathSVC, SVMGridSearch
from pipelines.accelerate import accelerate

GridSearchCV = sklearn.model_selection.GridSearchCV
RESULTS = "PEER_SUITE_RESULTS"  # names the file that outcomes are written to
REPLACES = "PEER_SUITE_REPLACES"

_estimator_names: list[str] = []
_outcomes: list[dict[str, Any]] = []


class CountedSVC(PathSVC):
    """Notes that a test made one."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        _estimator_names.append("PathSVC")
        return super().fit(X, y, sample_weight)


CountedSVC.__name__ = CountedSVC.__qualname__ = "PathSVC"


def search(estimator: Any, param_grid: Any, **options: Any) -> Any:
    """``GridSearchCV`` of an ``SVC`` as ``SVMGridSearch``; of anything else as it is."""
    if not isinstance(estimator, PathSVC):
        return GridSearchCV(estimator, param_grid, **options)
    _estimator_names.append("SVMGridSearch")
    taken = SVMGridSearch().get_params().keys() - {"C", "gamma"}
    shared = {name: value for name, value in estimator.get_params().items() if name in taken} | {
        "n_jobs": 1
    }
    # What the search has no parameter for is a grid of one value.
    default = PathSVC().get_params()
    fixed = {
        name: [value]
        for name, value in estimator.get_params().items()
        if name not in shared and value != default[name] and name not in ("n_jobs", "verbose")
    }
    grids = param_grid if isinstance(param_grid, list) else [param_grid]
    options.pop("pre_dispatch", None)
    options.setdefault("verbose", 0)
    shared.pop("verbose", None)
    return SVMGridSearch(param_grid=[{**fixed, **grid} for grid in grids], **{**shared, **options})


class CountedGridSearch(GridSearch):
    """Notes that a test made one."""

    def fit(self, X: Any, y: Any = None, **params: Any) -> Any:
        _estimator_names.append("GridSearch")
        return super().fit(X, y, **params)


_replaces = os.environ.get(REPLACES, "SVC")
_acceleration = accelerate(report=False) if _replaces == "backend" else None
if _replaces == "GridSearch":
    sklearn.model_selection.GridSearchCV = CountedGridSearch
elif _replaces == "SVC":
    sklearn.svm.SVC = CountedSVC
    sklearn.model_selection.GridSearchCV = search


def _noted() -> list[str]:
    """What of ours a test met: classes, or the backend and the work that fits shared on it."""
    if _acceleration is None:
        return sorted(set(_estimator_names))
    entries = _acceleration.log.entries
    names = {name for entry in entries for name in ("backend", *entry.shared)}
    entries.clear()
    return sorted(names)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Note which tests have to do with us."""
    _estimator_names.clear()
    try:
        return (yield)
    finally:
        item.stash[_used] = _noted()


_used = pytest.StashKey[list[str]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    """Note what became of a test."""
    report: Any = yield
    if (call.when == "call" or report.outcome != "passed") and call.when != "teardown":
        _outcomes.append(
            {
                "test": item.nodeid.split("::", 1)[1],
                "outcome": report.outcome,
                "uses": item.stash.get(_used, []),
                "says": _first_line(call.excinfo),
            }
        )
    return report


def _first_line(excinfo: Any) -> str:
    if excinfo is None:
        return ""
    lines = str(excinfo.value).strip().splitlines()
    return f"{excinfo.typename}: {lines[0] if lines else ''}"[:200]


def pytest_sessionfinish() -> None:
    """Hand the outcomes over."""
    if RESULTS in os.environ:
        Path(os.environ[RESULTS]).write_text(json.dumps(_outcomes))
