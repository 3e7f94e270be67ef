"""``SVC`` for as long as the path solver would take to begin, and then that."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold

from pipelines.data.fits import Fit, Progress
from pipelines.svm.backends import load_backend
from pipelines.svm.backends.base import Work
from pipelines.svm.backends.brief import IMPLEMENTATION, BriefBackend
from pipelines.svm.settings import Settings

X, y = load_digits(return_X_y=True)
X, y = (X - 8)[:300] / 4.6, y[:300].astype(np.int32)
SPLITS = list(StratifiedKFold(3).split(X, y))
CS, GAMMAS = (0.1, 10.0, 1000.0), (0.003, 0.03)


def fits_of(backend, decision="ovo"):
    """The fits of a small grid; each comes once."""
    work = Work(X, y, SPLITS, [0, 1, 2], GAMMAS, CS, Settings(decision=decision), decisions=True)
    items = list(backend.fit_cells(work))
    fits = [item for item in items if isinstance(item, Fit)]
    progress = [item.fraction for item in items if isinstance(item, Progress)]
    assert len(fits) == len(CS) * len(GAMMAS) * len(SPLITS)
    assert progress[-1] == 1
    return {(fit.candidate, fit.split): fit for fit in fits}


def n_of_svc(fits):
    return sum(fit.implementation == IMPLEMENTATION for fit in fits.values())


def seconds_needed(decision="ovo"):
    """What it takes to leave nothing to the path solver: a limit is one of a problem."""
    backend = BriefBackend(1000.0)
    fits_of(backend, decision)
    return 45 * (1000.0 - backend.seconds_left)


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
@pytest.mark.parametrize("part", [1.0, 0.01])
def test_the_predictions_are_those_of_the_path_solver(decision, part):
    brief = fits_of(BriefBackend(part * seconds_needed(decision)), decision)
    assert (n_of_svc(brief) == len(brief)) == (part == 1.0)
    for cell, fit in fits_of(load_backend("path", "cpu"), decision).items():
        assert fit.predict is not None
        assert brief[cell].predict is not None
        mine, other = (fit_.predict("predict", "test") for fit_ in (fit, brief[cell]))
        assert np.mean(mine != other) < 0.02


def test_the_same_cells_are_fitted_by_the_same_solver_each_time_small_c_first():
    runs = [fits_of(BriefBackend(seconds_needed() / 90)) for _ in range(2)]
    of_svc = [
        {cell for cell, fit in fits.items() if fit.implementation == IMPLEMENTATION}
        for fits in runs
    ]
    assert of_svc[0] == of_svc[1]
    assert 0 < len(of_svc[0]) < len(runs[0])
    assert {candidate % len(CS) for candidate, _ in of_svc[0]} >= {0}
    assert 2 not in {candidate % len(CS) for candidate, _ in of_svc[0]}


def test_a_fit_without_end_is_left_to_the_path_solver():
    backend = BriefBackend(1e-6)
    assert n_of_svc(fits_of(backend)) == 0
    assert backend.seconds_left == 0
    assert n_of_svc(fits_of(backend)) == 0  # and it stays so


def test_a_fit_that_fails_says_why():
    work = Work(X, y, [(np.flatnonzero(y == 0), np.arange(9))], [0], [0.1], [1.0], Settings())
    (fit,) = (item for item in BriefBackend(10.0).fit_cells(work) if isinstance(item, Fit))
    assert fit.error is not None
    assert "class" in fit.error


@pytest.mark.parametrize("seconds", [10.0, 1e-6])
def test_a_model_is_that_of_the_path_solver(seconds):
    fit = (X, y, 1.0, 0.01, Settings(tol=1e-6))
    support, coefficients, intercepts = BriefBackend(seconds).fit_parts(*fit)
    expected = load_backend("path", "cpu").fit_parts(*fit)
    order, other = np.argsort(support), np.argsort(expected[0])
    np.testing.assert_array_equal(support[order], expected[0][other])
    np.testing.assert_allclose(coefficients[order], expected[1][other], atol=1e-4)
    np.testing.assert_allclose(intercepts, expected[2], atol=1e-4)
