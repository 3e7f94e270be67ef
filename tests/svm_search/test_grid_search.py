from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from cluster_setup import open_cluster
from cluster_setup.on_this_machine.devices import available_cores
from pipelines import PathSVC, SVMGridSearch
from pipelines.svm.cpu.path import solve_path

X, y = load_digits(return_X_y=True)
X, y = ((X - 8) / 4.6)[:500], y[:500]
C, GAMMA = [100.0, 1.0], [1e-2, 1e-4]


# As of SVC: two solutions within the tolerance are not equal to seven digits.
EXPECTED = {
    f"check_sample_weight_equivalence_on_{form}_data": "within the tolerance only, as SVC"
    for form in ("dense", "sparse")
}


@pytest.mark.slow
@parametrize_with_checks(
    [SVMGridSearch(C=(1.0, 10.0), gamma=(0.01, 0.1))],
    expected_failed_checks=lambda estimator: EXPECTED,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:The least populated class")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "cv",
    [
        3,
        StratifiedKFold(4, shuffle=True, random_state=1),
        ShuffleSplit(3, random_state=0),
        RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0),
    ],
    ids=lambda cv: type(cv).__name__,
)
def test_results_are_those_of_grid_search_cv(cv):
    ours = SVMGridSearch(C, GAMMA, cv=cv, solver="sklearn").fit(X, y)
    peer = GridSearchCV(SVC(), {"C": C, "gamma": GAMMA}, cv=cv).fit(X, y)
    assert set(ours.cv_results_) == set(peer.cv_results_)
    for key, expected in peer.cv_results_.items():
        if "test_score" in key:
            np.testing.assert_allclose(ours.cv_results_[key], expected, atol=1e-12)
    assert ours.cv_results_["params"] == peer.cv_results_["params"]
    assert ours.best_params_ == peer.best_params_
    assert ours.best_index_ == peer.best_index_
    assert ours.best_score_ == pytest.approx(peer.best_score_)
    assert ours.n_splits_ == peer.n_splits_
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X))
    assert ours.score(X, y) == peer.score(X, y)


@pytest.mark.parametrize("solver", ["path", "sklearn"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
        {"class_weight": "balanced"},
        {"class_weight": {"odd": 3.0}},
    ],
    ids=str,
)
def test_what_svc_takes_it_takes(solver, parameters):
    words = np.array(["even", "odd", "nine"])[np.where(y == 9, 2, y % 2)]
    ours = SVMGridSearch([1.0], [1e-2], cv=3, solver=solver, **parameters).fit(X, words)
    peer = GridSearchCV(SVC(**parameters), {"C": [1.0], "gamma": [1e-2]}, cv=3).fit(X, words)
    assert ours.best_score_ == pytest.approx(peer.best_score_, abs=0.005)
    assert np.mean(ours.predict(X) == peer.predict(X)) > 0.995


@pytest.mark.parametrize("solver", ["path", "sklearn"])
@pytest.mark.parametrize(
    "scoring",
    ["f1_macro", make_scorer(fbeta_score, beta=2, pos_label="nine"), "roc_auc"],
    ids=["f1_macro", "fbeta of a label", "roc_auc"],
)
def test_any_scorer_of_predictions_or_decision_values(solver, scoring):
    words = np.where(y == 9, "nine", "other")
    ours = SVMGridSearch(C, GAMMA, cv=3, solver=solver, scoring=scoring).fit(X, words)
    grid = {"C": C, "gamma": GAMMA}
    peer = GridSearchCV(SVC(), grid, cv=3, scoring=scoring).fit(X, words)
    for key in ("split1_test_score", "mean_test_score"):
        np.testing.assert_allclose(ours.cv_results_[key], peer.cv_results_[key], atol=0.02)
    assert ours.best_params_ == peer.best_params_
    assert ours.score(X, words) == pytest.approx(peer.score(X, words), abs=0.005)


@pytest.mark.parametrize("solver", ["path", "sklearn"])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_probabilities_are_those_of_the_calibrated_best(solver, n_classes):
    kept = y < n_classes
    words = np.array([f"{code} of ten" for code in y[kept]])
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    splits = (split for split in cv.split(X[kept], words))  # that come once
    ours = SVMGridSearch([1.0], [1e-2], cv=splits, solver=solver, probability=True)
    probabilities = ours.fit(X[kept], words).predict_proba(X[kept])
    peer = CalibratedClassifierCV(SVC(C=1.0, gamma=1e-2), cv=cv, ensemble=False)
    expected = peer.fit(X[kept], words).predict_proba(X[kept])
    difference = np.abs(probabilities - expected)
    # a pair's value about 0 may go the other way and be a vote for another class
    assert np.mean(difference.max(axis=1) < 1e-3) > 0.97
    np.testing.assert_array_equal(ours.predict_log_proba(X[kept]), np.log(probabilities))
    assert ours.best_estimator_.classes_.tolist() == peer.classes_.tolist()
    assert not hasattr(SVMGridSearch([1.0], [1e-2]).fit(X, y), "predict_proba")


