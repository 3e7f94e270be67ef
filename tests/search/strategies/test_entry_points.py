"""A strategy of another package is found by its entry point, and refused where it is none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

from pipelines.errors import InputError
from pipelines.search.grid_search import GridSearch
from pipelines.search.strategies import strategy_class
from pipelines.search.strategies.base import Scope
from pipelines.search.strategies.grid import Grid
from pipelines.testing.strategies import check_scope, scopes

from ...command_runs import command_line

OTHERS = """
from pipelines.search.strategies.base import Request, RoundStrategy, Stop


class FirstSplit(RoundStrategy):
    # Every candidate on the first split, and the best on all others.

    def rounds(self):
        candidates = tuple(self.scope.candidates)
        yield [Request(candidates, (0,))]
        scores = {candidate: self.score(candidate, 0) for candidate in candidates}
        scores = {candidate: score for candidate, score in scores.items() if score is not None}
        best = max(scores, key=scores.get, default=candidates[0])
        for candidate in set(candidates) - {best}:
            behind = scores[best] - scores[candidate] if candidate in scores else None
            self.stopped[candidate] = Stop(1, 1.0, behind)
        yield [Request((best,), self.scope.splits[1:])]


nothing = 3
"""

Install = Callable[..., Any]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """A function that installs a package with entry points as pip would have it."""

    def put(package: str, **entries: str) -> None:
        (tmp_path / f"{package}.py").write_text(OTHERS)
        about = tmp_path / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in entries.items()]
        text = "\n".join(["[pleasingly.strategies]", *lines])
        (about / "entry_points.txt").write_text(text)

    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield put
    for name in set(sys.modules) - before:
        if name.startswith("others_"):
            del sys.modules[name]


def test_a_strategy_of_another_package_is_made_by_its_name(install: Install) -> None:
    install("others_first", first="others_first:FirstSplit")
    scope = Scope([[0], [1]], n_splits=3, n_rows=9)
    strategy = strategy_class("first").of(scope, SimpleNamespace(strategy="first"))
    assert type(strategy).__name__ == "FirstSplit"
    assert strategy.scope is scope
    (request,) = strategy.ask() or ()
    assert (request.candidates, request.splits) == ((0, 1), (0,))
    for scope in scopes():
        check_scope(strategy_class("first"), scope)


def test_it_decides_which_fits_are_made(install: Install, monkeypatch: Any) -> None:
    install("others_fits", first="others_fits:FirstSplit")
    X, y = load_iris(return_X_y=True)
    search = GridSearch(KNeighborsClassifier(), {"n_neighbors": [1, 5, 100]}, cv=4)
    with given_to_searches(monkeypatch, strategy_class("first")):
        search.fit(X, y)
    assert sorted(search.n_splits_done_) == [1, 1, 4]
    assert search.n_splits_done_[search.best_index_] == 4
    assert np.isfinite(search.best_score_)


@contextmanager
def given_to_searches(monkeypatch: pytest.MonkeyPatch, strategy: Any) -> Iterator[None]:
    """Have searches from Python take a strategy of which they have no parameter."""
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.search.grid_search.Race", lambda scope, margin: strategy(scope))
        patch.setattr(GridSearch, "margin", 3.0)
        yield


def test_a_command_takes_it(install: Install, tmp_path: Path) -> None:
    install("others_typed", first="others_typed:FirstSplit")
    options = "--limit 200 --n-c 2 --n-gamma 3 --folds 3 --strategy first --cluster threads --quiet"
    subprocess.run(
        [*command_line("svm_grid", *options.split()), "--results", str(tmp_path / "run")],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"},
        check=True,
    )
    cells = pd.read_parquet(tmp_path / "run" / "cv_results.parquet")
    assert sorted(cells.groupby("candidate").size()) == [1, 1, 1, 1, 1, 3]


def test_the_names_of_this_package_go_first(install: Install) -> None:
    install("others_grid", grid="others_grid:FirstSplit")
    assert strategy_class("grid") is Grid


def test_an_unknown_name_is_refused_with_those_there_are(install: Install) -> None:
    install("others_more", hyperband="others_more:FirstSplit")
    with pytest.raises(InputError, match=r"^strategy must be one of grid, .*hyperband, got 'x'; "):
        strategy_class("x")


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("others_wrong:nothing", "Strategy, got others_wrong:nothing; mend or uninstall"),
        ("others_wrong:missing", r"cannot be imported \(AttributeError: .*'missing'\); mend"),
        ("others_absent:Kind", r"cannot be imported \(ModuleNotFoundError: .*\); mend"),
    ],
)
def test_what_is_no_strategy_is_refused(install: Install, place: str, why: str) -> None:
    install("others_wrong", mine=place)
    with pytest.raises(InputError, match=why) as raised:
        strategy_class("mine")
    assert "\n" not in str(raised.value)


def test_two_packages_with_one_name_are_refused(install: Install) -> None:
    install("others_a", mine="others_a:FirstSplit")
    install("others_b", mine="others_b:FirstSplit")
    with pytest.raises(InputError, match="others_a:FirstSplit and others_b:FirstSplit; uninstall"):
        strategy_class("mine")
