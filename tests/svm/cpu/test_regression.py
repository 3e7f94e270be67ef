"""Epsilon-SVR by the path solver: LIBSVM's machines, for every C and epsilon at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from pipelines.svm.cpu.regression import RegressionResult, cross_validate_regression, fit_regression

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


@pytest.mark.slow
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


def test_a_fit_is_the_machine_that_a_fold_found() -> None:
    train = FOLDS[0][0]
    weights = np.arange(len(X)) % 4 - 0.5  # the first of each four is left out
    fold = [(train, np.arange(len(X)))]  # asked of rows of training, too
    Cs = [10.0, 1.0]  # of a small one, all multipliers at a bound, several intercepts are as good
    found = cross_validate_regression(X, Y, 0.05, Cs, [0.1], fold, sample_weight=weights, tol=1e-6)
    for c, C in enumerate(Cs):
        fitted = fit_regression(
            X[train], Y[train], C, 0.05, 0.1, sample_weight=weights[train], tol=1e-6
        )
        assert (weights[train][fitted.support] > 0).all()
        assert fitted.dual_coef.sum() == pytest.approx(0, abs=1e-9)
        by_hand = rbf_kernel(X, X[train][fitted.support], gamma=0.05) @ fitted.dual_coef
        predicted = found.predictions[0][0, c]
        np.testing.assert_allclose(predicted, by_hand + fitted.intercept, atol=1e-4)
        assert found.objectives[0, c, 0] == pytest.approx(fitted.objective, rel=1e-6)
        machine = SVR(C=C, gamma=0.05, epsilon=0.1, tol=1e-6)
        machine.fit(X[train], Y[train], sample_weight=weights[train])
        np.testing.assert_allclose(predicted, machine.predict(X), atol=2e-4)


def test_a_row_that_trains_twice_counts_twice() -> None:
    sample = np.random.default_rng(0).integers(0, 100, 150)
    asked = np.arange(100, 200)
    found = cross_validate_regression(X, Y, 0.05, [1.0], [0.1], [(sample, asked)], tol=1e-6)
    machine = SVR(gamma=0.05, tol=1e-6).fit(X[sample], Y[sample])
    np.testing.assert_allclose(found.predictions[0][0, 0], machine.predict(X[asked]), atol=2e-4)


def test_a_kernel_may_be_given() -> None:
    given = CS, EPSILONS, FOLDS
    K = rbf_kernel(X, gamma=0.05)
    found = cross_validate_regression(K, Y, 1.0, *given, kernel="precomputed", tol=1e-6)
    made = cross_validate_regression(X, Y, 0.05, *given, tol=1e-6)
    for one, other in zip(found.predictions, made.predictions, strict=True):
        np.testing.assert_allclose(one, other, atol=5e-4)


@pytest.mark.parametrize("memory_bytes", [1 << 30, 1000])
def test_folds_are_shown_as_they_are_filled(memory_bytes: int) -> None:
    seen: dict[int, np.ndarray] = {}
    shares: list[float] = []

    def on_fold(result: RegressionResult, fold: int) -> None:
        seen[fold] = result.predictions[fold].copy()

    found = cross_validate_regression(
        X,
        Y,
        0.05,
        [1.0],
        EPSILONS,
        FOLDS,
        on_fold=on_fold,
        on_progress=shares.append,
        memory_bytes=memory_bytes,
    )
    for fold, predictions in enumerate(found.predictions):
        np.testing.assert_array_equal(seen[fold], predictions)
    assert max(shares) == 1
    assert len(shares) == 9
    assert (found.n_iterations > 0).all()
    assert (found.fit_seconds > 0).all()
