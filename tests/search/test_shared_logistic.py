"""Logistic regressions that share work take the steps of separate fits, and as many."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from pipelines import GridSearch
from pipelines.data.dataset import read_only
from pipelines.search.fitting import PLAIN, group_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared import lbfgs, shared_fit_of
from pipelines.search.shared.logistic import LEAST_TOGETHER, STEPS_TOGETHER

Data = tuple[Any, Any]


def scaled(data, n_copies=1):
    """Rows of a data set, standardised, and noisy copies of them."""
    X, y = StandardScaler().fit_transform(data[0]), data[1]
    noise = np.random.default_rng(0).normal(scale=0.03, size=(n_copies - 1, *X.shape))
    return np.concatenate([X, *(X + deviations for deviations in noise)]), np.tile(y, n_copies)


TUMOURS: Data = load_breast_cancer(return_X_y=True)
FLOWERS: Data = load_iris(return_X_y=True)
NAMES = load_breast_cancer().target_names
CS = [1e-3, 0.1, 1.0, 100.0]
DATA: dict[str, Data] = {
    "few rows": scaled(TUMOURS),
    "few rows as they were measured": TUMOURS,
    "few rows, three classes": FLOWERS,
    "names": (scaled(TUMOURS)[0], NAMES[TUMOURS[1]]),
    "frame": (pd.DataFrame(scaled(TUMOURS)[0]).add_prefix("x"), pd.Series(TUMOURS[1])),
    "rows": scaled(TUMOURS, 3),
    "rows as they were measured": (np.tile(TUMOURS[0], (3, 1)), np.tile(TUMOURS[1], 3)),
    "three classes": scaled(FLOWERS, 5),
    "ten classes": scaled(load_digits(return_X_y=True)),
    "numbers": (np.round(3 * scaled(FLOWERS, 5)[0]).astype(int), scaled(FLOWERS, 5)[1]),
}
SETTINGS: dict[str, Mapping[str, Any]] = {
    "": {},
    "without intercept": {"fit_intercept": False},
    "balanced": {"class_weight": "balanced"},
    "tight": {"tol": 1e-8, "max_iter": 200},
    "few steps": {"max_iter": 5},
    "no step": {"max_iter": 0},
}


def fits_of(data, settings, weights=None):
    """Models fitted together on read-only rows, each by itself, and what both warn of."""
    X, y = data
    models = [LogisticRegression(C=C, **settings) for C in CS]
    params = {} if weights is None else {"sample_weight": weights}
    with warnings.catch_warnings(record=True) as warned_apart:
        warnings.simplefilter("always")
        separate_fits = [clone(model).fit(X, y, **params) for model in models]
    kind = shared_fit_of(models[0])
    assert len({kind.group_key(model) for model in models} - {None}) == 1
    with warnings.catch_warnings(record=True) as warned_together:
        warnings.simplefilter("always")
        shared_fits = kind.fit(models, read_only(X), read_only(y), **params)
    messages = [
        [str(w.message).splitlines()[0] for w in warned if w.category is ConvergenceWarning]
        for warned in (warned_together, warned_apart)
    ]
    return shared_fits, separate_fits, messages


@pytest.mark.parametrize("is_weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", DATA)
def test_shared_fits_have_the_attributes_of_separate_ones(name, settings, is_weighted):
    n_rows, n_classes = len(DATA[name][1]), len(np.unique(DATA[name][1]))
    weights = np.random.default_rng(0).uniform(0.1, 3, n_rows) if is_weighted else None
    shared_fits, separate_fits, messages = fits_of(DATA[name], SETTINGS[settings], weights)
    assert messages[0] == messages[1]
    few = n_rows * (1 if n_classes == 2 else n_classes) < LEAST_TOGETHER or settings == "tight"
    for shared_fit, separate_fit in zip(shared_fits, separate_fits, strict=True):
        assert vars(shared_fit).keys() == vars(separate_fit).keys()
        assert shared_fit.get_params() == separate_fit.get_params()
        np.testing.assert_array_equal(shared_fit.n_iter_, separate_fit.n_iter_)
        np.testing.assert_array_equal(shared_fit.classes_, separate_fit.classes_)
        to_the_bit = few or separate_fit.n_iter_[0] > STEPS_TOGETHER
        for attribute in ("coef_", "intercept_", "n_iter_"):
            values, expected = getattr(shared_fit, attribute), getattr(separate_fit, attribute)
            assert values.dtype == expected.dtype
            assert values.shape == expected.shape
            within = 0 if to_the_bit else 1e-5 * np.abs(separate_fit.coef_).max()
            np.testing.assert_allclose(values, expected, rtol=0, atol=within)


def test_the_data_sets_end_before_and_after_the_steps_that_are_made_together():
    steps = {
        name: [int(model.n_iter_[0]) for model in fits_of(DATA[name], {})[1]]
        for name in ("rows", "rows as they were measured")
    }
    assert min(steps["rows"]) < STEPS_TOGETHER < max(steps["rows"])
    assert set(steps["rows as they were measured"]) == {100}


@pytest.mark.parametrize(
    "method", ["predict", "decision_function", "predict_proba", "predict_log_proba"]
)
@pytest.mark.parametrize("name", ["names", "frame", "three classes", "ten classes"])
def test_they_predict_together_what_each_predicts_by_itself(name, method):
    data = DATA[name]
    shared_fits, _, _ = fits_of(data, {})
    kind = shared_fit_of(shared_fits[0])
    with np.errstate(divide="ignore"):  # some probabilities are 0
        at_once = kind.predict(shared_fits, method, read_only(data[0]))
        separate = [getattr(model, method)(data[0]) for model in shared_fits]
    for shared_fit, expected in zip(at_once, separate, strict=True):
        assert shared_fit.dtype == expected.dtype
        assert shared_fit.shape == expected.shape
        if method == "predict":
            np.testing.assert_array_equal(shared_fit, expected)
        elif method == "predict_log_proba":
            np.testing.assert_allclose(np.exp(shared_fit), np.exp(expected), rtol=1e-9, atol=1e-14)
        else:
            np.testing.assert_allclose(shared_fit, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "settings",
    [
        {"C": np.inf},
        {"solver": "liblinear"},
        {"solver": "saga"},
        {"solver": "newton-cg"},
        {"solver": "newton-cholesky"},
        {"l1_ratio": 0.5, "solver": "saga"},
        {"verbose": 1},
        {"dual": True},
    ],
)
def test_other_solvers_run_plainly(settings):
    models = [LogisticRegression(**settings) for _ in range(2)]
    assert {group.name for group in group_candidates(models, CandidateScorer())} == {PLAIN}


def test_a_solver_that_is_called_in_another_way_is_left_to_scipy(
    monkeypatch,
):
    assert lbfgs.is_known_scipy()
    monkeypatch.setattr(lbfgs, "SIGNATURE", "setulb()")
    models = [LogisticRegression(C=C) for C in CS]
    assert {group.name for group in group_candidates(models, CandidateScorer())} == {PLAIN}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (make_pipeline(StandardScaler(), LogisticRegression()), "rows as they were measured"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "few rows, three classes"),
        (LogisticRegression(class_weight="balanced"), "few rows as they were measured"),
        (LogisticRegression(), "ten classes"),
    ],
)
def test_searches_have_the_results_of_scikit_learn(estimator, name):
    prefix = "logisticregression__" if hasattr(estimator, "steps") else ""
    how = {
        "param_grid": {f"{prefix}C": CS},
        "scoring": ["accuracy", "neg_log_loss", "f1_macro"],
        "refit": "neg_log_loss",
        "cv": 3,
        "return_train_score": True,
    }
    plain_search = GridSearchCV(estimator, **how).fit(*DATA[name])
    shared_search = GridSearch(estimator, **how).fit(*DATA[name])
    assert shared_search.fits == (12, 3)
    assert shared_search.best_params_ == plain_search.best_params_
    for column, scores in plain_search.cv_results_.items():
        if column.startswith(("split", "mean_te", "mean_tr")):
            np.testing.assert_allclose(shared_search.cv_results_[column], scores, rtol=1e-7)


def test_rows_that_cannot_be_evaluated_together_share_the_steps_before_them():
    X, y = DATA["rows"]
    for rows in (X.astype(np.float32), csr_array(X)):
        pipeline = make_pipeline(FunctionTransformer(accept_sparse=True), LogisticRegression())
        grid = {"logisticregression__C": CS}
        plain_search = GridSearchCV(pipeline, grid, cv=3).fit(rows, y)
        shared_search = GridSearch(pipeline, grid, cv=3).fit(rows, y)
        assert shared_search.fits == (12, 12)
        np.testing.assert_array_equal(
            shared_search.cv_results_["mean_test_score"],
            plain_search.cv_results_["mean_test_score"],
        )


def test_a_search_says_that_descents_ended_at_their_limit():
    search = GridSearch(LogisticRegression(max_iter=3), {"C": CS}, cv=3, refit=False)
    with pytest.warns(ConvergenceWarning, match="lbfgs failed to converge after 3 iteration"):
        search.fit(*DATA["rows"])
    assert search.fits == (12, 3)


@pytest.mark.parametrize("y", [np.zeros(569), np.linspace(0, 1, 569)], ids=["one", "numbers"])
def test_targets_that_are_no_classes_fail_as_in_separate_fits(y):
    messages = []
    for kind in (GridSearchCV, GridSearch):
        search = kind(LogisticRegression(), {"C": CS}, cv=3, refit=False, error_score="raise")
        with pytest.raises(ValueError, match=r"class|Unknown label") as caught:
            search.fit(TUMOURS[0], y)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