def test_labels_may_be_words_and_groups_are_kept():
    words = np.array(["odd" if code % 2 else "even" for code in y])
    groups = np.arange(len(y)) % 5
    search = SVMGridSearch(C, GAMMA, cv=GroupKFold(5)).fit(X, words, groups=groups)
    assert search.n_splits_ == 5
    assert set(search.predict(X)) == {"odd", "even"}
    assert search.best_estimator_.classes_.tolist() == ["even", "odd"]


def test_a_cluster_gives_the_same(four_workers):
    here = SVMGridSearch(C, GAMMA).fit(X, y)
    on_cluster = SVMGridSearch(C, GAMMA, client=four_workers).fit(X, y)
    np.testing.assert_array_equal(
        here.cv_results_["mean_test_score"], on_cluster.cv_results_["mean_test_score"]
    )
    np.testing.assert_array_equal(here.predict(X), on_cluster.predict(X))


@pytest.mark.slow
@pytest.mark.usefixtures("gpu_stand_in")
@pytest.mark.parametrize("n_classes", [2, 10])
def test_a_search_by_cuml_answers_as_grid_search_cv_does(n_classes, tmp_path):
    kept = y < n_classes
    rows, words = X[kept], np.array(list("abcdefghij"))[y[kept]]
    grid, options = {"C": C, "gamma": GAMMA}, {"cv": 3, "scoring": "accuracy"}
    ours = SVMGridSearch(
        **grid, **options, solver="cuml", device="gpu", probability=True, tol=1e-6
    ).fit(rows, words)
    peer = GridSearchCV(SVC(tol=1e-6), grid, **options).fit(rows, words)
    np.testing.assert_array_equal(ours.predict(rows), peer.predict(rows))
    np.testing.assert_allclose(
        ours.decision_function(rows), peer.decision_function(rows), atol=1e-4
    )
    assert ours.score(rows, words) == peer.score(rows, words)
    assert ours.best_estimator_.score(rows, words) == peer.score(rows, words)
    np.testing.assert_allclose(ours.predict_proba(rows).sum(axis=1), 1)
    np.testing.assert_array_equal(ours.predict_log_proba(rows), np.log(ours.predict_proba(rows)))
    best, theirs = ours.best_estimator_, peer.best_estimator_
    for name in ("support_", "n_support_", "dual_coef_", "intercept_"):
        np.testing.assert_allclose(getattr(best, name), getattr(theirs, name), atol=1e-3)
    best.save(tmp_path / "svc.safetensors")
    np.testing.assert_array_equal(
        PathSVC.load(tmp_path / "svc.safetensors").predict_proba(rows), ours.predict_proba(rows)
    )


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_another_backend_fits_all_that_a_path_svc_has(shape):
    grid = {"C": [1.0], "decision_function_shape": [shape], "break_ties": [shape == "ovr"]}
    for scoring in (None, lambda model, X, y: model.decision_function(X).sum()):
        ours = SVMGridSearch(param_grid=grid, cv=3, solver="sklearn", scoring=scoring, tol=1e-6)
        peer = GridSearchCV(SVC(tol=1e-6), grid, cv=3, scoring=scoring)
        same_as_its_peer(ours, peer, WINE, KINDS, atol=1e-3)


@pytest.mark.slow
def test_the_client_leaves_the_gpus_to_the_workers(
    gpu_stand_in,
):
    """Also where it refits and calibrates; a context beside a worker's may not even be allowed."""
    with open_cluster("local", 1) as client:
        search = SVMGridSearch(
            C, GAMMA, solver="cuml", device="gpu", client=client, probability=True
        ).fit(X, y)
        assert np.mean(search.predict(X) == y) > 0.9
        assert search.predict_proba(X).shape == (len(X), 10)
    touches = gpu_stand_in()
    assert {what for _, what, _ in touches} >= {"import", "import-cuml", "to-device", "free"}
    assert os.getpid() not in {process for process, _, _ in touches}


