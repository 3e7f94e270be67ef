"""Rows far from zero, with a column far wider than the others, or a gamma far too large."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from benchmarks.shifted_fits import Fit, compare
from pipelines import GridSearch, PathSVC, PathSVR
from pipelines.svm.cpu import kernels
from pipelines.svm.cpu.beyond_memory import KernelRows
from pipelines.svm.cpu.fit import fit_path
from pipelines.svm.cpu.path import solve_path
from pipelines.svm.cpu.solver_threads import CallersThread
from pipelines.svm.kernel import RBF, Kernel

X, y = make_classification(200, 4, flip_y=0.1, random_state=11)
X = np.round(X * 1024) / 1024  # an offset then changes no digit of a difference
RNG = np.random.default_rng(0)
# Two halves far apart, within which rows are as close as standardised ones are.
WIDE = np.column_stack([RNG.normal(size=(300, 6)), 2e4 * (np.arange(300) % 2)])


def test_a_model_of_large_values_knows_its_own_rows_as_svc_does():
    rows = X * 1e6 + 1e7
    for model in (PathSVC(C=100, gamma=1e3), SVC(C=100, gamma=1e3)):
        assert model.fit(rows, y).score(rows, y) == 1


@pytest.mark.parametrize(
    "model",
    [
        PathSVC(C=10),
        PathSVC(C=10, decision="ovr"),
        PathSVC(C=10, probability=True),
        PathSVR(C=10),
    ],
)
@pytest.mark.parametrize("offset", [1e6, 1e9])
def test_an_offset_changes_no_value(model, offset, tmp_path):
    target, name = y, "decision_function"
    if isinstance(model, PathSVR):
        name = "predict"
    elif model.probability:
        name = "predict_proba"
    elif model.decision == "ovr":
        target = np.arange(200) % 3
    values = []
    for rows in (X, X + offset):
        model.fit(rows, target).save(tmp_path / "model.safetensors")
        loaded = type(model).load(tmp_path / "model.safetensors")
        values.append(getattr(loaded, name)(rows))
    np.testing.assert_allclose(values[1], values[0], atol=2e-3)  # twice tol


@pytest.mark.parametrize("large", [False, True])
def test_distances_within_a_wide_column_keep_their_digits(large, monkeypatch):
    if large:
        monkeypatch.setattr(kernels, "_FLOAT64_PRODUCTS", 0)
    for offset in (0.0, 1e9):
        rows = kernels.prepare_rows(WIDE + offset, RBF)
        true = cdist(WIDE, WIDE, "sqeuclidean")
        whole = kernels.shared_products(rows, RBF)
        # Of the rows themselves an offset of 1e9 leaves 1e-7.
        np.testing.assert_allclose(whole, true, rtol=1e-5)
        across = kernels.cross_products(rows[:100], rows[50:], RBF)
        np.testing.assert_allclose(across, true[:100, 50:], rtol=1e-5)
        source = KernelRows(rows, RBF.at(0.1), 1 << 20, CallersThread())
        products = source.block(np.arange(40), slice(0, 300))
        np.testing.assert_allclose(products, np.expm1(-0.1 * true[:40]), atol=1e-5)


def test_single_precision_stays_where_it_will_do(monkeypatch):
    monkeypatch.setattr(kernels, "_FLOAT64_PRODUCTS", 0)
    digits = load_digits().data
    assert kernels.prepare_rows(digits, RBF).dtype == np.float32
    # Equal rows need no digits.
    assert kernels.prepare_rows(np.tile(digits[:50], (4, 1)), RBF).dtype == np.float32
    assert kernels.prepare_rows(WIDE, RBF).dtype == np.float64


def test_a_close_pair_that_no_sample_shows_is_mended(monkeypatch):
    monkeypatch.setattr(kernels, "_FLOAT64_PRODUCTS", 0)
    rows = RNG.normal(size=(500, 20))
    rows[101] = rows[103] + 1e-3
    ready = kernels.prepare_rows(rows, RBF)
    assert ready.dtype == np.float32
    assert kernels.shared_products(ready, RBF)[101, 103] == pytest.approx(20e-6, rel=1e-3)


def test_kernel_values_between_equal_rows_are_one():
    rows = RNG.normal(size=(50, 3)) * 1e6
    assert (np.diagonal(Kernel(gamma=1e3).between(rows, rows)) == 1).all()


@pytest.mark.parametrize("methods", [("predict",), ("predict", "decision_function")])
def test_a_search_predicts_like_its_refit_where_gamma_is_far_too_large(
    methods,
):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    X = rng.normal(size=(200, 5)) + 5 * y[:, None]
    folds = list(StratifiedKFold(5).split(X, y))
    for fit in solve_path(X, y, [100.0], [0.5], folds, return_decisions=len(methods) > 1):
        if hasattr(fit, "split"):
            train, test_rows = folds[fit.split]
            model = PathSVC(C=0.5, gamma=100.0).fit(X[train], y[train])
            searched = fit.predict.by_method["predict"]
            np.testing.assert_array_equal(searched, model.predict(X[test_rows]))


@pytest.mark.parametrize(
    "fit",
    [
        Fit(0, "two", 1e9, C=100.0),
        Fit(1, "ovo", 1e7, 1e6),
        Fit(2, "ovr", 1e9, 1e6),
        Fit(3, "regression", 1e9),
        Fit(4, "two", 0.0, 2e4, True),
        Fit(5, "ovr", 1e6, 1e6, True),
        Fit(6, "two", 1e7, 1e6, gamma=1e4),
    ],
    ids=lambda fit: f"{fit.kind}-{fit.offset:g}-{fit.scale:g}",
)
def test_search_refit_and_libsvm_agree_to_a_row(fit):
    counts = compare(fit)
    assert counts["search_refit"] == counts["search_libsvm"] == counts["refit_libsvm"] == [0, 0]


@pytest.mark.slow
def test_thousands_of_wide_rows_agree_with_libsvm():
    counts = compare(Fit(84, "two", 1e6, 2e4, True, 3200, 2000))
    assert counts["search_libsvm"][1] == counts["refit_libsvm"][1] == 0


@pytest.mark.parametrize("C", [1e-12, 1e-9, 1e-6, 1.0])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_multipliers_sum_to_zero_as_seen_from_C(C, kernel):
    X, y = make_classification(
        243, 6, n_informative=4, n_classes=3, random_state=24, weights=[0.8, 0.1, 0.1]
    )
    model = fit_path(X, y, C, 0.2, kernel=kernel)
    assert np.abs(model.dual_coef.sum(axis=1)).max() <= 1e-9 * C


@pytest.mark.parametrize("scale", [1e-30, 1e19])
def test_searches_of_svc_fit_plainly_what_single_precision_cannot_hold(scale):
    X, y = load_iris(return_X_y=True)
    searches = [kind(SVC(), {"C": [1, 10]}, cv=3) for kind in (GridSearch, GridSearchCV)]
    ours, peer = (search.fit(X * scale, y).cv_results_["mean_test_score"] for search in searches)
    np.testing.assert_array_equal(ours, peer)
