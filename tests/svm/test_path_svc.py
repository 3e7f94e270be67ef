from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pipelines import GridSearch, PathSVC
from pipelines.svm.multiclass import compact, spread

X, y = load_digits(return_X_y=True)
X, y = ((X - 8) / 4.6)[:300], y[:300]
WINE, KINDS = load_wine(return_X_y=True)
WINE = StandardScaler().fit_transform(WINE)
TWO = make_classification(200, 6, random_state=0)


def agrees(ours, theirs, X):
    """Values of every problem within 1e-2, and all else but where such a value is about 0."""
    values, same = ours.machine_.decision_values(X), np.ones(len(X), dtype=bool)
    if isinstance(theirs, SVC) and len(theirs.classes_) > 2:
        pairs = deepcopy(theirs).set_params(decision_function_shape="ovo").decision_function(X)
        np.testing.assert_allclose(values, pairs, atol=1e-2)
        same = np.all((values < 0) == (pairs < 0), axis=1)
    assert same.mean() > 0.95
    decisions, expected = ours.decision_function(X), theirs.decision_function(X)
    assert decisions.shape == expected.shape
    np.testing.assert_allclose(decisions[same], expected[same], atol=1e-2)
    np.testing.assert_array_equal(ours.predict(X)[same], theirs.predict(X)[same])


@pytest.mark.parametrize(
    ("kernel", "gamma", "coef0"),
    [("rbf", 0.02, 0), ("linear", 1, 0), ("poly", 0.02, 0.5), ("sigmoid", 0.002, -0.5)],
)
def test_every_kernel_gives_the_model_of_svc(kernel, gamma, coef0):
    parameters = {"kernel": kernel, "C": 2.0, "gamma": gamma, "coef0": coef0}
    parameters["tol"] = 1e-5  # at 1e-3 solutions for an unbounded kernel differ by more
    agrees(PathSVC(**parameters).fit(X, y), SVC(**parameters).fit(X, y), X)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.1])
def test_gamma_is_that_of_svc(gamma):
    agrees(PathSVC(gamma=gamma).fit(WINE, KINDS), SVC(gamma=gamma).fit(WINE, KINDS), WINE)


def test_one_vs_rest_is_scikit_learns():
    peer = OneVsRestClassifier(SVC(C=5.0, gamma=0.05)).fit(WINE, KINDS)
    ours = PathSVC(C=5.0, gamma=0.05, decision="ovr").fit(WINE, KINDS)
    agrees(ours, peer, WINE)
    np.testing.assert_array_equal(ours.n_support_, np.bincount(KINDS[ours.support_]))


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
def test_the_sign_of_two_classes_is_that_of_svc(decision):
    X, y = TWO
    words = np.where(y == 1, "yes", "no")
    ours = PathSVC(C=3.0, decision=decision).fit(X, words)
    agrees(ours, SVC(C=3.0).fit(X, words), X)
    np.testing.assert_array_equal(ours.predict(X) == "yes", ours.decision_function(X) > 0)


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 5.0, "c": 0.2}])
def test_class_weights_are_those_of_svc(class_weight):
    rows = np.r_[0:60, 60:80, 140:178]  # unbalanced
    words = np.array(["a", "b", "c"])[KINDS[rows]]
    parameters = {"C": 0.1, "gamma": 0.02, "class_weight": class_weight}
    ours = PathSVC(**parameters).fit(WINE[rows], words)
    agrees(ours, SVC(**parameters).fit(WINE[rows], words), WINE[rows])
    assert (
        np.abs(
            ours.decision_function(WINE)
            - PathSVC(C=0.1, gamma=0.02).fit(WINE[rows], words).decision_function(WINE)
        ).max()
        > 0.05
    )


def test_one_vs_rest_balances_rows_not_their_weights_as_svc_does():
    weights = 0.5 + np.arange(len(KINDS)) % 3 * (KINDS + 1)
    parameters = {"class_weight": "balanced", "C": 0.1, "tol": 1e-6}
    ours = PathSVC(decision="ovr", **parameters).fit(WINE, KINDS, weights)
    for code, decisions in enumerate(ours.decision_function(WINE).T):
        peer = SVC(**parameters).fit(WINE, code == KINDS, weights)
        np.testing.assert_allclose(decisions, peer.decision_function(WINE), atol=1e-4)


def test_pairs_are_compacted_as_libsvm_does():
    n_support = np.array([2, 0, 3, 1])
    dual_coef = np.random.default_rng(0).normal(size=(3, 6))
    np.testing.assert_array_equal(compact(spread(dual_coef, n_support), n_support), dual_coef)


