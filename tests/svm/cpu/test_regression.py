"""Epsilon-SVR by the path solver: LIBSVM's machines, for every C and epsilon at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from pipelines.svm.cpu.regression import cross_validate_regression

X, Y = load_diabetes(return_X_y=True)
X, Y = StandardScaler().fit_transform(X[:200]), (Y[:200] - Y[:200].mean()) / Y[:200].std()
FOLDS = list(KFold(3, shuffle=True, random_state=0).split(X))
CS, EPSILONS = (10.0, 0.01, 1.0), (0.1, 0.0, 0.5)


def _objective(machine: SVR, rows: np.ndarray, y: np.ndarray, epsilon: float) -> float:
    beta, some = machine.dual_coef_[0], machine.support_
    pulls = machine.predict(rows[some]) - machine.intercept_
    return float(beta @ pulls / 2 - beta @ y[some] + epsilon * np.abs(beta).sum())


@pytest.mark.parametrize(
    "kernel", [{}, {"kernel": "linear"}, {"kernel": "poly", "degree": 2, "coef0": 1.0}]
)
def test_it_predicts_what_svr_does(kernel: dict[str, Any]) -> None:
    found = cross_validate_regression(X, Y, 0.05, CS, EPSILONS, FOLDS, tol=1e-6, **kernel)
    assert not found.status.any()
    for fold, (train, validation) in enumerate(FOLDS):
        for e, epsilon in enumerate(EPSILONS):
            for c, C in enumerate(CS):
                machine = SVR(C=C, gamma=0.05, epsilon=epsilon, tol=1e-6, **kernel)
                machine.fit(X[train], Y[train])
                # LIBSVM's kernel is in single precision, which large inner products show.
                within = 2e-4 if not kernel else 2e-3
                predicted = found.predictions[fold][e, c]
                assert predicted == pytest.approx(machine.predict(X[validation]), abs=within)
                lowest = _objective(machine, X[train], Y[train], epsilon)
                assert found.objectives[e, c, fold] == pytest.approx(lowest, rel=1e-6)


def test_equal_rows_and_a_large_c_end_with_the_best_machine() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(60, 2)), 3, axis=0)
    y = np.sin(rows[:, 0]) + rng.normal(scale=0.3, size=len(rows))
    fold = [(np.arange(120), np.arange(120, 180))]
    found = cross_validate_regression(rows, y, 0.5, [1.0, 1e3, 1e5], [0.1], fold)
    assert not found.status.any()
    machine = SVR(C=1e3, gamma=0.5, epsilon=0.1).fit(rows[:120], y[:120])
    lowest = _objective(machine, rows[:120], y[:120], 0.1)
    assert found.objectives[0, 1, 0] <= lowest + 1e-3 * abs(lowest)


def test_a_tube_that_holds_all_targets_needs_no_support() -> None:
    found = cross_validate_regression(X, Y, 0.05, [1.0], [100.0], FOLDS)
    assert not found.n_support.any()
    assert np.ptp(found.predictions[0]) == 0


def test_rows_beyond_memory_give_the_same() -> None:
    given = X, Y, 0.05, CS, EPSILONS, FOLDS
    whole, by_rows = (
        cross_validate_regression(*given, tol=1e-6, memory_bytes=bytes_)
        for bytes_ in (1 << 30, 1000)
    )
    assert not by_rows.status.any()
    np.testing.assert_allclose(by_rows.objectives, whole.objectives, rtol=1e-6)
    for one, other in zip(by_rows.predictions, whole.predictions, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
