"""Epsilon-SVR by the path solver: LIBSVM's machines, for every C and epsilon at once."""

from __future__ import annotations

from itertools import groupby
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from pipelines.data.fits import Fit, Progress
from pipelines.svm.cpu.regression import fit_regression, solve_regression

X, Y = load_diabetes(return_X_y=True)
X, Y = StandardScaler().fit_transform(X[:200]), (Y[:200] - Y[:200].mean()) / Y[:200].std()
FOLDS = list(KFold(3, shuffle=True, random_state=0).split(X))
CS, EPSILONS = (10.0, 0.01, 1.0), (0.1, 0.0, 0.5)


def cells_of(rows, y, gamma, Cs, epsilons, folds, **options):
    """What fits have, in arrays (n_epsilon, n_C, n_folds), and predictions of each fold."""
    items = solve_regression(rows, y, gamma, Cs, epsilons, folds, **options)
    by_cell = {
        (*divmod(fit.candidate, len(Cs)), fit.split): fit for fit in items if isinstance(fit, Fit)
    }
    shape = len(epsilons), len(Cs), len(folds)
    assert sorted(by_cell) == sorted(np.ndindex(shape))
    fits = np.array([by_cell[cell] for cell in np.ndindex(shape)]).reshape(shape)

    def of(name):
        values = [{**vars(fit), **fit.details}[name] for fit in fits.flat]
        return np.array(values).reshape(shape)

    predictions = [
        np.array([[fit.predict("predict") for fit in by_C] for by_C in fits[..., fold]])
        for fold in range(len(folds))
    ]
    return SimpleNamespace(
        predictions=predictions,
        objectives=of("objective"),
        **{name: of(name) for name in ("n_support", "n_iterations", "status", "fit_seconds")},
    )


def _objective(machine, rows, y, epsilon):
    beta, support = machine.dual_coef_[0], machine.support_
    pulls = machine.predict(rows[support]) - machine.intercept_
    return float(beta @ pulls / 2 - beta @ y[support] + epsilon * np.abs(beta).sum())


@pytest.mark.parametrize(
    "kernel", [{}, {"kernel": "linear"}, {"kernel": "poly", "degree": 2, "coef0": 1.0}]
)
def test_it_predicts_what_svr_does(kernel):
    result = cells_of(X, Y, 0.05, CS, EPSILONS, FOLDS, tol=1e-6, **kernel)
    assert not result.status.any()
    for fold, (train, validation) in enumerate(FOLDS):
        for e, epsilon in enumerate(EPSILONS):
            for c, C in enumerate(CS):
                machine = SVR(C=C, gamma=0.05, epsilon=epsilon, tol=1e-6, **kernel)
                machine.fit(X[train], Y[train])
                # LIBSVM's kernel is in single precision, which large inner products show.
                within = 2e-4 if not kernel else 2e-3
                predicted = result.predictions[fold][e, c]
                assert predicted == pytest.approx(machine.predict(X[validation]), abs=within)
                lowest = _objective(machine, X[train], Y[train], epsilon)
                assert result.objectives[e, c, fold] == pytest.approx(lowest, rel=1e-6)


def test_equal_rows_and_a_large_c_end_with_the_best_machine():
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(60, 2)), 3, axis=0)
    y = np.sin(rows[:, 0]) + rng.normal(scale=0.3, size=len(rows))
    fold = [(np.arange(120), np.arange(120, 180))]
    result = cells_of(rows, y, 0.5, [1.0, 1e3, 1e5], [0.1], fold)
    assert not result.status.any()
    machine = SVR(C=1e3, gamma=0.5, epsilon=0.1).fit(rows[:120], y[:120])
    lowest = _objective(machine, rows[:120], y[:120], 0.1)
    assert result.objectives[0, 1, 0] <= lowest + 1e-3 * abs(lowest)


def test_a_tube_that_holds_all_targets_needs_no_support():
    result = cells_of(X, Y, 0.05, [1.0], [100.0], FOLDS)
    assert not result.n_support.any()
    assert np.ptp(result.predictions[0]) == 0


