"""Linear models that share work have the attributes and predictions of separate fits."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, Lasso, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from pipelines import GridSearch
from pipelines.data.dataset import read_only
from pipelines.search.fitting import PLAIN, group_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared import shared_fit_of

Data = tuple[Any, Any]
NUMBERS: Data = load_diabetes(return_X_y=True)
TWO_TARGETS: Data = make_regression(200, 12, n_targets=2, noise=5, random_state=0)
SHIFTED: Data = (100 * NUMBERS[0] + 50, NUMBERS[1][:, None])
CURVED: Data = (PolynomialFeatures(2).fit_transform(10 * NUMBERS[0]), NUMBERS[1])
FLOWERS: Data = load_iris(return_X_y=True)
TUMOURS: Data = (
    StandardScaler().fit_transform(load_breast_cancer().data),
    load_breast_cancer().target_names[load_breast_cancer().target],
)
ALPHAS = [1e-3, 0.1, 1.0, 30.0]
PENALTIES = {"alpha": ALPHAS, "l1_ratio": [0.0, 0.3, 1.0]}
WITHOUT_L1 = "Coordinate descent without L1"  # said by scikit-learn before 1.8

Case = tuple[Any, Mapping[str, Any], Data]  # estimator, grid, rows and targets
CASES: dict[str, Case] = {
    "ridge": (Ridge(), {"alpha": ALPHAS}, NUMBERS),
    "ridge, two targets": (Ridge(), {"alpha": ALPHAS}, TWO_TARGETS),
    "ridge, single precision": (
        Ridge(),
        {"alpha": ALPHAS},
        (NUMBERS[0].astype(np.float32), NUMBERS[1]),
    ),
    "ridge of classes": (RidgeClassifier(), {"alpha": ALPHAS}, FLOWERS),
    "ridge of two weighted classes": (
        RidgeClassifier(class_weight="balanced"),
        {"alpha": ALPHAS},
        TUMOURS,
    ),
    "lasso": (Lasso(), {"alpha": ALPHAS}, NUMBERS),
    "lasso of a frame": (
        Lasso(),
        {"alpha": ALPHAS},
        (pd.DataFrame(NUMBERS[0]).add_prefix("x"), pd.Series(NUMBERS[1])),
    ),
    "lasso, two targets": (Lasso(random_state=0), {"alpha": ALPHAS}, TWO_TARGETS),
    "lasso, targets in a column": (Lasso(), {"alpha": ALPHAS}, SHIFTED),
    "lasso, coefficients above 0": (Lasso(positive=True), {"alpha": ALPHAS}, NUMBERS),
    "lasso at its limit": (Lasso(max_iter=30), {"alpha": ALPHAS}, CURVED),
    "lasso without intercept": (Lasso(fit_intercept=False), {"alpha": ALPHAS}, SHIFTED),
    "elastic net": (ElasticNet(), PENALTIES, NUMBERS),
    "elastic net, tight": (ElasticNet(tol=1e-8, max_iter=10**5), PENALTIES, CURVED),
    "elastic net of a Gram matrix": (ElasticNet(precompute=True), PENALTIES, SHIFTED),
}


def fits_of(case, weights=None):
    """Estimators that were fitted together on read-only rows, and each by itself."""
    base, grid, (X, y) = case
    estimators = [clone(base).set_params(**values) for values in ParameterGrid(grid)]
    params = {} if weights is None else {"sample_weight": weights}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", WITHOUT_L1)
        separate_fits = [clone(estimator).fit(X, y, **params) for estimator in estimators]
        kind = shared_fit_of(base)
        assert len({kind.group_key(estimator) for estimator in estimators} - {None}) == 1
        shared_fits = kind.fit(estimators, read_only(X), read_only(y), **params)
    return shared_fits, separate_fits


def assert_alike(together, apart, rtol=1e-9):
    """All public attributes are equal, numbers to rounding, and have equal types."""
    names = {name for name in vars(apart) if name != "_label_binarizer"}
    assert set(vars(together)) - {"_label_binarizer"} == names
    for name in names:
        shared_fit, separate_fit = getattr(together, name), getattr(apart, name)
        assert type(shared_fit) is type(separate_fit), name
        if not name.endswith("_") or shared_fit is None or isinstance(shared_fit, str):
            assert shared_fit is separate_fit or shared_fit == separate_fit
        elif np.asarray(shared_fit).dtype.kind == "f":
            # A gap is a small difference of sums of squared targets, here about 1e4.
            within = max(rtol, 1e-6) if name == "dual_gap_" else rtol
            atol = 1e-10 if name == "dual_gap_" else within * np.abs(separate_fit).max()
            np.testing.assert_allclose(
                shared_fit, separate_fit, rtol=within, atol=atol, err_msg=name
            )
            assert np.shape(shared_fit) == np.shape(separate_fit)
            assert np.asarray(shared_fit).dtype == np.asarray(separate_fit).dtype
        else:
            np.testing.assert_array_equal(shared_fit, separate_fit, err_msg=name)


@pytest.mark.parametrize("is_weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("name", CASES)
def test_shared_fits_have_the_attributes_of_separate_ones(name, is_weighted):
    y = CASES[name][2][1]
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y)) if is_weighted else None
    shared_fits, separate_fits = fits_of(CASES[name], weights)
    rtol = 2e-3 if "single" in name else 1e-9
    for shared_fit, separate_fit in zip(shared_fits, separate_fits, strict=True):
        assert_alike(shared_fit, separate_fit, rtol)


@pytest.mark.parametrize("name", CASES)
def test_they_predict_together_what_each_predicts_by_itself(name):
    base, _, (X, _) = CASES[name]
    shared_fits, _ = fits_of(CASES[name])
    for method in ("predict", "decision_function"):
        if not hasattr(base, method):
            continue
        at_once = shared_fit_of(base).predict(shared_fits, method, read_only(X))
        for i, estimator in enumerate(shared_fits if at_once is not None else []):
            expected = getattr(estimator, method)(X)
            if expected.dtype.kind == "f":
                rtol = 1e-4 if expected.dtype == np.float32 else 1e-10
                np.testing.assert_allclose(at_once[i], expected, rtol=rtol, atol=rtol)
            else:
                np.testing.assert_array_equal(at_once[i], expected)
            assert at_once[i].dtype == expected.dtype
            assert at_once[i].shape == expected.shape


@pytest.mark.parametrize(
    ("estimator", "values"),
    [
        (Ridge(), {"copy_X": False}),
        (Ridge(), {"alpha": 0}),
        (Ridge(), {"solver": "lsqr"}),
        (RidgeClassifier(), {"copy_X": False}),
        (Lasso(), {"copy_X": False}),
        (Lasso(), {"alpha": 0}),
        (Lasso(), {"selection": "random"}),
        (Lasso(), {"tol": 1e-14}),
        (Lasso(), {"precompute": np.eye(10)}),
        (ElasticNet(), {"l1_ratio": 2.0}),
    ],
)
def test_what_cannot_be_shared_exactly_runs_plainly(estimator, values):
    candidates = [clone(estimator).set_params(**values) for _ in range(2)]
    scorer = CandidateScorer()
    assert {group.name for group in group_candidates(candidates, scorer)} == {PLAIN}


@pytest.mark.parametrize(
    "rows",
    [NUMBERS[0].astype(np.float32), csr_array(NUMBERS[0]), CURVED[0][:40]],
    ids=["single precision", "sparse", "wide"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_of_which_products_are_of_no_use_are_fitted_plainly(rows):
    y = NUMBERS[1][: rows.shape[0]]
    how = {"cv": 3, "refit": False, "error_score": "raise"}
    plain_search = GridSearchCV(Lasso(), {"alpha": ALPHAS}, **how).fit(rows, y)
    shared_search = GridSearch(Lasso(), {"alpha": ALPHAS}, **how).fit(rows, y)
    assert shared_search.fits == (12, 12)
    np.testing.assert_array_equal(
        shared_search.cv_results_["mean_test_score"], plain_search.cv_results_["mean_test_score"]
    )


def test_a_search_says_that_descents_ended_at_their_limit():
    search = GridSearch(Lasso(max_iter=3), {"alpha": [0.1, 0.2]}, cv=3, refit=False)
    with pytest.warns(ConvergenceWarning, match="Objective did not converge"):
        search.fit(*CURVED)
    assert search.fits == (6, 3)


def test_a_search_of_weighted_rows_shares_work():
    X, y = NUMBERS
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y))
    for estimator in (Ridge(), Lasso()):
        how = {"param_grid": {"alpha": ALPHAS}, "cv": 3, "refit": False}
        plain_search = GridSearchCV(estimator, **how).fit(X, y, sample_weight=weights)
        shared_search = GridSearch(estimator, **how).fit(X, y, sample_weight=weights)
        assert shared_search.fits == (12, 3)
        for column, scores in plain_search.cv_results_.items():
            if column.startswith("split"):
                np.testing.assert_allclose(shared_search.cv_results_[column], scores, rtol=1e-9)


def test_a_pipeline_with_a_scaler_shares_work():
    pipeline = make_pipeline(StandardScaler(), ElasticNet())
    grid = {f"elasticnet__{name}": values for name, values in PENALTIES.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", WITHOUT_L1)
        plain_search = GridSearchCV(pipeline, grid, cv=3).fit(*NUMBERS)
        shared_search = GridSearch(pipeline, grid, cv=3).fit(*NUMBERS)
    assert shared_search.fits == (36, 3)
    assert shared_search.best_params_ == plain_search.best_params_
    np.testing.assert_allclose(
        shared_search.cv_results_["mean_test_score"],
        plain_search.cv_results_["mean_test_score"],
        rtol=1e-9,
    )


@pytest.mark.parametrize("y", [NUMBERS[1], np.stack([NUMBERS[1], NUMBERS[1]], axis=1)])
@pytest.mark.parametrize(
    "estimator",
    [Lasso(), make_pipeline(StandardScaler(), Lasso()), TransformedTargetRegressor(Lasso())],
)
def test_an_accelerated_search_draws_what_separate_descents_would_have_drawn(estimator, y):
    name = next(name for name in estimator.get_params() if name.endswith("alpha"))
    search = GridSearchCV(estimator, {name: ALPHAS[1:]}, cv=3)
    draws = []
    for backend in ("sequential", "pleasingly"):
        np.random.seed(0)  # noqa: NPY002
        with parallel_config(backend):
            search.fit(NUMBERS[0], y)
        draws.append(np.random.random())  # noqa: NPY002
    assert draws[0] == draws[1]