@pytest.mark.slow
def test_without_a_client_no_port_is_opened():
    program = """
import socket
def refuse(self, *address):
    raise AssertionError(f"a port was opened: {address}")
socket.socket.bind = socket.socket.listen = refuse
from sklearn.datasets import load_iris
from pipelines import SVMGridSearch
search = SVMGridSearch([1.0, 10.0], [0.1]).fit(*load_iris(return_X_y=True))
print(search.best_params_)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "{'C': 1.0, 'gamma': 0.1}\n"


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"C": []}, "C must be positive finite numbers, at least one"),
        ({"gamma": [0.1, -1]}, "gamma must be positive finite numbers"),
        ({"decision": "all"}, "'decision' parameter of SVMGridSearch .* Got 'all'"),
        ({"solver": "svc"}, "^solver must be auto or one of"),
        ({"kernel": "rbg"}, "'kernel' parameter .* Got 'rbg'"),
        ({"class_weight": "even"}, "'class_weight' parameter .*'balanced'"),
        (
            {"class_weight": {1: 2.0}, "decision": "ovr", "solver": "sklearn"},
            "class_weight must be None or 'balanced' for decision='ovr' with solver='sklearn'",
        ),
        ({"scoring": "f1_marco"}, "^scoring must be a scorer .*; did you mean f1_macro?"),
        ({"scoring": "roc_auc"}, "^scoring='roc_auc' cannot score these 10 classes"),
        ({"n_jobs": 0}, "^n_jobs == 0"),
        ({"param_grid": {"shrink": [1]}}, "Invalid parameter 'shrink' for estimator PathSVC"),
        ({"param_grid": {"kernel": ["precomputed"]}}, "^param_grid must hold kernels .* a name"),
        ({"scoring": ["f1_macro", "accuracy"]}, "refit must be set to a scorer key"),
        ({"kernel": "precomputed", "solver": "sklearn"}, "^X must be a square matrix"),
        (
            {"probability": True, "cv": ShuffleSplit(2, random_state=0)},
            "probability=True needs a cv whose folds validate every row once; use for",
        ),
    ],
)
def test_parameters_that_cannot_be_used(parameters, words):
    with pytest.raises(ValueError, match=words):
        SVMGridSearch(**parameters).fit(X, y)


ONE_CLASS = (np.arange(9), np.arange(9, 12))
TWO_CLASSES = (np.arange(3, 12), np.arange(3))


def test_failed_fits_are_counted_and_never_best():
    truth = [0] * 9 + [1] * 3
    with (
        pytest.warns(FitFailedWarning, match="2 fits failed out of a total of 4"),
        pytest.warns(UserWarning, match="test scores are non-finite"),
    ):
        search = SVMGridSearch([1.0, 2.0], [0.1], cv=[ONE_CLASS, TWO_CLASSES]).fit(X[:12], truth)
    assert np.isnan(search.cv_results_["split0_test_score"]).all()
    arguments = SVMGridSearch([1.0], [0.1], cv=[ONE_CLASS, TWO_CLASSES], error_score=-1.0)
    with pytest.warns(FitFailedWarning, match="the training rows are of one class"):
        arguments.fit(X[:12], truth)
    assert arguments.cv_results_["split0_test_score"] == [-1.0]
    with pytest.raises(ValueError, match=r"All the 2 fits failed[\s\S]*of one class"):
        SVMGridSearch([1.0, 2.0], [0.1], cv=[ONE_CLASS]).fit(X[:12], truth)
    with pytest.raises(ValueError, match="y must have at least two classes, got 1 class: 0"):
        SVMGridSearch([1.0], [0.1], cv=[ONE_CLASS], error_score="raise").fit(X[:12], truth)


def test_a_candidate_that_cannot_be_fitted_costs_its_own_fits():
    with (
        pytest.warns(FitFailedWarning, match="must be a float in the range"),
        pytest.warns(UserWarning, match="test scores are non-finite"),
    ):
        search = SVMGridSearch(param_grid={"C": [0, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"C": 1.0}


def same_as_its_peer(ours, peer, X, y, atol=1e-9, **fit):
    """Results, best candidate and predictions."""
    ours.fit(X, y, **fit)
    peer.fit(X, y, **fit)
    assert set(ours.cv_results_) == set(peer.cv_results_)
    assert ours.cv_results_["params"] == peer.cv_results_["params"]
    for key, expected in peer.cv_results_.items():
        if "_score" in key and "time" not in key and "rank" not in key:
            np.testing.assert_allclose(ours.cv_results_[key], expected, atol=atol, err_msg=key)
    assert ours.multimetric_ == peer.multimetric_
    for name in ("best_index_", "best_params_"):
        assert getattr(ours, name, None) == getattr(peer, name, None)


WINE, KINDS = load_wine(return_X_y=True)
WINE = StandardScaler().fit_transform(WINE)
GRID = {"C": [1.0, 0.1, 10.0], "gamma": [0.02, 0.2]}


@pytest.mark.parametrize(
    "grid",
    [
        GRID,
        {"C": [1, 10], "gamma": ["scale", "auto", 0.05]},
        [{"kernel": ["linear"], "C": [0.1, 1]}, {"C": [1, 10, 100], "gamma": [0.01]}],
        {"kernel": ["linear"], "gamma": [0.1, 1.0], "C": [0.1]},
        {"class_weight": [None, "balanced", {0: 3.0}], "decision_function_shape": ["ovo", "ovr"]},
        {"degree": [2, 3], "kernel": ["poly"], "coef0": [0.5, 1.0]},
        {},
    ],
    ids=["C and gamma", "scale", "a list", "linear", "weights", "poly", "none"],
)
def test_any_grid_is_searched_as_grid_search_cv_does(grid):
    ours = SVMGridSearch(param_grid=grid, cv=4, tol=1e-6)
    same_as_its_peer(ours, GridSearchCV(SVC(tol=1e-6), grid, cv=4), WINE, KINDS)
    np.testing.assert_array_equal(ours.predict(WINE), ours.best_estimator_.predict(WINE))


@pytest.mark.parametrize(
    ("scoring", "refit"),
    [
        (["accuracy", "f1_macro"], "f1_macro"),
        ({"a": "balanced_accuracy", "b": make_scorer(fbeta_score, beta=2, average="macro")}, "b"),
        (("accuracy", "recall_macro"), False),
        ("f1_macro", lambda results: 2),
        ("matthews_corrcoef", True),
        (lambda model, X, y: model.score(X, y) - 0.001 * model.n_support_.sum(), True),
        (lambda model, X, y: {"right": model.score(X, y), "half": 0.5}, "right"),
    ],
    ids=["list", "dict", "no refit", "callable refit", "name", "callable", "several in one"],
)
@pytest.mark.parametrize("train", [pytest.param(False, marks=pytest.mark.slow), True])
def test_any_scoring_is_that_of_grid_search_cv(scoring, refit, train):
    options = {"scoring": scoring, "refit": refit, "return_train_score": train, "cv": 3}
    ours = SVMGridSearch(param_grid=GRID, tol=1e-6, **options)
    same_as_its_peer(ours, GridSearchCV(SVC(tol=1e-6), GRID, **options), WINE, KINDS, atol=3e-3)
    assert hasattr(ours, "predict") == bool(refit)
    assert hasattr(ours, "best_estimator_") == bool(refit)


def test_scores_of_answers_take_the_path_and_callables_do_not(
    monkeypatch,
):
    fits, fit = [], PathSVC.fit

    def counted(self, *arguments):
        fits.append(1)
        return fit(self, *arguments)

    monkeypatch.setattr(PathSVC, "fit", counted)
    for options in ({}, {"scoring": "f1_macro", "return_train_score": True}):
        SVMGridSearch([1.0, 10.0], [0.02, 0.2], cv=3, **options).fit(WINE, KINDS)
    assert len(fits) == 2  # of the best
    SVMGridSearch([1.0], [0.02, 0.2], cv=3, scoring=lambda model, X, y: 1.0).fit(WINE, KINDS)
    assert len(fits) == 2 + 2 * 3 + 1


def test_scorers_of_probabilities_get_calibrated_fits():
    ours = SVMGridSearch([0.1, 1.0], [0.02], cv=3, scoring="neg_log_loss").fit(WINE, KINDS)
    peer = GridSearchCV(
        CalibratedClassifierCV(SVC(gamma=0.02), ensemble=False),
        {"estimator__C": [0.1, 1.0]},
        scoring="neg_log_loss",
        cv=3,
    ).fit(WINE, KINDS)
    for key in ("split2_test_score", "mean_test_score"):
        np.testing.assert_allclose(ours.cv_results_[key], peer.cv_results_[key], atol=0.01)
    np.testing.assert_allclose(ours.predict_proba(WINE), peer.predict_proba(WINE), atol=0.01)
    assert ours.score(WINE, KINDS) == pytest.approx(peer.score(WINE, KINDS), abs=0.01)


@pytest.mark.parametrize("scoring", [None, "f1_macro"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_sample_weights_are_those_of_grid_search_cv(scoring, class_weight):
    weights = np.random.default_rng(0).integers(0, 4, len(KINDS)) * 0.5
    options = {"scoring": scoring, "cv": 4}
    ours = SVMGridSearch(param_grid=GRID, tol=1e-6, class_weight=class_weight, **options)
    peer = GridSearchCV(SVC(tol=1e-6, class_weight=class_weight), GRID, **options)
    same_as_its_peer(ours, peer, WINE, KINDS, sample_weight=weights)
    np.testing.assert_allclose(
        ours.decision_function(WINE), peer.decision_function(WINE), atol=1e-3
    )


def test_sparse_rows_and_tables_are_taken_as_grid_search_cv_does():
    sparse = csr_matrix(np.where(np.abs(WINE) > 1, WINE, 0))
    peer = GridSearchCV(SVC(tol=1e-6), GRID, cv=3)
    same_as_its_peer(SVMGridSearch(param_grid=GRID, cv=3, tol=1e-6), peer, sparse, KINDS)
    table = pd.DataFrame(WINE, columns=[f"f{i}" for i in range(WINE.shape[1])])
    ours = SVMGridSearch([1.0], [0.1]).fit(table, pd.Series(KINDS))
    assert ours.feature_names_in_.tolist() == list(table)
    assert ours.n_features_in_ == WINE.shape[1]
    ours.predict(table)
    with pytest.raises(ValueError, match="feature names should match"):
        ours.predict(table.rename(columns={"f0": "g0"}))


def test_kernels_that_are_given_are_searched_by_the_path():
    def half(A, B):
        return rbf_kernel(A, B, gamma=0.05)

    K, grid = half(WINE, WINE), {"C": [0.1, 1.0, 10.0]}
    peer = GridSearchCV(SVC(gamma=0.05), grid, cv=4).fit(WINE, KINDS)
    precomputed = SVMGridSearch(param_grid=grid, kernel="precomputed", cv=4).fit(K, KINDS)
    called = SVMGridSearch(param_grid=grid, kernel=half, cv=4).fit(WINE, KINDS)
    for ours, rows in ((precomputed, K), (called, WINE)):
        np.testing.assert_allclose(
            ours.cv_results_["mean_test_score"], peer.cv_results_["mean_test_score"]
        )
        np.testing.assert_array_equal(ours.predict(rows), peer.predict(WINE))


def test_folds_may_come_from_a_generator():
    folds = (fold for fold in StratifiedKFold(3).split(X, y))
    search = SVMGridSearch(C, GAMMA, cv=folds).fit(X, y)
    assert search.n_splits_ == 3


@pytest.mark.parametrize("solver", ["path", "sklearn"])
def test_a_training_part_may_lack_a_class(solver):
    width = make_scorer(lambda y, values: values.ndim, response_method="decision_function")
    folds = [(np.flatnonzero(KINDS != 1), np.arange(0, 178, 5)), (np.arange(178), np.arange(9))]
    for scoring in ("accuracy", width):
        ours = SVMGridSearch(param_grid=GRID, cv=folds, solver=solver, scoring=scoring, tol=1e-6)
        same_as_its_peer(
            ours, GridSearchCV(SVC(tol=1e-6), GRID, cv=folds, scoring=scoring), WINE, KINDS
        )


def test_folds_may_be_masks():
    half = np.arange(len(KINDS)) % 2 == 0
    masks = [(half, ~half), (~half, half)]
    indices = [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in masks]
    by_mask, other = (
        SVMGridSearch(param_grid=GRID, cv=cv).fit(WINE, KINDS) for cv in (masks, indices)
    )
    np.testing.assert_array_equal(
        by_mask.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"]
    )


@pytest.fixture
def calls(monkeypatch):
    """What the path is asked for."""
    recorded = []

    def noted(X, y, gammas, *arguments, **options):
        recorded.append({"gammas": gammas, **options})
        return solve_path(X, y, gammas, *arguments, **options)

    monkeypatch.setattr("pipelines.svm.cpu.path.solve_path", noted)
    return recorded


def test_a_linear_kernel_is_fitted_for_one_gamma(calls):
    search = SVMGridSearch([0.1, 1.0], [1e-3, 1e-2, 1e-1], kernel="linear").fit(WINE, KINDS)
    assert [call["gammas"] for call in calls] == [(1.0,)]
    assert len(search.cv_results_["params"]) == 6
    assert search.best_params_["gamma"] == 1e-3


def test_threads_are_as_many_as_asked(calls):
    for n_jobs in (1, 3, -1, None):
        SVMGridSearch([1.0], [0.1], n_jobs=n_jobs).fit(WINE, KINDS)
    assert [call["n_threads"] for call in calls] == [1, 3, available_cores(), available_cores()]


def test_fits_that_did_not_converge_are_counted():
    with pytest.warns(ConvergenceWarning, match="of 6 fits did not converge within max_iter=2"):
        SVMGridSearch([10.0, 1000.0], [0.1], cv=3, max_iter=2, refit=False).fit(WINE, KINDS)