@pytest.mark.slow
def test_rows_beyond_memory_give_the_same():
    arguments = X, Y, 0.05, CS, EPSILONS, FOLDS
    whole, by_rows = (
        cells_of(*arguments, tol=1e-6, memory_bytes=bytes_) for bytes_ in (1 << 30, 1000)
    )
    assert not by_rows.status.any()
    np.testing.assert_allclose(by_rows.objectives, whole.objectives, rtol=1e-6)
    for by_row, other in zip(by_rows.predictions, whole.predictions, strict=True):
        np.testing.assert_allclose(by_row, other, atol=1e-4)


def test_a_fit_is_the_machine_that_a_fold_found():
    train = FOLDS[0][0]
    weights = np.arange(len(X)) % 4 - 0.5  # the first of each four is left out
    fold = [(train, np.arange(len(X)))]  # asked of rows of training, too
    Cs = [10.0, 1.0]  # of a small one, all multipliers at a bound, several intercepts are as good
    result = cells_of(X, Y, 0.05, Cs, [0.1], fold, sample_weight=weights, tol=1e-6)
    for c, C in enumerate(Cs):
        fitted = fit_regression(
            X[train], Y[train], C, 0.05, 0.1, sample_weight=weights[train], tol=1e-6
        )
        assert (weights[train][fitted.support] > 0).all()
        assert fitted.dual_coef.sum() == pytest.approx(0, abs=1e-9)
        by_hand = rbf_kernel(X, X[train][fitted.support], gamma=0.05) @ fitted.dual_coef
        predicted = result.predictions[0][0, c]
        np.testing.assert_allclose(predicted, by_hand + fitted.intercept, atol=1e-4)
        assert result.objectives[0, c, 0] == pytest.approx(fitted.objective, rel=1e-6)
        machine = SVR(C=C, gamma=0.05, epsilon=0.1, tol=1e-6)
        machine.fit(X[train], Y[train], sample_weight=weights[train])
        np.testing.assert_allclose(predicted, machine.predict(X), atol=2e-4)


def test_a_row_that_trains_twice_counts_twice():
    sample = np.random.default_rng(0).integers(0, 100, 150)
    test_rows = np.arange(100, 200)
    result = cells_of(X, Y, 0.05, [1.0], [0.1], [(sample, test_rows)], tol=1e-6)
    machine = SVR(gamma=0.05, tol=1e-6).fit(X[sample], Y[sample])
    np.testing.assert_allclose(
        result.predictions[0][0, 0], machine.predict(X[test_rows]), atol=2e-4
    )


def test_a_kernel_may_be_given():
    arguments = CS, EPSILONS, FOLDS
    K = rbf_kernel(X, gamma=0.05)
    result = cells_of(K, Y, 1.0, *arguments, kernel="precomputed", tol=1e-6)
    expected = cells_of(X, Y, 0.05, *arguments, tol=1e-6)
    for predicted, other in zip(result.predictions, expected.predictions, strict=True):
        np.testing.assert_allclose(predicted, other, atol=5e-4)


@pytest.mark.parametrize("memory_bytes", [1 << 30, 1000])
def test_folds_are_shown_as_they_are_filled(memory_bytes):
    items = list(solve_regression(X, Y, 0.05, [1.0], EPSILONS, FOLDS, memory_bytes=memory_bytes))
    splits = [item.split for item in items if isinstance(item, Fit)]
    assert sorted(splits) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [split for split, _ in groupby(splits)] == list(dict.fromkeys(splits))
    fractions = [item.fraction for item in items if isinstance(item, Progress)]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1
    # The last fold is not the only one that tells.
    assert sum(fraction < 1 for fraction in fractions) >= 2
    result = cells_of(X, Y, 0.05, [1.0], EPSILONS, FOLDS, memory_bytes=memory_bytes)
    assert (result.n_iterations > 0).all()
    assert (result.fit_seconds > 0).all()
