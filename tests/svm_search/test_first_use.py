"""A first search from Python and by the command: what is over sooner by ``SVC`` is its own."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pipelines import GridSearch, PathSVC, SVMGridSearch, svm_grid
from pipelines.run_folder import names
from pipelines.search import executor
from pipelines.svm.cpu import first_use, path

X, y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
C, GAMMA = [0.1, 1.0, 10.0], [0.01, 0.1]

FIRST = """
import sys
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler
X, y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
{search}
print(sorted({{"numba", "pydantic", "dask", "pipelines.run.cluster"}} & set(sys.modules)))
"""
SEARCHES = {
    "SVMGridSearch": "from pipelines import SVMGridSearch as Search\n"
    "Search([0.1, 1.0, 10.0], [0.01, 0.1]).fit(X, y).predict(X)",
    "GridSearch": "from pipelines import GridSearch as Search\nfrom sklearn.svm import SVC\n"
    "Search(SVC(), {'C': [0.1, 1.0, 10.0], 'gamma': [0.01, 0.1]}).fit(X, y).predict(X)",
    "PathSVC": "from pipelines import PathSVC\nPathSVC().fit(X, y).predict(X)",
}


@pytest.fixture
def nothing_compiled(monkeypatch, tmp_path):
    """An empty cache; the process that would fill it is held back, as if another were at it."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv(first_use.SWITCH, "background")
    # As in a process of its own, where nothing has loaded the solver, as this has.
    assert path.__name__ in sys.modules
    monkeypatch.setattr(first_use, "SOLVER", "pipelines.svm.cpu.none")
    monkeypatch.setattr(executor, "_seconds_missed", {})
    first_use.compile_meanwhile.cache_clear()
    first_use.kept_in().mkdir(parents=True)
    with (first_use.kept_in() / first_use.LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    first_use.compile_meanwhile.cache_clear()


@pytest.mark.parametrize("name", SEARCHES)
def test_a_short_first_use_loads_neither_numba_nor_what_commands_need(name, nothing_compiled):
    program = FIRST.format(search=SEARCHES[name])
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ, capture_output=True, text=True
    )
    assert done.stdout == "[]\n"
    assert done.stderr == (
        "SVC itself makes these fits; the path solver is compiled in the background, for the next\n"
    )


def test_its_scores_are_those_of_scikit_learn_and_it_says_who_fitted(
    nothing_compiled,
):
    ours = SVMGridSearch(C, GAMMA).fit(X, y)
    peer = GridSearchCV(SVC(), {"C": C, "gamma": GAMMA}).fit(X, y)
    assert ours.solver_ == "sklearn"
    assert ours.fits == (30, 30)
    assert isinstance(ours.best_estimator_, PathSVC)
    assert ours.n_iter_ > 0
    for split in range(5):
        name = f"split{split}_test_score"
        np.testing.assert_array_equal(ours.cv_results_[name], peer.cv_results_[name])
    values = ours.decision_function(X), peer.decision_function(X)
    np.testing.assert_allclose(*values, atol=1e-6)
    assert not first_use.is_compiled()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_so_are_those_of_its_own_estimators(n_jobs, nothing_compiled):
    grid = {"C": C, "gamma": ["scale", 0.1], "class_weight": [None, "balanced"]}
    ours = GridSearch(SVC(), grid, n_jobs=n_jobs, return_train_score=True).fit(X, y)
    peer = GridSearchCV(SVC(), grid, return_train_score=True).fit(X, y)
    assert ours.fits == (60, 60)
    for name in ("mean_test_score", "mean_train_score"):
        np.testing.assert_allclose(ours.cv_results_[name], peer.cv_results_[name], rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"solver": "path"}, "it is asked for"),
        ({"max_iter": 100_000}, "its steps are other than libsvm's"),
        ({"class_weight": {0: 2.0, 1: 1.0, 2: 1.0}}, "the weights are of labels"),
    ],
)
def test_what_is_the_path_solvers_own_stays_so(options, why, nothing_compiled):
    assert SVMGridSearch([1.0], [0.1], **options).fit(X, y).solver_ == "path", why


def test_a_search_that_would_take_as_long_as_compiling_is_the_path_solvers(
    nothing_compiled, monkeypatch
):
    monkeypatch.setattr(first_use, "PLAIN_SECONDS", 1.0)
    assert SVMGridSearch(C, GAMMA).fit(X, y).solver_ == "path"


def test_short_searches_that_add_up_to_it_are_not_all_by_svc(nothing_compiled, monkeypatch):
    monkeypatch.setattr(first_use, "PLAIN_SECONDS", 0.25)
    solvers = [SVMGridSearch(C, GAMMA).fit(X, y).solver_ for _ in range(3)]
    assert solvers[0] == "sklearn"
    assert solvers[-1] == "path"


def test_the_command_fits_by_svc_and_its_record_and_rows_say_so(
    nothing_compiled, tmp_path, monkeypatch
):
    table = tmp_path / "wine.csv"
    pd.DataFrame(X).assign(kind=y).to_csv(table, index=False)
    options = ["--dataset", str(table), "--target", "kind", "--n-c", "3", "--n-gamma", "2"]
    run = tmp_path / "run"
    run_options = ["--cluster", "threads", "--quiet", "--probability", "--results", str(run)]
    monkeypatch.setattr(path, "solve_path", None)  # nothing of it is needed
    assert svm_grid.main([*options, *run_options]) == 0
    assert json.loads((run / "run.json").read_text())["solver"] == "sklearn"
    rows = pd.read_parquet(run / names.CELLS)
    assert set(rows["implementation"]) == {"scikit-learn"}
    assert set(rows["family"]) == {"SVC, as the path solver takes longer to begin"}
    assert "solver sklearn" in (run / "report.html").read_text()
    assert svm_grid.main([*options, "--resume", str(run), "--quiet"]) == 0