@pytest.mark.parametrize("shape", ["ovo", "ovr"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_decision_function_shape_is_that_of_svc(shape, n_classes):
    X, y = WINE[n_classes > KINDS], KINDS[n_classes > KINDS]
    ours = PathSVC(decision_function_shape=shape, tol=1e-6).fit(X, y)
    peer = SVC(decision_function_shape=shape, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-4)


def test_equal_votes_go_to_the_largest_value_if_that_is_asked():
    X, y = make_classification(
        300,
        2,
        n_informative=2,
        n_redundant=0,
        n_clusters_per_class=1,
        n_classes=4,
        class_sep=0.4,
        random_state=4,
    )
    grid = np.stack(np.meshgrid(*[np.linspace(-6, 6, 80)] * 2), axis=-1).reshape(-1, 2)
    plain, breaks = (PathSVC(break_ties=on, C=100, gamma=10.0).fit(X, y) for on in (False, True))
    largest = breaks.decision_function(grid).argmax(axis=1)
    np.testing.assert_array_equal(breaks.predict(grid), largest)
    assert np.any(plain.predict(grid) != largest)
    with pytest.raises(ValueError, match="break_ties must be False"):
        breaks.set_params(decision_function_shape="ovo").predict(grid)


def test_rows_need_not_be_numbers_for_a_callable_kernel():
    def common(texts, other):
        return np.array([[len(set(a) & set(b)) for b in other] for a in texts])

    words, kinds = ["abc", "abd", "xyz", "xyw"], ["front", "front", "back", "back"]
    ours = PathSVC(kernel=common).fit(words, kinds)
    assert ours.predict(["ab", "xy"]).tolist() == ["front", "back"]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_those_of_scikit_learns_calibration(n_classes, tmp_path):
    X, y = WINE[n_classes > KINDS], np.array(["a", "b", "c"])[KINDS[n_classes > KINDS]]
    ours = PathSVC(probability=True).fit(X, y)
    peer = CalibratedClassifierCV(SVC(), ensemble=False, cv=5).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=0.01)
    np.testing.assert_allclose(np.exp(ours.predict_log_proba(X)), ours.predict_proba(X))
    np.testing.assert_array_equal(ours.predict(X), PathSVC().fit(X, y).predict(X))
    ours.save(tmp_path / "svc.safetensors")
    back = PathSVC.load(tmp_path / "svc.safetensors")
    np.testing.assert_array_equal(back.predict_proba(X), ours.predict_proba(X))
    plain = PathSVC().fit(X, y)
    assert not hasattr(plain, "predict_proba")
    with pytest.raises(NotFittedError, match="fitted with probability=False"):
        plain.set_params(probability=True).predict_proba(X)


def test_values_that_end_in_no_number_are_refused():
    with pytest.raises(ValueError, match=r"X must hold values below .*; scale its columns"):
        PathSVC().fit(WINE * 1e300, KINDS)
    for search in (PathSVC(), GridSearch(PathSVC(), {"C": [1, 2]}, cv=3, error_score="raise")):
        with pytest.raises(ValueError, match=r"gamma must be at most 1e37, got .*; scale its"):
            search.fit(WINE * 1e-30, KINDS)
    assert PathSVC(kernel="linear").fit(WINE * 1e-30, KINDS).fit_status_ == 0  # it has no gamma
    ours = PathSVC(kernel="poly").fit(WINE, KINDS)
    with pytest.raises(ValueError, match="X must hold values of which a kernel can be made"):
        ours.predict(WINE * 1e200)


def test_numbers_as_text_are_numbers():
    """To the fit they were already, as to ``SVC``."""
    ours, text = PathSVC().fit(WINE, KINDS), WINE.astype(str)
    np.testing.assert_array_equal(ours.predict(text), ours.predict(WINE))
    np.testing.assert_array_equal(PathSVC().fit(text, KINDS).predict(text), ours.predict(WINE))
    with pytest.raises(ValueError, match="could not convert string to float"):
        ours.predict(np.full((2, WINE.shape[1]), "nine"))


def test_a_fit_that_the_limit_ended_warns_as_svc_does():
    X, y = TWO
    with pytest.warns(ConvergenceWarning, match=r"not converge to tol=0.001 within max_iter=1;"):
        assert PathSVC(max_iter=1).fit(X, y).fit_status_ != 0
    with pytest.warns(ConvergenceWarning):
        SVC(max_iter=1).fit(X, y)


def test_a_class_without_weight_is_named():
    with pytest.raises(ValueError, match=r"sample_weight must be above 0 .* class '2' has none"):
        PathSVC().fit(WINE, KINDS, sample_weight=(KINDS < 2).astype(float))


def test_probabilities_of_weighted_labels_are_those_of_weighted_codes():
    X, codes = load_wine(return_X_y=True)
    labels = np.array(["barbera", "barolo", "grignolino"])[codes]
    by_label = PathSVC(probability=True, class_weight={"barolo": 5.0}).fit(X, labels)
    by_code = PathSVC(probability=True, class_weight={1: 5.0}).fit(X, codes)
    assert by_label.classes_.tolist() == ["barbera", "barolo", "grignolino"]
    np.testing.assert_array_equal(by_label.predict_proba(X), by_code.predict_proba(X))
    np.testing.assert_array_equal(by_label.predict(X), by_label.classes_[by_code.predict(X)])
    unweighted = PathSVC(probability=True).fit(X, codes)
    assert not np.array_equal(by_code.predict_proba(X), unweighted.predict_proba(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_with_probabilities_a_fit_looks_at_its_input_as_without():
    X, y = TWO
    plain, calibrated = PathSVC(), PathSVC(probability=True)
    assert (
        calibrated.fit(X, y[:, None]).predict_proba(X) == calibrated.fit(X, y).predict_proba(X)
    ).all()
    bad = [
        (X[:, :0], y),
        (X[:0], y[:0]),
        ([["a"], ["b"]], [0, 1]),
        (X, np.where(y, np.nan, 0)),
        (X, np.ones(200)),
        (X, y, np.ones(5)),
        (X, y, np.where(y, 1, 0)),
    ]
    for inputs in bad:
        with pytest.raises(ValueError, match=r"\w") as error:
            plain.fit(*inputs)
        with pytest.raises(ValueError, match=r"\w") as same:
            calibrated.fit(*inputs)
        assert str(same.value) == str(error.value)
    with pytest.raises(ValueError, match="provided less than 5 examples for at least one class"):
        calibrated.fit(X[:10], np.arange(10) < 3)
