"""``RaceSearch``: the winner of the whole grid by fewer fits, in the form of scikit-learn's."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from pipelines import GridSearch, RaceSearch, SVMGridSearch
from pipelines.run import outcomes
from pipelines.search import budget, executor
from pipelines.search.strategies import race

from . import awkward

WINE = load_wine(return_X_y=True)
DIGITS = tuple(array[:500] for array in load_digits(return_X_y=True))
TREE = DecisionTreeClassifier(random_state=0)
LEAVES = {"max_depth": [1, 2, 3, 5], "min_samples_leaf": [1, 5, 20, 60]}
KERNELS = {"C": [0.1, 1, 10, 100], "gamma": np.logspace(-6, 0, 7)}


def same_results(ours, theirs, those=slice(None)):
    """Hold the scores and parameters of candidates to those of another search."""
    for name, values in theirs.cv_results_.items():
        if name.startswith(("split", "mean_t", "std_t", "param_")):
            np.testing.assert_array_equal(ours.cv_results_[name][those], values[those], name)


@pytest.mark.parametrize(
    ("estimator", "grid", "rows", "cv"),
    [
        (TREE, {"max_depth": [1, 2, 3, 4, 8], "min_samples_leaf": [1, 5, 30, 60]}, DIGITS, 10),
        (
            RandomForestRegressor(10, random_state=0),
            {"max_depth": [1, 4], "min_samples_leaf": [5, 100, 140, 160, 180]},
            load_diabetes(return_X_y=True),
            8,
        ),
        (
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
            {"logisticregression__C": np.logspace(-7, 0, 8)},
            WINE,
            10,
        ),
        (SVC(), {"C": [0.1, 1, 10], "gamma": np.logspace(-9, 0, 10)}, DIGITS, 5),
    ],
    ids=["tree", "forest", "logistic", "svc"],
)
def test_the_winner_is_that_of_the_whole_grid(estimator, grid, rows, cv):
    ours = RaceSearch(estimator, grid, cv=cv).fit(*rows)
    theirs = GridSearchCV(estimator, grid, cv=cv).fit(*rows)
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_score_ == theirs.best_score_
    assert (ours.n_splits_done_ < cv).mean() > 0.5
    assert ours.n_splits_done_.min() == 2
    assert ours.fits.n_requested == ours.n_splits_done_.sum()
    same_results(ours, theirs, ours.n_splits_done_ == cv)


def test_results_are_scikit_learns_and_what_was_not_tried_is_nan():
    ours = RaceSearch(TREE, LEAVES, cv=10, return_train_score=True).fit(*WINE)
    theirs = GridSearchCV(TREE, LEAVES, cv=10, return_train_score=True).fit(*WINE)
    results, whole, n_done = ours.cv_results_, theirs.cv_results_, ours.n_splits_done_
    assert set(results) == {*whole, "n_splits_done"}
    assert results["n_splits_done"].tolist() == n_done.tolist()
    for part in ("test", "train"):
        scores = np.stack([results[f"split{i}_{part}_score"] for i in range(10)], axis=1)
        expected = np.stack([whole[f"split{i}_{part}_score"] for i in range(10)], axis=1)
        done = ~np.isnan(scores)
        assert done.sum(axis=1).tolist() == n_done.tolist()
        np.testing.assert_array_equal(scores[done], expected[done])
        for name, function in (("mean", np.nanmean), ("std", np.nanstd)):
            np.testing.assert_allclose(results[f"{name}_{part}_score"], function(scores, axis=1))
    assert (results["mean_fit_time"] > 0).all()
    ranks, means = results["rank_test_score"], results["mean_test_score"]
    assert ranks[n_done < 10].min() > ranks[n_done == 10].max()
    order = sorted(range(16), key=lambda i: (-n_done[i], -means[i]))
    assert np.diff(ranks[order]).min() >= 0
    assert ours.best_index_ == np.argmin(ranks)
    assert ours.score(*WINE) == ours.best_estimator_.score(*WINE)


def test_results_do_not_depend_on_who_fits(one_worker):
    for estimator, grid, rows in ((TREE, LEAVES, WINE), (SVC(), KERNELS, DIGITS)):
        alone = RaceSearch(estimator, grid, cv=5).fit(*rows)
        assert alone.n_splits_done_.sum() < 5 * len(alone.n_splits_done_)
        for where in ({"n_jobs": 2}, {"client": one_worker}):
            search = RaceSearch(estimator, grid, cv=5, **where).fit(*rows)
            same_results(search, alone)
            assert search.best_params_ == alone.best_params_


def untried(search, name="score"):
    n = search.n_splits_
    return [np.isnan(search.cv_results_[f"split{i}_test_{name}"]).tolist() for i in range(n)]


def test_the_seed_decides_the_order_of_splits():
    same, again = (RaceSearch(TREE, LEAVES, cv=10).fit(*WINE) for _ in range(2))
    another = RaceSearch(TREE, LEAVES, cv=10, random_state=1).fit(*WINE)
    drawn = RaceSearch(TREE, LEAVES, cv=10, random_state=np.random.RandomState(3)).fit(*WINE)
    assert untried(same) == untried(again)
    assert untried(same) != untried(another)
    assert untried(same) != untried(drawn)


def test_a_wider_margin_drops_fewer():
    searches = [RaceSearch(TREE, LEAVES, cv=10, margin=margin).fit(*WINE) for margin in (1, 3, 100)]
    n_done = [search.n_splits_done_.sum() for search in searches]
    assert n_done[0] < n_done[1] < n_done[2] == 160
    same_results(searches[2], GridSearchCV(TREE, LEAVES, cv=10).fit(*WINE))


def shallow(estimator, X, y):
    return -float(estimator.get_depth())


@pytest.mark.parametrize("refit", ["accuracy", "shallow"])
def test_of_several_scorers_the_one_that_chooses_decides(refit):
    scoring = {"accuracy": "accuracy", "shallow": shallow}
    search = RaceSearch(TREE, LEAVES, cv=10, scoring=scoring, refit=refit).fit(*WINE)
    theirs = GridSearchCV(TREE, LEAVES, cv=10, scoring=scoring, refit=refit).fit(*WINE)
    assert search.best_params_ == theirs.best_params_
    assert search.best_score_ == theirs.best_score_
    depths, done = search.cv_results_["param_max_depth"], search.n_splits_done_ == 10
    assert (1 in depths[done]) == (refit == "shallow")
    assert (1 in depths[~done]) == (refit == "accuracy")
    for name in scoring:
        ranks = search.cv_results_[f"rank_test_{name}"]
        assert ranks[~done].min() > ranks[done].max()


def scores_of(estimator, X, y):
    return {"shallow": shallow(estimator, X, y), "accuracy": float(estimator.score(X, y))}


def test_a_function_that_chooses_sees_all_and_the_first_scorer_decides():
    seen = []

    def last_of_the_done(results):
        seen.append(results["n_splits_done"].tolist())
        return int(np.flatnonzero(results["n_splits_done"] == 10)[-1])

    how = {"cv": 10}
    by_first, by_second = (
        RaceSearch(TREE, LEAVES, scoring=scores_of, refit=name, **how).fit(*WINE)
        for name in ("shallow", "accuracy")
    )
    for scoring in (scores_of, {"shallow": shallow, "accuracy": "accuracy"}):
        search = RaceSearch(TREE, LEAVES, scoring=scoring, refit=last_of_the_done, **how).fit(*WINE)
        assert search.best_index_ == np.flatnonzero(search.n_splits_done_ == 10)[-1]
        assert untried(search, "shallow") == untried(by_first, "shallow")
    assert seen == [by_first.n_splits_done_.tolist()] * 2
    assert untried(by_second, "shallow") != untried(by_first, "shallow")
    unfitted = RaceSearch(TREE, LEAVES, scoring=scores_of, refit=False, **how).fit(*WINE)
    assert untried(unfitted, "shallow") == untried(by_first, "shallow")
    assert not hasattr(unfitted, "best_estimator_")


class FailsAt(DecisionTreeClassifier):
    """A tree that fails at one depth."""

    def fit(self, X, y, sample_weight=None, check_input=True):
        if self.max_depth == 3:
            raise ValueError("no depth of 3")
        return super().fit(X, y, sample_weight, check_input)


def test_what_fails_is_dropped_and_the_others_go_on():
    grid = {"max_depth": [2, 3, 5]}
    with pytest.warns(FitFailedWarning, match="2 fits failed out of a total of 30"):
        search = RaceSearch(FailsAt(random_state=0), grid, cv=10).fit(*WINE)
    assert search.n_splits_done_.tolist() == [10, 2, 10]
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False, True, False]
    assert search.cv_results_["rank_test_score"][1] == 3
    with pytest.warns(FitFailedWarning):
        search = RaceSearch(
            FailsAt(random_state=0), grid, cv=10, error_score=0.99, refit=False
        ).fit(*WINE)
    assert search.best_params_ == {"max_depth": 3}, "as scikit-learn takes that score"
    with pytest.raises(ValueError, match="no depth of 3"):
        RaceSearch(FailsAt(), grid, error_score="raise").fit(*WINE)
    with pytest.raises(ValueError, match="All the 5 fits failed"):
        RaceSearch(FailsAt(), {"max_depth": [3]}).fit(*WINE)


def test_groups_and_weights_go_where_they_go_in_scikit_learn():
    X, y = WINE
    how = {"groups": np.arange(len(y)) % 12}
    how["sample_weight"] = np.linspace(0.5, 1.5, len(y))
    ours = RaceSearch(TREE, LEAVES, cv=GroupKFold(6)).fit(X, y, **how)
    theirs = GridSearchCV(TREE, LEAVES, cv=GroupKFold(6)).fit(X, y, **how)
    assert ours.best_params_ == theirs.best_params_
    done = ours.n_splits_done_ == 6
    assert not done.all()
    same_results(ours, theirs, done)


def test_where_splits_share_work_all_are_tried_on_a_share_of_the_rows_first(
    monkeypatch,
):
    monkeypatch.setattr(race, "LEAST_ROWS", 100)
    how = {"cv": StratifiedKFold(5, shuffle=True, random_state=0)}
    search = RaceSearch(SVC(), KERNELS, error_score="raise", **how).fit(*DIGITS)
    theirs = GridSearchCV(SVC(), KERNELS, **how).fit(*DIGITS)
    assert search.best_params_ == theirs.best_params_
    assert search.best_score_ == theirs.best_score_
    dropped = search.n_splits_done_ == 0
    assert 0 < dropped.sum() < len(dropped)
    assert np.isnan(search.cv_results_["mean_test_score"][dropped]).all()
    assert np.isnan(search.cv_results_["mean_fit_time"][dropped]).all()
    assert len(set(search.cv_results_["rank_test_score"][dropped])) == 1, "which are tied"
    assert search.cv_results_["rank_test_score"][dropped].min() == (~dropped).sum() + 1
    # On the share three splits of each, and those of all rows.
    assert search.fits.n_requested == 3 * len(dropped) + search.n_splits_done_.sum()


def test_what_fails_on_a_share_of_the_rows_alone_ends_nothing(
    monkeypatch,
):
    monkeypatch.setattr(race, "LEAST_ROWS", 1)
    X, y = load_digits(return_X_y=True)
    # Of three rows of the second class one is of the share: training parts of it have one class.
    rows = np.r_[np.flatnonzero(y == 0)[:100], np.flatnonzero(y == 1)[:3]]
    grid = {"C": [1, 10], "gamma": np.logspace(-6, -2, 5)}
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    search = RaceSearch(SVC(), grid, cv=folds, error_score="raise").fit(X[rows], y[rows])
    theirs = GridSearchCV(SVC(), grid, cv=folds).fit(X[rows], y[rows])
    assert search.best_score_ == theirs.best_score_


def test_it_can_be_cloned_pickled_and_asked_for_its_parameters(one_worker):
    search = RaceSearch(TREE, LEAVES, cv=4, margin=2.5, random_state=7, time_budget=600.0)
    params = search.get_params(deep=False)
    assert (params["margin"], params["random_state"], params["time_budget"]) == (2.5, 7, 600.0)
    copies = clone(search), pickle.loads(pickle.dumps(search.fit(*WINE)))
    assert copies[0].get_params(deep=False).keys() == params.keys()
    assert copies[0].margin == 2.5
    assert not hasattr(copies[0], "n_splits_done_")
    assert copies[1].n_splits_done_.tolist() == search.n_splits_done_.tolist()
    assert (copies[1].predict(WINE[0]) == search.predict(WINE[0])).all()
    assert clone(search.set_params(client=one_worker)).client is one_worker


@pytest.mark.parametrize(
    ("name", "value"),
    [("margin", 0.5), ("margin", None), ("random_state", "x"), ("time_budget", 0.5)],
)
def test_parameters_that_cannot_be_used_are_refused(name, value):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of RaceSearch must be"):
        RaceSearch(TREE, LEAVES, **{name: value}).fit(*WINE)


# Of GridSearchCV, too, where warnings are errors.
NOT_CHECKED = ("dtype_object", "estimators_nan_inf", "supervised_y_2d", "supervised_y_no_nan")


@parametrize_with_checks(
    [RaceSearch(TREE, {"max_depth": [1, 2, 4]}, cv=3)],
    expected_failed_checks=lambda _: {f"check_{name}": "as GridSearchCV" for name in NOT_CHECKED},
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_an_svm_grid_may_be_a_race():
    X, y = DIGITS
    raced = SVMGridSearch(KERNELS["C"], KERNELS["gamma"], margin=3).fit(X, y)
    whole = SVMGridSearch(KERNELS["C"], KERNELS["gamma"]).fit(X, y)
    assert raced.best_params_ == whole.best_params_
    assert set(raced.n_splits_done_) == {2, 5}
    assert not hasattr(whole, "n_splits_done_")
    assert "n_splits_done" not in whole.cv_results_
    with pytest.raises(ValueError, match="'margin' parameter of SVMGridSearch must be"):
        SVMGridSearch(margin=0.5).fit(X, y)


def test_a_search_may_race_searches():
    inner = RaceSearch(TREE, {"max_depth": [1, 2, 5]}, cv=3)
    outer = RaceSearch(inner, {"margin": [1, 3]}, cv=3).fit(*WINE)
    assert outer.best_score_ > 0.8
    assert outer.best_estimator_.n_splits_done_.max() == 3


class Clock(SimpleNamespace):
    """A clock that fits move on."""

    now = 1000.0

    def time(self):
        return self.now

    monotonic = perf_counter = time


CLOCK = Clock()


class Takes(ClassifierMixin, BaseEstimator):
    """Takes its ``seconds`` by the clock, and is the better the larger its ``level``."""

    def __init__(self, level=0, seconds=1.0):
        self.level, self.seconds = level, seconds

    def fit(self, X, y):
        CLOCK.now += self.seconds
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), int)

    def score(self, X, y):
        return 0.5 + 0.01 * self.level


@pytest.fixture
def clock(monkeypatch):
    for module in (budget, executor, outcomes):
        monkeypatch.setattr(module, "time", CLOCK)
    return CLOCK


LEVELS = {"level": list(range(20))}


@pytest.mark.parametrize("kind", [GridSearch, RaceSearch])
@pytest.mark.parametrize("seconds", [0.25, 3.0])
def test_no_fit_is_begun_that_would_not_end_in_time(clock, kind, seconds):
    began, n_all = clock.now, 100 if kind is GridSearch else 40
    search = kind(Takes(seconds=seconds), LEVELS, cv=5, time_budget=30 * seconds)
    with pytest.warns(UserWarning, match=r"^\d+ fits were not made, .* time_budget=") as warned:
        search.fit(*WINE)
    assert clock.now - began <= 30 * seconds  # with the refit
    n_made = int(search.n_splits_done_.sum())
    assert 24 <= n_made <= 29
    assert len(warned) == 1
    assert str(warned[0].message).startswith(f"{n_all - n_made} fits were not made")
    assert np.isnan(search.cv_results_["split0_test_score"]).any()
    assert search.cv_results_["n_splits_done"].tolist() == search.n_splits_done_.tolist()
    assert search.n_splits_done_[search.best_index_] == search.n_splits_done_.max()


def test_an_early_end_leaves_a_coarse_grid(clock):
    search = GridSearch(Takes(), LEVELS, cv=5, time_budget=30)
    with pytest.warns(UserWarning, match="their scores are NaN$"):
        search.fit(*WINE)
    tried = np.flatnonzero(search.n_splits_done_ == 5)
    assert len(tried) >= 4
    assert np.diff([-1, *tried, 20]).max() <= 6


def test_time_that_suffices_changes_nothing(clock):
    ours = GridSearch(Takes(), LEVELS, cv=5, time_budget=1000).fit(*WINE)
    same_results(ours, GridSearchCV(Takes(), LEVELS, cv=5).fit(*WINE))
    assert ours.best_params_ == {"level": 19}


def test_time_that_suffices_for_no_candidate_is_said(clock):
    search = GridSearch(Takes(), LEVELS, cv=5, time_budget=5)
    with pytest.warns(
        UserWarning, match=r"best candidate is by [1-4] of 5 splits; raise time_budget"
    ):
        search.fit(*WINE)
    assert 1 <= search.n_splits_done_.sum() <= 4

    class Late(StratifiedKFold):
        def split(self, X, y, groups=None):
            clock.now += 60
            return super().split(X, y, groups)

    search = GridSearch(Takes(), LEVELS, cv=Late(5), time_budget=5)
    with pytest.warns(UserWarning, match="best candidate is by 1 of 5 splits; raise time_budget"):
        search.fit(*WINE)
    assert search.n_splits_done_.sum() == 1


def test_where_all_that_was_made_in_time_failed_it_is_an_error(clock):
    search = GridSearch(awkward.Surrogates(), {"k": [2] * 3}, cv=3, time_budget=600)
    with pytest.raises(ValueError, match="All the 9 fits failed"):
        search.fit(*WINE)


def test_a_race_that_ends_on_a_share_of_the_rows_has_the_best_of_these(monkeypatch, clock):
    monkeypatch.setattr(race, "LEAST_ROWS", 100)
    how = {"cv": 5, "time_budget": 5}
    real = executor.fits_of_task

    def slow(*arguments, **options):
        clock.now += 1.5
        return real(*arguments, **options)

    monkeypatch.setattr(executor, "fits_of_task", slow)
    search = RaceSearch(SVC(), KERNELS, **how)
    with pytest.warns(UserWarning, match=r"is by \d of 5 splits of 33% of the rows; raise"):
        search.fit(*DIGITS)
    assert np.isfinite(search.best_score_)
    assert search.best_estimator_.n_features_in_ == 64


def test_a_client_keeps_to_the_time_and_says_what_it_left(one_worker):
    grid = {"level": list(range(3))}
    search = GridSearch(Takes(), grid, cv=3, time_budget=3600, client=one_worker).fit(*WINE)
    assert search.n_splits_done_.tolist() == [3, 3, 3]
    svms = SVMGridSearch([1, 10], [0.01, 0.1], time_budget=3600).fit(*DIGITS)
    assert svms.n_splits_done_.tolist() == [5] * 4
