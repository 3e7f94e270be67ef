"""Below which size a search of support vector machines runs plainly: what a start costs decides."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import SVC, SVR

from pipelines.search.shared import svm
from pipelines.search.shared.svm import SOLVER, SVCs

GRID = [SVC(C=C, gamma=gamma) for C in np.logspace(-2, 3, 8) for gamma in (0.01, 0.1)]


def seconds_to_start() -> float:
    return SVCs().seconds_to_start()


def worthwhile(estimators: list[object], n_rows: int, n_features: int, n_splits: int) -> bool:
    saved = SVCs().seconds_saved(estimators, n_rows, n_features, n_splits)
    return saved > seconds_to_start()


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has not loaded the solver, whose code is on disk."""
    monkeypatch.delitem(sys.modules, SOLVER, raising=False)
    monkeypatch.setattr(svm, "_is_compiled", lambda: True)


def test_a_short_search_does_not_pay_for_the_start(fresh: None) -> None:
    assert not worthwhile([SVC()], 200, 64, 5)
    assert not worthwhile([SVC(), SVC(C=10)], 150, 4, 5)
    assert worthwhile(GRID, 400, 30, 5)
    assert worthwhile([SVC()], 4000, 784, 5)


def test_a_loaded_solver_costs_nothing_more(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, SOLVER, svm)
    assert seconds_to_start() == 0
    assert worthwhile([SVC()], 200, 64, 5)
    assert worthwhile([SVR()], 200, 64, 5)
    # A kernel of all rows for one fit is made in vain.
    assert not worthwhile([SVC()], 1500, 64, 1)
    assert worthwhile(GRID, 1500, 64, 1)


def test_compilation_counts_once(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svm, "_is_compiled", lambda: False)
    assert not worthwhile(GRID, 400, 30, 5)
    assert worthwhile(GRID, 4000, 784, 5)


def test_compiled_code_is_looked_for_where_numba_puts_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cpu" / "__pycache__").mkdir(parents=True)
    monkeypatch.setattr(svm.svm, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert os.access(tmp_path / "cpu", os.W_OK)
    assert not svm._is_compiled()
    (tmp_path / "cpu" / "__pycache__" / "walk.walk_easily-1.py311.nbi").touch()
    assert svm._is_compiled()
