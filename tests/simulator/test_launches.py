"""Launches that end before all is solved, and go on in the next."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.model_selection import StratifiedKFold

from pipelines.data.fits import Progress
from pipelines.svm.cuda import launches, newton, smo
from pipelines.svm.cuda.launches import Launching
from pipelines.svm.cuda.path import cross_validate_path_cuda, fit_path_cuda, solve_path_cuda

FIGURES = ("objectives", "n_errors", "n_support", "n_iterations", "status")
FOREVER = 1e9


@pytest.fixture
def small_slices(monkeypatch):
    """Each of a few iterations, a chunk of rows, a thread's own residuals, a Newton step."""
    monkeypatch.setattr(smo, "ITERATIONS_AT_ONCE", 7)
    for name in ("VALUES_AT_ONCE", "TERMS_AT_ONCE"):
        monkeypatch.setattr(smo, name, 1)
    monkeypatch.setattr(newton, "STEPS_AT_ONCE", 1)


@pytest.fixture
def made(monkeypatch):
    """The launches, by their kernel."""
    made, launch = [], launches.launch

    def noted(kernel, *arguments):
        made.append(kernel)
        launch(kernel, *arguments)

    monkeypatch.setattr(launches, "launch", noted)
    return made


def table(sizes, seed=0):
    """Classes that overlap: at a large C the problems are hard."""
    X, y = make_blobs(list(sizes), n_features=2, cluster_std=4.0, random_state=seed)
    return X, y, list(StratifiedKFold(2, shuffle=True, random_state=0).split(X, y))


@pytest.mark.parametrize("hard_members", [0, None])
@pytest.mark.parametrize(("decision", "sizes"), [("ovo", (14, 12, 10)), ("ovr", (11, 12, 9))])
def test_wherever_launches_end_the_results_are_the_same(
    decision, sizes, hard_members, small_slices, made
):
    X, y, folds = table(sizes)
    options = {"decision": decision, "return_decisions": True}
    found, numbers = [], []
    for seconds in (FOREVER, 0.0):
        made.clear()
        launching = Launching(4, 2, capacity=12, hard_members=hard_members, seconds=seconds)
        found.append(
            cross_validate_path_cuda(
                X, y, [0.1, 1.0], [0.1, 10.0, 1e4], folds, launching=launching, **options
            )
        )
        numbers.append(len(made))
    whole, cut = found
    for name in FIGURES:
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name))
    for g, fold in np.ndindex(2, 2):
        np.testing.assert_array_equal(cut.decisions[g][fold], whole.decisions[g][fold])
    assert numbers[0] == 2  # sums, and all that is solved
    assert numbers[1] > 100
