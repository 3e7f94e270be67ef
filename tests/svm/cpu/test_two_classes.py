"""Two classes: folds walk on the kernel of all rows, which leaves decision values."""

import numpy as np
import pytest
from sklearn.svm import SVC

from benchmarks.tables.tables import make_table
from pipelines.svm.cpu.fit import fit_path
from pipelines.svm.cpu.path import cross_validate_path
from tests.svm.models import decision_values


@pytest.fixture(scope="module")
def table():
    return make_table("phoneme", 500)


FOLDS = [(np.arange(100, 500), np.arange(100)), (np.arange(400), np.arange(400, 500))]


@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid"])
def test_predictions_are_those_of_a_fit_of_the_training_rows(table, kernel):
    (X, y), gamma, Cs = table, 0.2, [0.1, 3.0, 40.0]
    result = cross_validate_path(X, y, gamma, Cs, FOLDS, kernel=kernel)
    for fold, (train, validation) in enumerate(FOLDS):
        for c, C in enumerate(Cs):
            peer = SVC(C=C, gamma=gamma, kernel=kernel, tol=1e-4).fit(X[train], y[train])
            errors = (peer.predict(X[validation]) != y[validation]).sum()
            assert abs(result.n_errors[0, c, fold] - errors) <= 1


def test_decision_values_are_those_of_the_model(table):
    (X, y), gamma, Cs = table, 0.2, [0.1, 3.0, 400.0]
    result = cross_validate_path(X, y, gamma, Cs, FOLDS, tol=1e-5, return_decisions=True)
    for fold, (train, validation) in enumerate(FOLDS):
        for c, C in enumerate(Cs):
            model = fit_path(X[train], y[train], C, gamma, tol=1e-5)
            expected = decision_values(model, X[train], X[validation], gamma)
            np.testing.assert_allclose(result.decisions[0][fold][c], expected, atol=2e-3)


def test_a_fold_without_one_class_decides_for_the_other():
    X, y = make_table("phoneme", 200)
    order = np.argsort(y)
    X, y = X[order], y[order]
    only = np.flatnonzero(y == 1)
    folds = [(only[:-5], np.r_[only[-5:], 0:10])]
    result = cross_validate_path(X, y, 0.2, [1.0, 10.0], folds)
    np.testing.assert_array_equal(result.n_errors, 10)


def test_rows_left_out_by_their_weight_do_not_train(table):
    X, y = table
    weight = np.ones(500)
    weight[:50] = 0
    folds = [(np.arange(400), np.arange(400, 500))]
    without = [(np.arange(50, 400), np.arange(400, 500))]
    weighted = cross_validate_path(X, y, 0.2, [1.0, 50.0], folds, sample_weight=weight)
    np.testing.assert_array_equal(
        weighted.n_errors, cross_validate_path(X, y, 0.2, [1.0, 50.0], without).n_errors
    )
