"""Trees cut or pruned from one that has grown on are those of separate fits, to the bit."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csc_array
from sklearn import ensemble
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from pipelines import GridSearch
from pipelines.data.dataset import read_only
from pipelines.search.fitting import PLAIN, group_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared import ensembles, shared_fit_of
from tests.search.alike import assert_alike, methods_of

THREE = make_classification(200, 8, n_informative=5, n_classes=3, flip_y=0.2, random_state=0)
TWO = make_classification(200, 8, flip_y=0.2, random_state=1)
NUMBERS = make_regression(200, 8, noise=20, random_state=0)
TIES = np.round(TWO[0]), TWO[1]
BOTH = NUMBERS[0], np.stack([NUMBERS[1], NUMBERS[0][:, 0] * 100], axis=1)
LABELS = TWO[0], np.stack([TWO[1], THREE[1]], axis=1)
HOLES = np.where(np.random.default_rng(0).uniform(size=TWO[0].shape) < 0.1, np.nan, TWO[0]), TWO[1]
SPARSE = csc_array(np.where(TWO[0] > 0.5, TWO[0], 0)), TWO[1]
SINGLE = NUMBERS[0].astype(np.float32), NUMBERS[1]

LEAVES: list[Any] = [7, 2, 3, np.int64(30), 1000]
CASES: Mapping[str, tuple[Any, Any]] = {
    "classes": (DecisionTreeClassifier(), THREE),
    "classes, features drawn": (DecisionTreeClassifier(max_features=2), TWO),
    "entropy, ties": (DecisionTreeClassifier(criterion="entropy", min_samples_leaf=3), TIES),
    "missing values": (DecisionTreeClassifier(), HOLES),
    "two outputs": (DecisionTreeClassifier(), LABELS),
    "class weights": (DecisionTreeClassifier(class_weight="balanced"), THREE),
    "monotonic": (DecisionTreeClassifier(monotonic_cst=[1, -1, 0, 0, 1, 0, 0, 0]), TWO),
    "sparse": (DecisionTreeClassifier(max_features=3), SPARSE),
    "numbers": (DecisionTreeRegressor(), NUMBERS),
    "numbers in single precision": (DecisionTreeRegressor(min_samples_split=5), SINGLE),
    "numbers, two outputs": (DecisionTreeRegressor(), BOTH),
    "numbers, ties": (DecisionTreeRegressor(splitter="random", min_samples_leaf=2), TIES),
    "extra tree": (ExtraTreeClassifier(), THREE),
    "extra tree, numbers": (ExtraTreeRegressor(max_depth=6), NUMBERS),
    "forest": (ensemble.RandomForestClassifier(4), THREE),
    "forest of numbers": (ensemble.RandomForestRegressor(4, max_features=3), NUMBERS),
    "extra trees": (ensemble.ExtraTreesClassifier(4, bootstrap=True), TWO),
    "extra trees of numbers": (ensemble.ExtraTreesRegressor(4), BOTH),
}
GROWTHS = ["depth first", "best first"]


def alphas_of(estimator, X, y):
    """Alphas by which a tree is pruned to many sizes: links of it, and values between them."""
    if not hasattr(estimator, "cost_complexity_pruning_path"):
        estimator = DecisionTreeRegressor(random_state=0)
    links = np.abs(estimator.cost_complexity_pruning_path(X, y).ccp_alphas)
    few = links[:: max(1, len(links) // 6)]
    return [0.0, *few.tolist(), *(1.001 * few).tolist(), float(links.max()), 1e300]


def candidates_of(name, growth):
    """Unfitted candidates of a case, and its rows and targets."""
    estimator, (X, y) = CASES[name]
    estimator = clone(estimator).set_params(random_state=4)
    grid = {"ccp_alpha": alphas_of(estimator, X, y)}
    if growth == "best first":
        grid = {"ccp_alpha": [0.0, *grid["ccp_alpha"][::-4]], "max_leaf_nodes": LEAVES}
    if hasattr(estimator, "n_estimators"):
        grid = {name: values[::-2] for name, values in grid.items()} | {"n_estimators": [3, 1]}
    models = [clone(estimator).set_params(**values) for values in ParameterGrid(grid)]
    return models, X, y


def fitted_both_ways(name, growth, **weights):
    """Separate fits, shared ones, and the kind that made these, of a case."""
    models, X, y = candidates_of(name, growth)
    kind = shared_fit_of(models[0])
    assert len({kind.group_key(model) for model in models} - {None}) == 1
    separate = [clone(model).fit(X, y, **weights) for model in models]
    return separate, kind.fit(models, read_only(X), read_only(y), **weights), kind


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("name", CASES)
def test_they_are_those_of_separate_fits(name, growth):
    separate, shared, kind = fitted_both_ways(name, growth)
    for actual, expected in zip(shared, separate, strict=True):
        assert_alike(actual, expected, type(expected).__name__)
    X = read_only(CASES[name][1][0])
    with np.errstate(divide="ignore"):
        for method in methods_of(separate[0]):
            expected = [getattr(model, method)(X) for model in separate]
            assert_alike([getattr(model, method)(X) for model in shared], expected, method)
            together = kind.predict(shared, method, X)
            if together is not None:
                assert_alike(list(together), expected, method)


@pytest.mark.parametrize("growth", GROWTHS)
def test_these_trees_are_of_many_sizes(growth):
    for name in ("classes", "numbers", "forest"):
        separate, _, _ = fitted_both_ways(name, growth)
        trees = [getattr(model, "estimators_", [model])[0].tree_ for model in separate]
        assert len({tree.node_count for tree in trees}) >= 4
        assert min(tree.node_count for tree in trees) < 6 < max(tree.node_count for tree in trees)


@pytest.mark.parametrize("name", ["classes", "numbers", "forest"])
def test_they_take_weights(name):
    weights = np.random.default_rng(0).integers(0, 3, len(THREE[0])).astype(float)
    for growth in GROWTHS:
        separate, shared, _ = fitted_both_ways(name, growth, sample_weight=read_only(weights))
        for actual, expected in zip(shared, separate, strict=True):
            assert_alike(actual, expected, type(expected).__name__)


def test_many_small_trees_are_pruned_alike():
    """Links of equal strength, which rounding tells apart, are many where rows are few."""
    for seed in range(40):
        generator = np.random.default_rng(seed)
        X, y = generator.integers(0, 4, (60, 3)), generator.integers(0, 3, 60)
        tree = (DecisionTreeClassifier, DecisionTreeRegressor)[seed % 2](random_state=seed)
        alphas = np.abs(tree.cost_complexity_pruning_path(X, y).ccp_alphas).tolist()
        models = [clone(tree).set_params(ccp_alpha=alpha) for alpha in alphas]
        separate = [clone(model).fit(X, y) for model in models]
        kind = shared_fit_of(tree)
        for actual, expected in zip(kind.fit(models, X, y), separate, strict=True):
            assert_alike(actual, expected, f"{seed}")


@pytest.mark.parametrize(
    ("grid", "n_made"),
    [
        ({"ccp_alpha": [0.0, 0.01, 0.03]}, 1),
        ({"max_leaf_nodes": [2, 5, 9], "ccp_alpha": [0, 0.01]}, 1),
        ({"max_leaf_nodes": [None, 5, 9]}, 2),
        ({"max_depth": [2, 3], "ccp_alpha": [0.0, 0.01]}, 2),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(random_state=0),
        DecisionTreeClassifier(random_state=np.random.RandomState(0)),
        ensemble.RandomForestClassifier(3, random_state=np.random.RandomState(0)),
        ensemble.ExtraTreesClassifier(3, random_state=0),
    ],
    ids=lambda estimator: re.sub(" at 0x[^)]*", "", repr(estimator)),
)
def test_searches_are_those_of_scikit_learn(estimator, grid, n_made):
    X, y = THREE
    how = {"cv": 3, "scoring": ["accuracy", "neg_log_loss"], "refit": "accuracy"}
    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = (
            search(estimator, grid, **how).fit(X, y) for search in (GridSearchCV, GridSearch)
        )
    assert ours.fits.n_made == 3 * n_made
    for split in range(3):
        for name in how["scoring"]:
            column = f"split{split}_test_{name}"
            np.testing.assert_array_equal(ours.cv_results_[column], theirs.cv_results_[column])
    assert_alike(ours.best_estimator_, theirs.best_estimator_)


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(),
        ExtraTreeRegressor(),
        DecisionTreeClassifier(random_state=0, ccp_alpha=-1.0),
        DecisionTreeClassifier(random_state=0, ccp_alpha=float("nan")),
        DecisionTreeClassifier(random_state=0, max_leaf_nodes=1),
        DecisionTreeClassifier(random_state=0, max_leaf_nodes=2.0),
        ensemble.RandomForestClassifier(random_state=0, ccp_alpha=-1.0),
        ensemble.RandomForestClassifier(random_state=0, max_leaf_nodes=1),
        ensemble.RandomForestRegressor(ccp_alpha=0.1),
    ],
    ids=lambda estimator: re.sub(" at 0x[^)]*", "", repr(estimator)),
)
def test_what_chance_decides_or_scikit_learn_refuses_is_not_shared(estimator):
    groups = group_candidates([estimator, clone(estimator)], CandidateScorer())
    assert [group.name for group in groups] == [PLAIN, PLAIN]


@pytest.mark.filterwarnings("ignore:One or more of the test scores")
def test_limits_that_scikit_learn_refuses_are_its_errors():
    search = GridSearch(
        DecisionTreeClassifier(random_state=0), {"ccp_alpha": [-1.0, 0.0, 0.1]}, cv=3
    )
    with pytest.warns(FitFailedWarning, match="3 fits failed"):
        search.fit(*THREE)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [True, False, False]
    assert search.fits == (9, 6)


def test_another_depth_is_another_tree():
    """Why ``max_depth`` and limits for single nodes are not shared: they draw other features."""
    X, y = TIES
    for name, values in {"max_depth": [3, None], "min_samples_leaf": [5, 1]}.items():
        tree = DecisionTreeClassifier(random_state=0, criterion="entropy")
        small, large = (clone(tree).set_params(**{name: value}).fit(X, y) for value in values)
        start = slice(0, 5)
        assert (small.tree_.feature[start] != large.tree_.feature[start]).any() or (
            small.tree_.threshold[start] != large.tree_.threshold[start]
        ).any()


def test_forests_that_do_not_fit_in_memory_are_fitted_one_by_one(
    monkeypatch,
):
    monkeypatch.setattr(ensembles, "MOST_NODES", 300)
    forest = ensemble.RandomForestClassifier(5, random_state=0)
    grid = {"ccp_alpha": [0.0, 0.001, 0.01]}
    searches = [search(forest, grid, cv=3).fit(*THREE) for search in (GridSearchCV, GridSearch)]
    assert searches[1].fits == (9, 9)
    scores = [search.cv_results_["mean_test_score"] for search in searches]
    np.testing.assert_array_equal(*scores)
