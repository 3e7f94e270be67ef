"""The solver as a unit of the grid search calls it, on numpy arrays in place of the GPU's."""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.model_selection import StratifiedKFold

from pipelines.data.fits import Fit
from pipelines.data.scaling import Scaling
from pipelines.svm.backends import load_backend
from pipelines.svm.backends import path_cuda as wrapper
from pipelines.svm.backends.base import Work
from pipelines.svm.cuda.launches import Launching
from pipelines.svm.cuda.path import solve_path_cuda
from pipelines.svm.kernel import RBF
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.settings import Settings

CS, GAMMAS = (0.1, 10.0), (0.01, 0.2)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """A thread of the simulator is a thread of the machine: few are enough."""
    few = Launching(block_size=4)
    validate, fit = (
        partial(whole, launching=few) for whole in (solve_path_cuda, wrapper.fit_path_cuda)
    )
    monkeypatch.setattr(wrapper, "solve_path_cuda", validate)
    monkeypatch.setattr(wrapper, "fit_path_cuda", fit)


def data():
    X, y = make_blobs(n_samples=[20, 25, 15], n_features=3, cluster_std=4.0, random_state=0)
    return X.astype(np.float32), y.astype(np.int32), list(StratifiedKFold(3).split(X, y))


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
def test_cells_are_those_of_the_cpu(decision):
    X, y, folds = data()
    settings = Settings(decision)
    fits_of = []
    for device in ("gpu", "cpu"):
        work = Work(X, y, folds, range(len(folds)), GAMMAS, CS, settings, decisions=True)
        fits = [
            first
            for first in load_backend("path", device).fit_cells(work)
            if isinstance(first, Fit)
        ]
        fits_of.append(sorted(fits, key=lambda fit: (fit.candidate, fit.split)))
    assert len(fits_of[0]) == len(GAMMAS) * len(folds) * len(CS)
    for our, cpu in zip(*fits_of, strict=True):
        assert our.error is cpu.error is None
        assert our.converged
        assert cpu.converged
        assert np.sum(our.predict("predict") != cpu.predict("predict")) <= 1
        assert abs(our.n_support - cpu.n_support) <= 2
        values = our.predict("decision_function")
        np.testing.assert_allclose(values, cpu.predict("decision_function"), atol=1.1)  # a vote


def test_the_refit_predicts_as_the_cpus():
    X, y, _ = data()
    names = np.array(["a", "b", "c"])
    settings = Settings()
    ours, cpus = (
        KernelMachine(
            X[support], coefficients, intercepts, RBF, 0.05, Scaling("none").fit(X), names, "ovo"
        )
        for device in ("gpu", "cpu")
        for support, coefficients, intercepts in [
            load_backend("path", device).fit_parts(X, names[y], 10.0, 0.05, settings)
        ]
    )
    assert np.mean(ours.predict(X) == cpus.predict(X)) >= 0.98
    np.testing.assert_allclose(ours.decision_values(X), cpus.decision_values(X), atol=2e-2)
