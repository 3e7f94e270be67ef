"""scikit-learn's own searches on the backend give what they give without it."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier, VotingClassifier
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFECV, SequentialFeatureSelector
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    RandomizedSearchCV,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
    cross_validate,
    learning_curve,
    validation_curve,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.parallel import Parallel as SklearnParallel
from sklearn.utils.parallel import delayed as sklearn_delayed

from pipelines.search.acceleration import Acceleration
from pipelines.search.calls import FitCalls
from pipelines.search.joblib_backend import SearchBackend
from pipelines.search.shared.svm import KernelMachines

X, y = load_iris(return_X_y=True)
X_CANCER, y_CANCER = load_breast_cancer(return_X_y=True)
X_DIABETES, y_DIABETES = load_diabetes(return_X_y=True)
K = {"n_neighbors": [1, 3, 5, 7]}


@contextmanager
def accelerated():
    acceleration = Acceleration()
    with parallel_config(SearchBackend(acceleration)):
        yield acceleration


@pytest.fixture(autouse=True)
def solver_is_loaded(monkeypatch):
    """As in a process that has searched before, whatever test comes first."""
    monkeypatch.setattr(KernelMachines, "seconds_to_start", lambda kind: 0.0)


def scaled(estimator):
    return make_pipeline(StandardScaler(), estimator)


# A search, and how many of the fits that it asks for are made.
SEARCHES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "grid of neighbours": (
        lambda n_jobs: GridSearchCV(KNeighborsClassifier(), K, n_jobs=n_jobs).fit(X, y),
        5,
    ),
    "grid with train scores": (
        lambda n_jobs: GridSearchCV(
            KNeighborsClassifier(), K, cv=3, return_train_score=True, n_jobs=n_jobs
        ).fit(X, y),
        3,
    ),
    "grid of a machine": (
        lambda n_jobs: GridSearchCV(
            SVC(), {"C": [0.1, 1, 10], "gamma": [0.01, 0.1]}, n_jobs=n_jobs
        ).fit(X, y),
        10,
    ),
    "grid of a machine for numbers": (
        lambda n_jobs: GridSearchCV(scaled(SVR(tol=1e-6)), {"svr__C": [1, 10]}, n_jobs=n_jobs).fit(
            X_DIABETES, y_DIABETES
        ),
        5,
    ),
    "random points": (
        lambda n_jobs: RandomizedSearchCV(
            KNeighborsClassifier(), K, n_iter=3, random_state=0, n_jobs=n_jobs
        ).fit(X, y),
        5,
    ),
    "halving": (
        lambda n_jobs: HalvingGridSearchCV(
            KNeighborsClassifier(), K, cv=3, min_resources=40, random_state=0, n_jobs=n_jobs
        ).fit(X, y),
        6,
    ),
    "halving of random points": (
        lambda n_jobs: HalvingRandomSearchCV(
            scaled(KNeighborsClassifier()),
            {"kneighborsclassifier__n_neighbors": [1, 3, 5, 7, 9]},
            cv=3,
            min_resources=40,
            random_state=0,
            n_jobs=n_jobs,
        ).fit(X, y),
        6,
    ),
    "several scorers": (
        lambda n_jobs: GridSearchCV(
            scaled(KNeighborsClassifier()),
            {"kneighborsclassifier__n_neighbors": [1, 5]},
            scoring=["accuracy", "neg_log_loss"],
            refit="accuracy",
            n_jobs=n_jobs,
        ).fit(X, y),
        5,
    ),
    "different estimators": (
        lambda n_jobs: GridSearchCV(
            scaled(SVC()),
            {"svc": [KNeighborsClassifier(1), KNeighborsClassifier(5), GaussianNB()]},
            cv=3,
            n_jobs=n_jobs,
        ).fit(X, y),
        6,
    ),
    "nothing in common": (
        lambda n_jobs: GridSearchCV(
            GaussianNB(), {"var_smoothing": [1e-9, 1e-3]}, cv=3, n_jobs=n_jobs
        ).fit(X, y),
        6,
    ),
}


def scores_of(search):
    return {
        name: np.asarray(values, float)
        for name, values in search.cv_results_.items()
        if "score" in name and "time" not in name
    }


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_gives_what_it_gives_without(name, n_jobs):
    search, n_made = SEARCHES[name]
    plain = search(1)
    with accelerated() as acceleration:
        ours = search(n_jobs)
    assert ours.best_params_ == plain.best_params_ or str(ours.best_params_) == str(
        plain.best_params_
    )
    expected, results = scores_of(plain), scores_of(ours)
    assert results.keys() == expected.keys()
    for column, values in expected.items():
        assert_allclose(results[column], values, atol=2e-6, err_msg=column)
    entries = acceleration.log.entries
    assert sum(entry.n_asked for entry in entries) >= len(plain.cv_results_["params"]) * 3
    if n_jobs != 2:
        assert sum(entry.n_made for entry in entries) == n_made


def test_all_of_the_validation_functions_share():
    estimator, splits = KNeighborsClassifier(), StratifiedKFold(4)

    def functions():
        curve = validation_curve(
            estimator, X, y, param_name="n_neighbors", param_range=[1, 3, 9], cv=splits
        )
        machine = cross_val_score(SVC(), X_CANCER, y_CANCER, cv=3)
        sizes = learning_curve(SVC(), X_CANCER, y_CANCER, cv=ShuffleSplit(3, random_state=0))
        several = cross_validate(
            estimator, X, y, cv=splits, scoring=["accuracy", "f1_macro"], return_train_score=True
        )
        scores = {name: values for name, values in several.items() if "time" not in name}
        return [*curve, machine, *sizes, *scores.values()]

    plain = functions()
    with accelerated() as acceleration:
        ours = functions()
    for result, expected in zip(ours, plain, strict=True):
        assert_allclose(result, expected)
    counts = {entry.name: (entry.n_asked, entry.n_made) for entry in acceleration.log.entries}
    assert counts["validation_curve"] == (12, 4)
    assert counts["cross_validate"] == (4, 4)
    assert set(counts) == {
        "validation_curve",
        "cross_val_score",
        "learning_curve",
        "cross_validate",
    }


def test_what_a_script_draws_is_as_without():
    """Shared fits, plain ones that draw, and draws after the search."""

    def draws():
        np.random.seed(3)  # noqa: NPY002
        grid = {"model": [SVC(C=1), SVC(C=10), RandomForestClassifier(3), SVC(C=5)]}
        steps = scaled(SVC())
        steps.steps[-1] = ("model", steps.steps[-1][1])
        search = GridSearchCV(steps, grid, cv=3).fit(X, y)
        forest = GridSearchCV(RandomForestClassifier(5), {"max_depth": [1, 2]}, cv=3).fit(X, y)
        scores = [*scores_of(search).values(), *scores_of(forest).values()]
        return scores, np.random.random()  # noqa: NPY002

    plain, number = draws()
    with accelerated() as acceleration:
        ours, same_number = draws()
    assert same_number == number
    for result, expected in zip(ours, plain, strict=True):
        assert_allclose(result, expected)
    assert acceleration.log.entries[0].n_made < acceleration.log.entries[0].n_asked


def test_an_analysis_that_draws_is_not_shared():
    rows = np.random.default_rng(0).normal(size=(60, 600))
    labels = rows[:, 0] > 0
    pipe = make_pipeline(PCA(4), KNeighborsClassifier())
    grid = {"kneighborsclassifier__n_neighbors": [1, 3]}

    def search():
        np.random.seed(0)  # noqa: NPY002
        return GridSearchCV(pipe, grid, cv=2).fit(rows, labels), np.random.random()  # noqa: NPY002

    plain, number = search()
    with accelerated() as acceleration:
        ours, same_number = search()
    assert acceleration.log.entries[0].n_made == 4
    assert number == same_number
    assert_allclose(scores_of(ours)["split0_test_score"], scores_of(plain)["split0_test_score"])


@pytest.mark.parametrize("verbose", [1, 2, 3, 10])
def test_it_prints_what_scikit_learn_prints(verbose, capsys):
    def search():
        for scoring in (None, ["accuracy", "f1_macro"]):
            for train in (False, True):
                GridSearchCV(
                    KNeighborsClassifier(),
                    K,
                    cv=2,
                    verbose=verbose,
                    scoring=scoring,
                    refit=False,
                    return_train_score=train,
                ).fit(X, y)
        cross_validate(SVC(), X, y, cv=3, verbose=verbose)
        output = "".join(capsys.readouterr())
        return re.sub(r"\.*(?=\.{3}|[^.]*total time)|(time|elapsed).*", "", output)

    plain = search()
    with accelerated() as acceleration:
        ours = search()
    assert ours == plain
    assert ("END" in plain) == (verbose > 1)
    assert acceleration.log.entries[0].n_made == 2


def test_other_calls_go_to_the_backend_outside():
    with parallel_config("threading", n_jobs=3):
        outside, n_jobs = get_active_backend()
        with accelerated():
            assert effective_n_jobs(-1) == outside.effective_n_jobs(-1)
            seen = Parallel()(delayed(active)() for _ in range(4))
    assert {name for name, _ in seen} == {"ThreadingBackend", "SequentialBackend"} & {
        name for name, _ in seen
    }
    assert n_jobs == 3


def active():
    backend, n_jobs = get_active_backend()
    return type(backend).__name__, n_jobs


def square(number):
    return number * number


@pytest.mark.parametrize("kind", [Parallel, SklearnParallel])
@pytest.mark.parametrize("n_jobs", [None, 1, 2, -1])
@pytest.mark.parametrize("prefer", [None, "threads"])
@pytest.mark.parametrize("return_as", ["list", "generator", "generator_unordered"])
def test_calls_of_any_form(kind, n_jobs, prefer, return_as):
    one_call = (delayed if kind is Parallel else sklearn_delayed)(square)
    with accelerated():
        parallel = kind(n_jobs=n_jobs, prefer=prefer, return_as=return_as)
        for _ in range(2):  # the same again
            assert sorted(parallel(one_call(i) for i in range(9))) == [i * i for i in range(9)]
        assert list(parallel(iter(()))) == []
        with parallel:
            assert sorted(parallel(one_call(i) for i in range(3))) == [0, 1, 4]
            assert sorted(parallel(one_call(i) for i in range(3))) == [0, 1, 4]


def test_no_jobs_is_refused_as_without():
    with accelerated(), pytest.raises(ValueError, match="n_jobs == 0"):
        Parallel(n_jobs=0)(delayed(square)(i) for i in range(3))
    with accelerated(), pytest.raises(ValueError, match="n_jobs == 0"):
        cross_val_score(KNeighborsClassifier(), X, y, n_jobs=0)


class Failing(ClassifierMixin, BaseEstimator):
    """Fails where it is told to."""

    def __init__(self, level=0):
        self.level = level

    def fit(self, X, y):
        if self.level == 1:
            raise RuntimeError("level 1")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def test_errors_are_as_without():
    grid = {"model": [KNeighborsClassifier(1), KNeighborsClassifier(3), Failing(1), Failing(0)]}
    pipe = make_pipeline(StandardScaler(), Failing())
    pipe.steps[-1] = ("model", Failing())
    with accelerated() as acceleration:
        with pytest.warns(FitFailedWarning, match="3 fits failed out of a total of 12"):
            search = GridSearchCV(pipe, grid, cv=3, error_score=-1.0).fit(X, y)
        assert search.cv_results_["mean_test_score"][2] == -1.0
        assert acceleration.log.entries[0].n_made == 9
        with pytest.raises(RuntimeError, match="level 1"):
            GridSearchCV(pipe, grid, cv=3, error_score="raise").fit(X, y)
        with pytest.raises(ValueError, match="n_neighbors"):
            cross_val_score(KNeighborsClassifier(0), X, y, error_score="raise")
        # and what comes after is served as before
        assert cross_val_score(KNeighborsClassifier(1), X, y).shape == (5,)


def test_fits_that_do_not_converge_are_said():
    rows = StandardScaler().fit_transform(X_CANCER)
    search = GridSearchCV(SVC(max_iter=3), {"C": [1, 100]}, cv=2)
    with accelerated(), pytest.warns(ConvergenceWarning, match="did not converge|early"):
        search.fit(rows, y_CANCER)


def test_fitted_estimators_that_are_wanted_are_scikit_learns():
    with accelerated() as acceleration:
        result = cross_validate(SVC(), X, y, return_estimator=True, return_indices=True)
    assert all(hasattr(estimator, "support_") for estimator in result["estimator"])
    assert acceleration.log.entries[0].reason == "it keeps every fitted estimator"


def test_nested_searches_share_in_every_process():
    inner = GridSearchCV(KNeighborsClassifier(), K, cv=3)
    plain = cross_val_score(inner, X, y, cv=3)
    for n_jobs in (1, 2):
        with accelerated() as acceleration:
            assert_allclose(cross_val_score(inner, X, y, cv=3, n_jobs=n_jobs), plain)
        names = {entry.name for entry in acceleration.log.entries}
        assert names == {"cross_val_score", "GridSearchCV"}
        nested = [entry for entry in acceleration.log.entries if entry.name == "GridSearchCV"]
        assert [(entry.n_asked, entry.n_made) for entry in nested] == [(12, 3)] * 3


def test_rows_of_any_form():
    frame = pd.DataFrame(X, columns=list("abcd"))
    grid = {"C": [1, 10], "gamma": [0.1, "scale"]}
    plain = GridSearchCV(SVC(), grid, cv=3).fit(X, y)
    with accelerated():
        for rows in (frame, sparse.csr_matrix(X), X.tolist()):
            search = GridSearchCV(SVC(), grid, cv=3).fit(rows, y)
            assert_allclose(
                search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
            )


def test_a_large_sparse_matrix_is_not_made_dense():
    rows = sparse.random(400, 200_000, density=1e-4, random_state=0, format="csr")
    labels = np.arange(400) % 2
    with accelerated() as acceleration:
        GridSearchCV(SVC(kernel="linear"), {"C": [0.1, 1]}, cv=2).fit(rows, labels)
    assert acceleration.log.entries[0].n_made == 4


def test_a_selector_of_features_calls_many_times():
    selector = SequentialFeatureSelector(
        KNeighborsClassifier(3), n_features_to_select=2, cv=KFold(3)
    )
    plain = selector.fit(X, y).get_support()
    with accelerated() as acceleration:
        assert np.array_equal(selector.fit(X, y).get_support(), plain)
    (line,) = acceleration.log.lines()
    assert line.startswith("SequentialFeatureSelector(KNeighborsClassifier), 7 times: 21 fits")


def test_calls_that_are_no_grid_are_made_as_they_are():
    from sklearn.model_selection._validation import _fit_and_score

    from pipelines.sklearn_private import PassthroughScorer

    def call(rows, k, split):
        estimator = KNeighborsClassifier(k)
        train, test = np.arange(0, 100), np.arange(100, 150)
        return sklearn_delayed(_fit_and_score)(
            estimator,
            rows,
            y,
            scorer=PassthroughScorer(estimator),
            train=train,
            test=test,
            verbose=0,
            parameters={"n_neighbors": k},
            fit_params=None,
            score_params=None,
            split_progress=(split, 2),
        )

    calls = [call(X, 1, 0), call(X, 3, 0), call(X[:, :2].copy(), 1, 1)]
    assert not FitCalls(calls).is_grid
    plain = SklearnParallel()(calls)
    with accelerated() as acceleration:
        ours = SklearnParallel()(calls)
    assert [scores["test_scores"] for scores in ours] == [scores["test_scores"] for scores in plain]
    assert acceleration.log.entries[0].reason == "its fits are of different data"


def test_metadata_and_weights():
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    plain = GridSearchCV(SVC(), {"C": [1, 10]}, cv=3).fit(X, y, sample_weight=weights)
    with accelerated():
        ours = GridSearchCV(SVC(), {"C": [1, 10]}, cv=3).fit(X, y, sample_weight=weights)
    assert_allclose(ours.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


def test_a_table_says_what_was_shared():
    with accelerated() as acceleration:
        GridSearchCV(KNeighborsClassifier(), K, cv=3).fit(X, y)
        GridSearchCV(LogisticRegression(max_iter=200), {"fit_intercept": [True, False]}).fit(X, y)
        cross_val_score(Ridge(), X_DIABETES, y_DIABETES)
    heading, *rows = acceleration.log.table()
    assert heading.split() == [
        "search",
        "estimator",
        "at",
        "asked",
        "kept",
        "made",
        "seconds",
        "shared",
    ]
    assert "one query of neighbors" in rows[0]
    assert "test_acceleration.py:" in rows[0]
    assert "nothing: its fits have nothing in common" in rows[2]


def test_what_is_over_soon_loads_nothing(monkeypatch):
    """Until a process might have saved what loading the solver takes."""
    monkeypatch.setattr(KernelMachines, "seconds_to_start", lambda kind: 1.0)
    monkeypatch.setattr(KernelMachines, "seconds_saved", lambda kind, *problem: 0.3)
    with accelerated() as acceleration:
        for _ in range(4):
            GridSearchCV(SVC(), {"C": [0.1, 1, 10]}, cv=3).fit(X, y)
    entries = acceleration.log.entries
    assert [entry.n_made for entry in entries] == [9, 9, 9, 3]
    assert entries[0].reason == "its fits have nothing in common, or are over too soon"


def test_one_candidate_of_few_rows_is_a_separate_fit():
    with accelerated() as acceleration:
        cross_val_score(SVC(), X, y)
        GridSearchCV(SVC(), [{"kernel": ["rbf"]}, {"kernel": ["linear"]}]).fit(X, y)
    assert [entry.shared for entry in acceleration.log.entries] == [set(), set()]


def test_one_candidate_shares_its_kernel_in_one_process_alone():
    rows = np.random.default_rng(0).normal(size=(1300, 4))
    labels = rows[:, 0] > 0
    with accelerated() as acceleration:
        for n_jobs in (1, 2):
            learning_curve(SVC(), rows, labels, cv=ShuffleSplit(2, test_size=0.1), n_jobs=n_jobs)
    assert [entry.shared for entry in acceleration.log.entries] == [{"the path solver"}, set()]


def noted(path):
    Path(path).touch()


def test_calls_begin_when_a_generator_of_results_is_asked_for(tmp_path):
    with accelerated():
        results = Parallel(n_jobs=2, return_as="generator")(
            delayed(noted)(str(tmp_path / str(number))) for number in range(2)
        )
        while len(list(tmp_path.iterdir())) < 2:  # before any result is asked for
            time.sleep(0.01)
    assert list(results) == [None, None]


CONTEXT = list[int]()


def enter(value):
    CONTEXT.append(value)


def context():
    return CONTEXT


def test_options_of_a_backend_are_passed_on():
    with accelerated():
        seen = Parallel(n_jobs=2, initializer=enter, initargs=(7,))(
            delayed(context)() for _ in range(2)
        )
    assert seen == [[7], [7]]


class Noise(TransformerMixin, BaseEstimator):
    """Draws, and says so nowhere."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X + np.random.randn(*X.shape)  # noqa: NPY002


