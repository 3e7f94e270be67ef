"""What candidates share gives what each would have given alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_diabetes, load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics import get_scorer
from sklearn.metrics._scorer import _MultimetricScorer
from sklearn.model_selection import KFold, ParameterGrid
from sklearn.model_selection._validation import _fit_and_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from pipelines.data.fits import Fit
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.search.fitting import PLAIN, fit_group, group_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared import shared_fit_of
from pipelines.search.shared.base import SplitRows
from pipelines.testing import SharedFitContract

DIGITS = tuple(part[:360] for part in load_digits(return_X_y=True))
DIABETES = tuple(part[:300] for part in load_diabetes(return_X_y=True))
CLASSES, NUMBERS = ("accuracy", "neg_log_loss"), ("r2", "neg_mean_absolute_error")

Case = tuple[Any, Mapping[str, Any], int]  # estimator, grid, fits made for a fold
EXACT: dict[str, Case] = {
    "neighbours": (KNeighborsClassifier(), {"n_neighbors": [1, 2, 3, 7, 20]}, 1),
    "neighbours, two weights": (
        KNeighborsClassifier(),
        {"n_neighbors": [1, 4, 9], "weights": ["uniform", "distance"]},
        1,
    ),
    "neighbours, two distances": (KNeighborsClassifier(), {"n_neighbors": [1, 5], "p": [1, 2]}, 2),
    "neighbours by a tree": (
        KNeighborsClassifier(algorithm="kd_tree"),
        {"n_neighbors": [3, 1, 8]},
        1,
    ),
    "neighbours, numbers": (
        KNeighborsRegressor(),
        {"n_neighbors": [2, 5, 11], "weights": ["uniform", "distance"]},
        1,
    ),
    "forest": (RandomForestClassifier(random_state=0), {"n_estimators": [3, 10, 25]}, 1),
    "forest, two depths": (
        RandomForestClassifier(random_state=0),
        {"n_estimators": [3, 10], "max_depth": [2, None]},
        2,
    ),
    "forest, numbers": (RandomForestRegressor(random_state=1), {"n_estimators": [10, 4, 5]}, 1),
    "extra trees": (ExtraTreesClassifier(random_state=0), {"n_estimators": [3, 10]}, 1),
    "extra trees, numbers": (ExtraTreesRegressor(random_state=0), {"n_estimators": [3, 10]}, 1),
    "bagging": (BaggingClassifier(random_state=0), {"n_estimators": [2, 5, 9]}, 1),
    "bagging of columns": (
        BaggingRegressor(random_state=3, max_features=0.5),
        {"n_estimators": [2, 5]},
        1,
    ),
    "boosting": (
        GradientBoostingClassifier(random_state=0, max_depth=2, subsample=0.7),
        {"n_estimators": [1, 4, 9]},
        1,
    ),
    "boosting, numbers": (GradientBoostingRegressor(random_state=0), {"n_estimators": [5, 20]}, 1),
    "boosting, two rates": (
        GradientBoostingRegressor(random_state=0),
        {"n_estimators": [5, 20], "learning_rate": [0.1, 0.3]},
        2,
    ),
    "histograms": (
        HistGradientBoostingClassifier(random_state=0, max_depth=2),
        {"max_iter": [1, 4]},
        1,
    ),
    "histograms, numbers": (HistGradientBoostingRegressor(random_state=0), {"max_iter": [3, 9]}, 1),
    "first steps": (
        make_pipeline(StandardScaler(), PCA(svd_solver="full"), KNeighborsClassifier()),
        {"pca__n_components": [4, 9, 20], "kneighborsclassifier__n_neighbors": [1, 3, 5]},
        3,
    ),
}
# To rounding, or within the tolerance that the estimator has for itself.
CLOSE: dict[str, Case] = {
    "ridge": (Ridge(), {"alpha": np.logspace(-3, 3, 7).tolist()}, 1),
    "ridge without intercept": (Ridge(fit_intercept=False), {"alpha": [0.1, 1.0, 10.0]}, 1),
    "ridge, classes": (
        make_pipeline(StandardScaler(), RidgeClassifier()),
        {"ridgeclassifier__alpha": [0.1, 1.0, 100.0]},
        1,
    ),
    "machines, numbers": (
        make_pipeline(StandardScaler(), SVR(tol=1e-6)),
        {"svr__C": [1.0, 10.0], "svr__gamma": ["scale", 0.01], "svr__epsilon": [0.1, 5.0]},
        4,
    ),
}


def by_candidate(fit: Fit) -> int:
    return fit.candidate


def scores(case: Case, n_rows: int | None = None) -> tuple[list[Any], list[Any], list[list[Fit]]]:
    """Scores of plain fits, those of shared ones, and how the latter were made."""
    base, grid, _ = case
    is_of_classes = is_classifier(base)
    X, y = (part[:n_rows] for part in (DIGITS if is_of_classes else DIABETES))
    names = (
        CLASSES
        if is_of_classes and hasattr(base, "predict_proba")
        else (CLASSES[:1] if is_of_classes else NUMBERS)
    )
    scorer = _MultimetricScorer(scorers={name: get_scorer(name) for name in names})
    candidates = list(ParameterGrid(grid))
    train, test = next(KFold(3, shuffle=True, random_state=0).split(X))

    def call(parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "estimator": clone(base),
            "X": X,
            "y": y,
            "train": train,
            "test": test,
            "parameters": parameters,
            "scorer": scorer,
            "fit_params": None,
            "score_params": None,
            "return_train_score": False,
            "return_n_test_samples": True,
            "return_times": True,
            "error_score": "raise",
            "verbose": 0,
        }

    plain = [_fit_and_score(**call(one))["test_scores"] for one in candidates]
    data = FoldedData(X, y, X[:0], y[:0], (), Scaling("none"))
    estimators = [clone(base).set_params(**one) for one in candidates]
    shared: list[Any] = [None] * len(candidates)
    done = []
    sharing = CandidateScorer((), scorer)
    for one in group_candidates(estimators, sharing):
        some = [clone(estimators[i]) for i in one.members]
        items = fit_group(one, some, SplitRows(data, [(train, test)], [0], "", None, base), sharing)
        results = sorted((item for item in items if isinstance(item, Fit)), key=by_candidate)
        done.append(results)
        for i, result in zip(one.members, results, strict=True):
            shared[i] = result.scores["test_scores"]
    return plain, shared, done


def n_fits(done: list[list[Fit]]) -> int:
    return sum(result.n_fits for results in done for result in results)


def apart(done: list[list[Fit]]) -> list[str]:
    return [result.apart for results in done for result in results if result.apart]


@pytest.mark.parametrize("name", EXACT)
def test_shared_fits_score_as_plain_ones(name: str) -> None:
    plain, shared, done = scores(EXACT[name])
    assert not apart(done)
    assert n_fits(done) == EXACT[name][2]
    for one, other in zip(plain, shared, strict=True):
        assert one == pytest.approx(other, rel=1e-12, abs=1e-14)
    assert len({tuple(one.items()) for one in plain}) > 1, "these candidates show nothing"


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOSE)
def test_paths_and_decompositions_score_as_plain_fits_within_tolerance(name: str) -> None:
    plain, shared, done = scores(CLOSE[name])
    assert not apart(done)
    assert n_fits(done) == CLOSE[name][2]
    for one, other in zip(plain, shared, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


def test_more_columns_than_rows_are_no_matter_for_ridge() -> None:
    plain, shared, _ = scores((RidgeClassifier(), {"alpha": [0.1, 10.0]}, 1), n_rows=60)
    assert plain == shared


def test_machines_of_the_path_solver_err_as_those_of_libsvm() -> None:
    machine = make_pipeline(StandardScaler(), SVC())
    grid = {"svc__C": [0.1, 1.0, 10.0], "svc__gamma": ["scale", 0.01]}
    plain, shared, done = scores((machine, grid, 1))
    assert not apart(done)
    off = [abs(a["accuracy"] - b["accuracy"]) for a, b in zip(plain, shared, strict=True)]
    assert max(off) <= 1.5 / 120, "more than a row"
    assert np.count_nonzero(off) <= 1


def test_a_wide_analysis_serves_the_narrow_ones() -> None:
    _, _, done = scores(EXACT["first steps"])
    assert [results[0].n_steps for results in done] == [6, 6, 6]


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(),
        RandomForestClassifier(random_state=0, oob_score=True),
        RandomForestClassifier(random_state=0, warm_start=True),
        Ridge(solver="sag"),
        Ridge(positive=True),
        SVC(probability=True),
        SVC(kernel=lambda A, B: A @ B.T),
        SVR(kernel="precomputed"),
        KNeighborsClassifier(metric="precomputed"),
        type("Mine", (RandomForestClassifier,), {})(random_state=0),
    ],
)
def test_what_chance_decides_or_a_kind_does_not_give_is_not_shared(estimator: Any) -> None:
    assert [
        one.name for one in group_candidates([estimator, clone(estimator)], CandidateScorer())
    ] == [PLAIN, PLAIN]


def test_a_candidate_that_fails_takes_none_with_it() -> None:
    X, y = DIGITS
    estimators = [KNeighborsClassifier(n_neighbors=k) for k in (1, 3, 5000)]
    scorer = CandidateScorer()
    (found,) = group_candidates(estimators, scorer)
    data = FoldedData(X, y, X[:0], y[:0], (), Scaling("none"))
    split = np.arange(200), np.arange(200, 300)
    rows = SplitRows(data, [split], [0], "", None, estimators[0])
    items = list(fit_group(found, estimators, rows, scorer))
    results = sorted((item for item in items if isinstance(item, Fit)), key=by_candidate)
    assert all("more neighbors than there are rows" in one.apart for one in results)
    first, second, third = (one.scores["test_scores"]["accuracy"] for one in results)
    assert first > 0.5
    assert second > 0.5
    assert third.startswith("ValueError: Expected n_neighbors")


class TestSharedFits(SharedFitContract):
    @pytest.fixture
    def shared_fit(self, estimators):
        return shared_fit_of(estimators[0])

    @pytest.fixture(
        params=[
            [KNeighborsClassifier(n_neighbors=k) for k in (1, 3, 20)],
            [KNeighborsRegressor(n_neighbors=k) for k in (2, 7)],
            [RandomForestClassifier(n, random_state=0) for n in (3, 10)],
            [GradientBoostingRegressor(n_estimators=n, random_state=0) for n in (5, 10)],
            [Ridge(alpha=alpha) for alpha in (0.1, 10.0)],
        ],
        ids=lambda estimators: type(estimators[0]).__name__,
    )
    def estimators(self, request):
        return request.param
