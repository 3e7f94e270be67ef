"""Ensembles that are the beginning of a larger one are those of separate fits, to the bit."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn import ensemble
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from pipelines import GridSearch
from pipelines.data.dataset import read_only
from pipelines.search.fitting import PLAIN, group_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared import shared_fit_of
from tests.search.alike import assert_alike, methods_of

THREE = make_classification(150, 8, n_informative=5, n_classes=3, flip_y=0.2, random_state=0)
TWO = make_classification(150, 8, flip_y=0.2, random_state=0)
EASY = make_classification(150, 8, class_sep=6, flip_y=0, random_state=0)
NUMBERS = make_regression(150, 8, noise=20, random_state=0)
SIZES = (7, 1, 12, np.int64(4))


def seeded(estimator, *data, size="n_estimators"):
    return estimator.set_params(random_state=3), size, data


CASES: Mapping[str, tuple[Any, str, Sequence[Any]]] = {
    "forest": seeded(ensemble.RandomForestClassifier(max_depth=4), *THREE),
    "forest of numbers": seeded(ensemble.RandomForestRegressor(), *NUMBERS),
    "extra trees": seeded(ensemble.ExtraTreesClassifier(), *TWO),
    "bag": seeded(ensemble.BaggingClassifier(), *THREE),
    "bag of a tree without a seed": seeded(
        ensemble.BaggingRegressor(DecisionTreeRegressor(max_features=2), max_features=0.5), *NUMBERS
    ),
    "isolation": seeded(ensemble.IsolationForest(max_features=0.5), *NUMBERS),
    "isolation of a tenth": seeded(ensemble.IsolationForest(contamination=0.1), TWO[0], None),
    "boosting": seeded(ensemble.GradientBoostingClassifier(subsample=0.7), *THREE),
    "boosting of numbers": seeded(ensemble.GradientBoostingRegressor(max_features=2), *NUMBERS),
    "boosting that ends early": seeded(
        ensemble.GradientBoostingClassifier(n_iter_no_change=2, tol=0.05, subsample=0.8), *TWO
    ),
    "boosting of numbers that ends early": seeded(
        ensemble.GradientBoostingRegressor(n_iter_no_change=1, learning_rate=1), *NUMBERS
    ),
    "histograms": seeded(
        ensemble.HistGradientBoostingClassifier(max_features=0.5), *THREE, size="max_iter"
    ),
    "histograms that end early": seeded(
        ensemble.HistGradientBoostingClassifier(early_stopping=True, n_iter_no_change=2, tol=0.1),
        *TWO,
        size="max_iter",
    ),
    "histograms that end early by a score": seeded(
        ensemble.HistGradientBoostingRegressor(
            early_stopping=True, n_iter_no_change=1, learning_rate=1, scoring="r2"
        ),
        *NUMBERS,
        size="max_iter",
    ),
    "adaboost": seeded(ensemble.AdaBoostClassifier(), *THREE),
    "adaboost of two classes": seeded(ensemble.AdaBoostClassifier(), *TWO),
    "adaboost of a tree without a seed": seeded(
        ensemble.AdaBoostClassifier(DecisionTreeClassifier(max_depth=2, max_features=2)), *THREE
    ),
    "adaboost that needs no more": seeded(
        ensemble.AdaBoostClassifier(DecisionTreeClassifier(max_depth=3)), *EASY
    ),
    "adaboost that is no better than chance": seeded(
        ensemble.AdaBoostClassifier(LogisticRegression(C=1e-3), learning_rate=2), *THREE
    ),
    "adaboost of numbers": seeded(ensemble.AdaBoostRegressor(loss="square"), *NUMBERS),
    "adaboost of numbers that needs no more": seeded(
        ensemble.AdaBoostRegressor(DecisionTreeRegressor(max_depth=1)), NUMBERS[0], NUMBERS[0][:, 0]
    ),
    "adaboost of numbers whose members err too much": seeded(
        ensemble.AdaBoostRegressor(LinearRegression(), learning_rate=2),
        NUMBERS[0],
        NUMBERS[0][:, 1],
    ),
    "adaboost of sparse rows": seeded(
        ensemble.AdaBoostClassifier(), csr_array(np.where(THREE[0] > 0.5, THREE[0], 0)), THREE[1]
    ),
}
ENDS_EARLY = [name for name in CASES if "early" in name or "no more" in name]


def fitted_both_ways(name, y=None, **weights):
    """Separate fits, shared ones, and the kind that made these, of a case in all sizes."""
    estimator, size, (X, targets) = CASES[name]
    y = targets if y is None else y
    models = [clone(estimator).set_params(**{size: n}) for n in SIZES]
    kind = shared_fit_of(estimator)
    assert len({kind.group_key(model) for model in models} - {None}) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        separate = [clone(model).fit(X, y, **weights) for model in models]
        shared = kind.fit(models, read_only(X), read_only(y), **weights)
    return separate, shared, kind


@pytest.mark.parametrize("name", CASES)
def test_they_have_the_attributes_of_separate_fits(name):
    separate, shared, _ = fitted_both_ways(name)
    for actual, expected in zip(shared, separate, strict=True):
        assert_alike(actual, expected, type(expected).__name__)


@pytest.mark.parametrize("name", CASES)
def test_they_predict_what_separate_fits_predict(name):
    separate, shared, kind = fitted_both_ways(name)
    X = read_only(CASES[name][2][0])
    with np.errstate(all="ignore"):
        for method in methods_of(separate[0]):
            expected = [getattr(model, method)(X) for model in separate]
            together = kind.predict(shared, method, X)
            apart = [getattr(model, method)(X) for model in shared]
            assert_alike(apart, expected, method)
            if together is not None:
                assert_alike(list(together), expected, method)


@pytest.mark.parametrize("name", ENDS_EARLY)
def test_these_cases_end_early(name):
    separate, _, kind = fitted_both_ways(name)
    largest = max(separate, key=kind.size_of)
    assert 1 <= len(getattr(largest, kind.lists[0])) < max(SIZES)


@pytest.mark.parametrize("name", ["forest", "bag", "boosting", "histograms", "adaboost"])
def test_they_take_weights(name):
    weights = read_only(np.random.default_rng(0).uniform(0, 2, len(THREE[0])))
    separate, shared, _ = fitted_both_ways(name, sample_weight=weights)
    for actual, expected in zip(shared, separate, strict=True):
        assert_alike(actual, expected, type(expected).__name__)


@pytest.mark.parametrize("name", CASES)
def test_without_a_seed_none_is_shared(name):
    estimator = clone(CASES[name][0]).set_params(random_state=None)
    groups = group_candidates([estimator, clone(estimator)], CandidateScorer())
    assert [group.name for group in groups] == [PLAIN, PLAIN]


@pytest.mark.parametrize(
    "estimator",
    [
        ensemble.RandomForestClassifier(random_state=0, oob_score=True),
        ensemble.BaggingClassifier(random_state=0, warm_start=True),
        ensemble.AdaBoostClassifier(random_state=np.random.RandomState(0)),
        ensemble.GradientBoostingClassifier(random_state=np.random.RandomState(0)),
        ensemble.GradientBoostingClassifier(
            random_state=0, init=ensemble.RandomForestClassifier(n_estimators=2)
        ),
        ensemble.RandomForestClassifier(random_state=True),
        ensemble.RandomForestClassifier(random_state=0, n_estimators=2.0),
    ],
    ids=lambda estimator: re.sub(" at 0x[^)]*", "", repr(estimator)),
)
def test_what_a_prefix_does_not_give_is_not_shared(estimator):
    groups = group_candidates([estimator, copy.deepcopy(estimator)], CandidateScorer())
    assert [group.name for group in groups] == [PLAIN, PLAIN]


GENERATORS: Mapping[str, tuple[Any, str, Sequence[Any]]] = {
    "forest": (ensemble.RandomForestClassifier(), "n_estimators", THREE),
    "extra trees": (ensemble.ExtraTreesRegressor(), "n_estimators", NUMBERS),
    "bag": (ensemble.BaggingClassifier(), "n_estimators", THREE),
    "histograms": (ensemble.HistGradientBoostingRegressor(max_features=0.5), "max_iter", NUMBERS),
}


def drawn(seed, n=5):
    """A generator that has drawn some numbers."""
    generator = np.random.RandomState(seed)
    generator.normal(size=n)
    return generator


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_is_a_seed_as_each_fit_has_a_copy(name):
    estimator, size, (X, y) = GENERATORS[name]
    model = clone(estimator).set_params(random_state=drawn(1))
    models = [clone(model).set_params(**{size: n}) for n in SIZES]
    kind = shared_fit_of(model)
    assert len({kind.group_key(model) for model in models} - {None}) == 1
    separate = [clone(model).fit(X, y) for model in models]
    for actual, expected in zip(kind.fit(models, X, y), separate, strict=True):
        assert_alike(actual, expected, type(expected).__name__)
    assert_alike(models[0].random_state, drawn(1))  # a fit by itself begins with it


def state_seen(estimator, X, y):
    """A scorer that draws from the generator of the estimator."""
    state = estimator[-1].random_state
    draw = 0.0 if isinstance(state, int) else state.uniform()
    return float(draw + estimator.score(X, y))


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("scoring", [None, state_seen])
def test_searches_with_generators_are_those_of_scikit_learn(name, scoring):
    estimator, size, (X, y) = GENERATORS[name]
    step = type(estimator).__name__.lower()
    grid = {
        f"{step}__{size}": [2, 5],
        f"{step}__random_state": [drawn(2), np.random.RandomState(7), 7, drawn(2)],
    }
    searches = []
    for search_class in (GridSearchCV, GridSearch):
        own_generator, choices = drawn(3), copy.deepcopy(grid)
        pipeline = make_pipeline(
            StandardScaler(), clone(estimator).set_params(random_state=own_generator)
        )
        search = search_class(pipeline, choices, cv=3, scoring=scoring).fit(X, y)
        assert_alike([own_generator, choices], [drawn(3), grid])
        searches.append(search)
    theirs, ours = searches
    # Of the four seeds two are equal.
    assert ours.fits == (24, 9)
    for split in range(3):
        column = f"split{split}_test_score"
        np.testing.assert_array_equal(ours.cv_results_[column], theirs.cv_results_[column])
    assert_alike(ours.best_estimator_[-1], theirs.best_estimator_[-1])


def test_a_generator_that_all_candidates_have_is_left_as_it_was():
    X, y = THREE
    for n_splits in (2, 1):
        scores = []
        for search_class in (GridSearchCV, GridSearch):
            generator = drawn(4)
            forest = ensemble.RandomForestClassifier(random_state=generator)
            splits = list(KFold(2).split(X))[:n_splits]
            search = search_class(forest, {"n_estimators": [3, 9]}, cv=splits).fit(X, y)
            assert_alike(generator, drawn(4))
            scores.append(search.cv_results_["split0_test_score"])
        np.testing.assert_array_equal(*scores)


def test_isolation_forests_share_trees_whatever_the_share_of_outliers():
    X, y = TWO[0], np.where(np.abs(TWO[0]).max(axis=1) > 2.5, -1, 1)
    for rows in (X, pd.DataFrame(X).rename(columns=str), csr_array(X)):
        grid = {"n_estimators": [5, 12], "contamination": ["auto", 0.05, 0.2, 0.5]}
        how = {"cv": 3, "scoring": ["accuracy", "roc_auc"], "refit": "roc_auc"}
        theirs, ours = (
            search(ensemble.IsolationForest(random_state=0), grid, **how).fit(rows, y)
            for search in (GridSearchCV, GridSearch)
        )
        assert ours.fits == (24, 3)
        for split in range(3):
            for name in how["scoring"]:
                column = f"split{split}_test_{name}"
                np.testing.assert_array_equal(ours.cv_results_[column], theirs.cv_results_[column])


@pytest.mark.parametrize("name", CASES)
def test_candidates_are_left_as_they_were(name):
    """Each is fitted by itself, should something fail later."""
    estimator, size, (X, y) = CASES[name]
    models = [clone(estimator).set_params(**{size: n}) for n in SIZES]
    kind = shared_fit_of(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind.fit(models, X, y)
    for model, n in zip(models, SIZES, strict=True):
        assert_alike(model, clone(estimator).set_params(**{size: n}), type(model).__name__)


@pytest.mark.parametrize("share", [0.6, 0.0, 0])
def test_a_share_of_outliers_that_scikit_learn_refuses_is_not_shared(share):
    estimator = ensemble.IsolationForest(random_state=0, contamination=share)
    groups = group_candidates([estimator, clone(estimator)], CandidateScorer())
    assert [group.name for group in groups] == [PLAIN, PLAIN]


def test_scikit_learn_copies_generators_before_each_fit():
    """What all of this rests on."""
    X, y = THREE
    generator = drawn(5)
    forest = ensemble.RandomForestClassifier(3, random_state=generator)
    models = cross_validate(forest, X, y, cv=3, return_estimator=True)["estimator"]
    assert_alike(generator, drawn(5))
    for model in models[1:]:
        assert_alike(model.random_state, models[0].random_state)
    RandomizedSearchCV(
        ensemble.RandomForestClassifier(),
        {"random_state": [generator], "n_estimators": [2, 3]},
        n_iter=2,
        random_state=0,
    ).fit(X, y)
    assert_alike(generator, drawn(5))


def test_steps_of_other_classes_may_draw_from_a_generator_at_any_time():
    class Shifts(StandardScaler):
        """Shifts what it transforms."""

        def __init__(self, random_state=None):
            super().__init__()
            self.random_state = random_state

        def transform(self, X, copy=None):
            return super().transform(X) + self.random_state.normal()

    X, y = THREE
    pipeline = make_pipeline(
        Shifts(np.random.RandomState(0)), ensemble.RandomForestClassifier(random_state=0)
    )
    grid = {"randomforestclassifier__n_estimators": [2, 3]}
    how = {"cv": 3, "scoring": ["accuracy", "neg_log_loss"], "refit": False}
    theirs, ours = (
        search(pipeline, grid, **how).fit(X, y) for search in (GridSearchCV, GridSearch)
    )
    assert ours.fits == (6, 6)
    for name in ("accuracy", "neg_log_loss"):
        column = f"mean_test_{name}"
        np.testing.assert_array_equal(ours.cv_results_[column], theirs.cv_results_[column])


def test_a_case_of_each_kind_is_among_these():
    kinds = {type(shared_fit_of(estimator)) for estimator, _, _ in CASES.values()}
    from pipelines.search.shared.ensembles import SHARED_FITS

    assert kinds == {type(kind) for kind in SHARED_FITS}
    assert {is_classifier(estimator) for estimator, _, _ in CASES.values()} == {True, False}
