"""Below which size a search of support vector machines runs plainly: what a start costs decides."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.svm import SVC, SVR

from pipelines.search.shared.svm import SVCs
from pipelines.svm.cpu import first_use

GRID = [SVC(C=C, gamma=gamma) for C in np.logspace(-2, 3, 8) for gamma in (0.01, 0.1)]


def seconds_to_start():
    return SVCs().seconds_to_start()


def worthwhile(estimators, n_rows, n_features, n_splits):
    saved = SVCs().seconds_saved(estimators, n_rows, n_features, n_splits)
    return saved > seconds_to_start()


@pytest.fixture
def fresh(monkeypatch):
    """A process that has not loaded the solver, whose code is on disk."""
    monkeypatch.delitem(sys.modules, first_use.SOLVER, raising=False)
    monkeypatch.setattr(first_use, "is_compiled", lambda: True)


def test_a_short_search_does_not_pay_for_the_start(fresh):
    assert not worthwhile([SVC()], 200, 64, 5)
    assert not worthwhile([SVC(), SVC(C=10)], 150, 4, 5)
    assert worthwhile(GRID, 400, 30, 5)
    assert worthwhile([SVC()], 4000, 784, 5)


def test_a_loaded_solver_costs_nothing_more(fresh, monkeypatch):
    monkeypatch.setitem(sys.modules, first_use.SOLVER, first_use)
    assert seconds_to_start() == 0
    assert worthwhile([SVC()], 200, 64, 5)
    assert worthwhile([SVR()], 200, 64, 5)
    # A kernel of all rows for one fit is made in vain.
    assert not worthwhile([SVC()], 1500, 64, 1)
    assert worthwhile(GRID, 1500, 64, 1)


def test_compilation_counts_once(fresh, monkeypatch):
    monkeypatch.setattr(first_use, "is_compiled", lambda: False)
    assert not worthwhile(GRID, 400, 30, 5)
    assert worthwhile(GRID, 4000, 784, 5)
