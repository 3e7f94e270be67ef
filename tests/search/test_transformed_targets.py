"""Regressors of transformed targets that share work predict as separate ones do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, QuantileTransformer, StandardScaler

from pipelines import GridSearch
from pipelines.data.dataset import read_only
from pipelines.search.fitting import PLAIN, group_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared import shared_fit_of

X, y = load_diabetes(return_X_y=True)
ALPHAS = [1e-3, 0.1, 1.0]
LOGARITHM: dict[str, Any] = {"func": np.log1p, "inverse_func": np.expm1}

Case = tuple[Any, Mapping[str, Any]]
CASES: dict[str, Case] = {
    "ridge": (
        TransformedTargetRegressor(Ridge(), **LOGARITHM),
        {"regressor__alpha": ALPHAS},
    ),
    "scaled": (
        TransformedTargetRegressor(Lasso(random_state=0), transformer=StandardScaler()),
        {"regressor__alpha": ALPHAS},
    ),
    "quantiles": (
        TransformedTargetRegressor(
            Ridge(), transformer=QuantileTransformer(n_quantiles=50, random_state=0)
        ),
        {"regressor__alpha": ALPHAS},
    ),
    "pipeline": (
        TransformedTargetRegressor(
            make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge()), **LOGARITHM
        ),
        {"regressor__ridge__alpha": ALPHAS},
    ),
    "neighbours": (
        TransformedTargetRegressor(KNeighborsRegressor(), **LOGARITHM),
        {"regressor__n_neighbors": [1, 3, 10]},
    ),
    "no transformer": (TransformedTargetRegressor(Ridge()), {"regressor__alpha": ALPHAS}),
}
TARGETS = {"numbers": y, "column": y[:, None], "two": np.stack([y, y[::-1]], axis=1)}


@pytest.mark.parametrize("shape", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_they_predict_as_separate_fits_do(name, shape):
    base, grid = CASES[name]
    estimators = [clone(base).set_params(**values) for values in ParameterGrid(grid)]
    rows, targets = pd.DataFrame(X).add_prefix("x"), TARGETS[shape]
    separate_fits = [clone(estimator).fit(rows.copy(), targets) for estimator in estimators]
    kind = shared_fit_of(base)
    assert len({kind.group_key(estimator) for estimator in estimators} - {None}) == 1
    shared_fits = kind.fit(estimators, read_only(rows), read_only(targets))
    at_once = kind.predict(shared_fits, "predict", read_only(rows))
    for i, (shared_fit, separate_fit) in enumerate(zip(shared_fits, separate_fits, strict=True)):
        assert vars(shared_fit).keys() == vars(separate_fit).keys()
        assert shared_fit.n_features_in_ == separate_fit.n_features_in_ == 10
        assert list(shared_fit.feature_names_in_) == list(rows)
        assert repr(shared_fit.regressor_) == repr(separate_fit.regressor_)
        expected = separate_fit.predict(rows.copy())
        np.testing.assert_allclose(shared_fit.predict(rows.copy()), expected, rtol=1e-8)
        if at_once is not None:
            np.testing.assert_allclose(at_once[i], expected, rtol=1e-8)
            assert at_once[i].shape == expected.shape


def test_they_share_arrays_that_cannot_be_written_to():
    for base, grid in CASES.values():
        estimators = [clone(base).set_params(**values) for values in ParameterGrid(grid)]
        rows, targets = read_only(X.copy()), read_only(y.copy())
        kind = shared_fit_of(base)
        kind.predict(kind.fit(estimators, rows, targets), "predict", rows)
        np.testing.assert_array_equal(rows, X)
        np.testing.assert_array_equal(targets, y)


@pytest.mark.parametrize("name", CASES)
def test_searches_have_the_results_of_scikit_learn(name):
    base, grid = CASES[name]
    how = {"cv": 3, "scoring": ["r2", "neg_mean_absolute_error"], "refit": "r2"}
    plain_search = GridSearchCV(base, grid, **how).fit(X, y)
    shared_search = GridSearch(base, grid, **how).fit(X, y)
    assert shared_search.fits == (9, 3)
    assert shared_search.best_params_ == plain_search.best_params_
    for column, scores in plain_search.cv_results_.items():
        if column.startswith("split"):
            np.testing.assert_allclose(shared_search.cv_results_[column], scores, rtol=1e-8)


def test_weights_reach_the_regressors():
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y))
    how = {"param_grid": {"regressor__alpha": ALPHAS}, "cv": 3}
    estimator = TransformedTargetRegressor(Ridge(), **LOGARITHM)
    plain_search = GridSearchCV(estimator, **how).fit(X, y, sample_weight=weights)
    shared_search = GridSearch(estimator, **how).fit(X, y, sample_weight=weights)
    assert shared_search.fits == (9, 3)
    np.testing.assert_allclose(
        shared_search.cv_results_["mean_test_score"],
        plain_search.cv_results_["mean_test_score"],
        rtol=1e-8,
    )


def test_on_rows_that_share_nothing_each_is_fitted_by_itself():
    estimator = TransformedTargetRegressor(Lasso(), transformer=StandardScaler())
    grid = {"regressor__alpha": ALPHAS[1:]}
    rows = np.random.default_rng(0).normal(size=(len(y), len(y)))
    plain_search = GridSearchCV(estimator, grid, cv=3, refit=False).fit(rows, y)
    shared_search = GridSearch(estimator, grid, cv=3, refit=False).fit(rows, y)
    assert shared_search.fits == (6, 6)
    np.testing.assert_array_equal(
        shared_search.cv_results_["mean_test_score"], plain_search.cv_results_["mean_test_score"]
    )


@pytest.mark.parametrize(
    "estimator",
    [
        TransformedTargetRegressor(),
        TransformedTargetRegressor(LinearRegression()),
        TransformedTargetRegressor(Ridge(), transformer=QuantileTransformer()),
        TransformedTargetRegressor(Ridge(copy_X=False)),
    ],
)
def test_what_shares_nothing_or_draws_runs_plainly(estimator):
    candidates = [clone(estimator) for _ in range(2)]
    scorer = CandidateScorer()
    assert {group.name for group in group_candidates(candidates, scorer)} == {PLAIN}
