"""Large C on noisy rows: Newton's method on the free multipliers, and solves that must end."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from benchmarks.tables.tables import TABLES, make_table
from pipelines.svm.cpu.fit import fit_path
from pipelines.svm.cpu.path import cross_validate_path
from tests.svm.models import decision_values

TOL = 1e-3


def gap(K, y, beta, C):
    """The KKT violation, in double precision."""
    residual = y - K @ beta
    lower, upper = np.where(y > 0, 0, -C), np.where(y > 0, C, 0)
    return residual[beta < upper].max() - residual[beta > lower].min()


@pytest.mark.parametrize("name", ["phoneme", "abalone", "mammography"])
def test_every_cell_converges_up_to_the_largest_C(name):
    X, y = make_table(name, 900)
    Cs, gammas = np.logspace(-2, 6, 9), [1e-3, 0.05, 0.5]
    folds = [(np.arange(700), np.arange(700, 900))]
    result = cross_validate_path(X, y, gammas, Cs, folds, max_iter=200_000)
    assert not result.status.any()


@pytest.mark.parametrize("C", [1e2, 1e4, 1e6])
def test_a_large_C_is_solved_to_the_tolerance_on_the_exact_kernel(C):
    X, labels = make_table("phoneme", 1000)
    model = fit_path(X, labels, C, 0.05)
    y = np.where(labels == 0, 1.0, -1.0)  # the pair's first class
    beta = np.zeros(len(y))
    beta[model.support] = model.dual_coef[0]
    K = rbf_kernel(X, gamma=0.05)
    assert model.status[0] == 0
    assert gap(K, y, beta, C) < 2 * TOL
    assert abs(beta.sum()) < 1e-9 * C


def test_the_objective_is_not_worse_than_libsvms():
    X, labels = make_table("phoneme", 800)
    C, gamma = 300.0, 0.1
    peer = SVC(C=C, gamma=gamma, tol=1e-5).fit(X, labels)
    theirs = peer.dual_coef_[0]
    K = rbf_kernel(X[peer.support_], gamma=gamma)
    expected = 0.5 * theirs @ K @ theirs - np.abs(theirs).sum()
    ours = fit_path(X, labels, C, gamma).objective[0]
    assert ours <= expected + 1e-3 * abs(expected)
    assert ours == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_the_tables_are_what_they_say(name):
    X, y = make_table(name, 1000)
    again = make_table(name, 1000)
    np.testing.assert_array_equal(X, again[0])
    np.testing.assert_array_equal(y, again[1])
    np.testing.assert_allclose(X.std(axis=0), 1)
    assert np.bincount(y).min() >= 10


def shifted(seed, offset):
    X, y = make_classification(
        300, 8, n_informative=5, class_sep=0.7, flip_y=0.05, random_state=seed
    )
    return X + offset, y


@pytest.mark.parametrize("seed", range(3))
def test_a_solve_ends_on_a_kernel_of_huge_values(seed):
    X, y = shifted(seed, 1000)
    model = fit_path(X, y, kernel="poly", gamma=1 / 8, max_iter=1000)
    assert model.status[0] != 0


def test_a_raw_polynomial_is_solved_on_its_exact_kernel():
    # Single precision, LIBSVM's too, is off by more than the decision values here.
    X, labels = shifted(0, 30)
    gamma = 1 / 8 / X.var()
    model = fit_path(X, labels, 1.0, gamma, kernel="poly")
    y, K = np.where(labels == 0, 1.0, -1.0), (gamma * X @ X.T) ** 3
    beta = np.zeros(len(y))
    beta[model.support] = model.dual_coef[0]
    assert model.status[0] == 0
    assert gap(K, y, beta, 1.0) < 0.02  # of kernel values of 1e8
    ours = decision_values(model, X, X, gamma, "poly")[:, 0]
    # The rounding of sums of kernel values of 1e8.
    rounding = 4e-14 * K.max()
    np.testing.assert_allclose(ours, K @ beta + model.intercept[0], atol=rounding)


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_the_sigmoid_starts_where_libsvm_does(C):
    X, y = shifted(1, 0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    train, validation = np.arange(200), np.arange(200, 300)
    result = cross_validate_path(
        X, y, 0.1, [0.1, 1.0, C * 1.5], [(train, validation)], kernel="sigmoid"
    )
    peer = SVC(kernel="sigmoid", C=C * 1.5, gamma=0.1).fit(X[train], y[train])
    theirs = (peer.predict(X[validation]) != y[validation]).sum()
    assert abs(result.n_errors[0, -1, 0] - theirs) <= 2


def test_values_too_large_for_their_squares_are_refused():
    X, y = shifted(0, 0)
    X[3, 2] = 1e20
    with pytest.raises(ValueError, match="X must hold values below"):
        fit_path(X, y)
    with pytest.raises(ValueError, match="X must hold values below"):
        cross_validate_path(X, y, 1.0, [1.0], [(np.arange(200), np.arange(200, 300))])


@pytest.mark.parametrize("C", [100.0, 1000.0])
def test_a_search_at_a_large_C_is_as_exact_as_a_fit(C):
    X, y = make_table("phoneme", 700)
    train, validation = np.arange(550), np.arange(550, 700)
    Cs, gammas = [1.0, 10.0, C], [0.05, 0.5, 2.0]
    result = cross_validate_path(
        X, y, gammas, Cs, [(train, validation)], tol=1e-5, return_decisions=True
    )
    for gamma, decisions in zip(gammas, result.decisions, strict=True):
        alone = fit_path(X[train], y[train], C, gamma, tol=1e-5)
        expected = decision_values(alone, X[train], X[validation], gamma)
        np.testing.assert_allclose(decisions[0][-1], expected, atol=1e-3)


def test_the_rounding_of_libsvms_kernel_is_not_ours():
    """Whole numbers with noise, as of credit scores: C = 1e6 and gamma = 1e-6."""
    rng = np.random.default_rng(0)
    labels = (rng.random(300) < 0.3).astype(int)
    X = np.round(1.2 * rng.normal(size=(300, 24)) + 0.35 * labels[:, None] * rng.normal(size=24))
    C, gamma, y = 1e6, 1e-6, np.where(labels == 0, 1.0, -1.0)
    # the constant 1 changes nothing, and without it double precision has more digits to give
    K = np.expm1(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    model, peer = fit_path(X, labels, C, gamma), SVC(C=C, gamma=gamma).fit(X, labels)
    ours, theirs = np.zeros(len(y)), np.zeros(len(y))
    ours[model.support], theirs[peer.support_] = model.dual_coef[0], -peer.dual_coef_[0]

    def objective(beta):
        return 0.5 * beta @ K @ beta - np.abs(beta).sum()

    assert gap(K, y, ours, C) < 2 * TOL
    assert gap(K, y, theirs, C) > 100 * TOL
    assert objective(ours) < objective(theirs)