WIDE = np.random.default_rng(0).normal(size=(100, 600))
DRAWING: dict[str, tuple[Any, dict[str, Any], Any, Any]] = {
    "step": (
        make_pipeline(Noise(), KNeighborsClassifier()),
        {"kneighborsclassifier__n_neighbors": [1, 3, 5]},
        X,
        y,
    ),
    "splits in a step": (
        make_pipeline(
            RFECV(DecisionTreeClassifier(random_state=0), cv=ShuffleSplit(3)),
            KNeighborsClassifier(),
        ),
        {"kneighborsclassifier__n_neighbors": [1, 3, 5]},
        X,
        y,
    ),
    "splits in a part": (
        VotingClassifier(
            [("a", CalibratedClassifierCV(GaussianNB(), cv=ShuffleSplit(3))), ("b", GaussianNB())]
        ),
        {"voting": ["hard", "soft"]},
        X,
        y,
    ),
    "analysis within": (
        TransformedTargetRegressor(make_pipeline(PCA(5), Ridge())),
        {"regressor__ridge__alpha": [0.1, 1, 10]},
        WIDE,
        WIDE[:, 0] + WIDE[:, 1],
    ),
}


@pytest.mark.parametrize("name", DRAWING)
def test_what_draws_without_a_seed_draws_as_without(name):
    estimator, grid, rows, targets = DRAWING[name]

    def search():
        np.random.seed(0)  # noqa: NPY002
        fitted = GridSearchCV(estimator, grid, cv=3).fit(rows, targets)
        return scores_of(fitted), np.random.random()  # noqa: NPY002

    plain, number = search()
    with accelerated():
        ours, same_number = search()
    for column, values in plain.items():
        assert_allclose(ours[column], values, err_msg=column)
    assert same_number == number


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (KNeighborsClassifier(), {"weights": ["uniform", "distances"], "n_neighbors": [3, 5]}),
        (AdaBoostClassifier(random_state=0), {"n_estimators": [True, 3]}),
        (RidgeClassifier(), {"alpha": [1.0, "much"]}),
        (SVC(), {"tol": [0.0, 1e-3], "C": [1, 3]}),
        (SVC(), {"class_weight": ["even", "balanced"], "C": [1, 3]}),
        (SVC(), {"cache_size": [0, 200], "C": [1, 3]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_candidate_that_cannot_be_fails_as_without(estimator, grid):
    search = GridSearchCV(estimator, grid, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = scores_of(search.fit(X, y))
        with accelerated():
            ours = scores_of(search.fit(X, y))
    for column, values in plain.items():
        assert_allclose(ours[column], values, err_msg=column)
    assert np.isnan(plain["mean_test_score"]).any()


def noisy(estimator, X, y):
    return float(estimator.score(X, y) + np.random.random())  # noqa: NPY002


def test_a_scorer_that_draws_draws_as_without():
    def search():
        np.random.seed(0)  # noqa: NPY002
        fitted = GridSearchCV(KNeighborsClassifier(), K, cv=3, scoring=noisy).fit(X, y)
        return scores_of(fitted)["mean_test_score"], np.random.random()  # noqa: NPY002

    plain, number = search()
    with accelerated():
        ours, same_number = search()
    assert_allclose(ours, plain)
    assert same_number == number


def test_splits_that_are_drawn_between_fits_are_those_without():
    def scores():
        np.random.seed(0)  # noqa: NPY002
        return cross_val_score(RandomForestClassifier(3), X, y, cv=ShuffleSplit(3))

    plain = scores()
    with accelerated() as acceleration:
        assert_allclose(scores(), plain)
    (entry,) = acceleration.log.entries
    assert (entry.n_asked, entry.n_made) == (3, 3)


def write_to(distances):
    distances[distances == 0] = 10
    return 1 / distances


def test_weights_that_write_to_distances_change_no_other_candidate():
    search = GridSearchCV(
        KNeighborsClassifier(),
        {"weights": [write_to, "distance"], "n_neighbors": [3, 5]},
        return_train_score=True,
    )
    plain = scores_of(search.fit(X, y))
    with accelerated():
        ours = scores_of(search.fit(X, y))
    for column, values in plain.items():
        assert_allclose(ours[column], values, err_msg=column)


def test_candidates_with_and_without_probabilities():
    parts = [("a", LogisticRegression()), ("b", DecisionTreeClassifier(random_state=0))]
    search = GridSearchCV(
        VotingClassifier(parts),
        {"voting": ["hard", "soft"], "a__C": [0.1, 1]},
        scoring="neg_log_loss",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = scores_of(search.fit(X, y))
        with accelerated():
            ours = scores_of(search.fit(X, y))
    assert np.isnan(plain["mean_test_score"]).sum() == 2
    assert_allclose(ours["mean_test_score"], plain["mean_test_score"])


def test_masks_of_another_length_are_refused_as_without():
    short = np.arange(100) < 50
    with accelerated(), pytest.raises(IndexError, match="boolean index"):
        GridSearchCV(KNeighborsClassifier(), K, cv=[(short, ~short)] * 2, error_score="raise").fit(
            X, y
        )


@pytest.mark.parametrize(
    ("rows", "targets"), [(X, X[:, 0] + X[:, 1]), (X + 1j, y)], ids=["numbers", "complex"]
)
def test_data_that_a_machine_refuses_are_refused(rows, targets):
    search = GridSearchCV(SVC(), {"C": [1, 10]}, cv=KFold(3))
    with accelerated(), pytest.raises(ValueError, match=r"fits failed|[Cc]omplex"):
        search.fit(rows, targets)
