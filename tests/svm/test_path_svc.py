from __future__ import annotations

import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from pipelines import PathSVC
from pipelines.errors import InputError
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.multiclass import compact, spread

X, y = load_digits(return_X_y=True)
X, y = ((X - 8) / 4.6)[:300], y[:300]
WINE, KINDS = load_wine(return_X_y=True)
WINE = StandardScaler().fit_transform(WINE)
TWO = make_classification(200, 6, random_state=0)

# As scikit-learn's own list says of SVC: gamma="scale" does not know of weights, and two
# solutions within the tolerance are not equal to seven digits.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "within the tolerance only, as SVC",
    "check_sample_weight_equivalence_on_sparse_data": "within the tolerance only, as SVC",
}


@parametrize_with_checks(
    [PathSVC(), PathSVC(decision="ovr")], expected_failed_checks=lambda estimator: EXPECTED
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def agrees(ours: PathSVC, theirs: Any, X: np.ndarray) -> None:
    """Values of every problem within 1e-2, and all else but where such a value is about 0."""
    values, same = ours.machine_.decision_values(X), np.ones(len(X), dtype=bool)
    if isinstance(theirs, SVC) and len(theirs.classes_) > 2:
        pairs = deepcopy(theirs).set_params(decision_function_shape="ovo").decision_function(X)
        np.testing.assert_allclose(values, pairs, atol=1e-2)
        same = np.all((values < 0) == (pairs < 0), axis=1)
    assert same.mean() > 0.95
    found, expected = ours.decision_function(X), theirs.decision_function(X)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found[same], expected[same], atol=1e-2)
    np.testing.assert_array_equal(ours.predict(X)[same], theirs.predict(X)[same])


@pytest.mark.parametrize(
    ("kernel", "gamma", "coef0"),
    [("rbf", 0.02, 0), ("linear", 1, 0), ("poly", 0.02, 0.5), ("sigmoid", 0.002, -0.5)],
)
def test_every_kernel_gives_the_model_of_svc(kernel: str, gamma: float, coef0: float) -> None:
    parameters: dict[str, Any] = {"kernel": kernel, "C": 2.0, "gamma": gamma, "coef0": coef0}
    parameters["tol"] = 1e-5  # at 1e-3 solutions for an unbounded kernel differ by more
    agrees(PathSVC(**parameters).fit(X, y), SVC(**parameters).fit(X, y), X)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.1])
def test_gamma_is_that_of_svc(gamma: Any) -> None:
    agrees(PathSVC(gamma=gamma).fit(WINE, KINDS), SVC(gamma=gamma).fit(WINE, KINDS), WINE)


def test_one_vs_rest_is_scikit_learns() -> None:
    peer = OneVsRestClassifier(SVC(C=5.0, gamma=0.05)).fit(WINE, KINDS)
    ours = PathSVC(C=5.0, gamma=0.05, decision="ovr").fit(WINE, KINDS)
    agrees(ours, peer, WINE)
    np.testing.assert_array_equal(ours.n_support_, np.bincount(KINDS[ours.support_]))


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
def test_the_sign_of_two_classes_is_that_of_svc(decision: str) -> None:
    X, y = TWO
    words = np.where(y == 1, "yes", "no")
    ours = PathSVC(C=3.0, decision=decision).fit(X, words)
    agrees(ours, SVC(C=3.0).fit(X, words), X)
    np.testing.assert_array_equal(ours.predict(X) == "yes", ours.decision_function(X) > 0)


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 5.0, "c": 0.2}])
def test_class_weights_are_those_of_svc(class_weight: Any) -> None:
    rows = np.r_[0:60, 60:80, 140:178]  # unbalanced
    words = np.array(["a", "b", "c"])[KINDS[rows]]
    parameters: dict[str, Any] = {"C": 0.1, "gamma": 0.02, "class_weight": class_weight}
    ours = PathSVC(**parameters).fit(WINE[rows], words)
    agrees(ours, SVC(**parameters).fit(WINE[rows], words), WINE[rows])
    assert np.abs(ours.decision_function(WINE) - PathSVC(C=0.1, gamma=0.02).fit(
        WINE[rows], words).decision_function(WINE)).max() > 0.05  # fmt: skip


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_sample_weights_are_those_of_svc(class_weight: Any) -> None:
    # Rows of no weight or less are left out.
    weights = np.random.default_rng(0).integers(-1, 4, len(KINDS)) * 0.5
    ours = PathSVC(class_weight=class_weight).fit(WINE, KINDS, sample_weight=weights)
    theirs = SVC(class_weight=class_weight).fit(WINE, KINDS, sample_weight=weights)
    agrees(ours, theirs, WINE)
    assert set(ours.support_) <= set(np.flatnonzero(weights > 0))
    np.testing.assert_array_equal(ours.support_vectors_, WINE[ours.support_])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_attributes_have_the_form_of_svc(n_classes: int) -> None:
    X, y = WINE[n_classes > KINDS], KINDS[n_classes > KINDS]
    ours = PathSVC(kernel="linear", C=0.1, tol=1e-7).fit(X, y)
    peer = SVC(kernel="linear", C=0.1, tol=1e-7).fit(X, y)
    np.testing.assert_array_equal(ours.support_, peer.support_)
    np.testing.assert_array_equal(ours.n_support_, peer.n_support_)
    assert (ours.n_iter_.dtype, ours.n_iter_.shape) == (peer.n_iter_.dtype, peer.n_iter_.shape)
    assert (ours.n_iter_ > 0).all()
    assert ours.fit_status_ == 0
    for name in ("dual_coef_", "intercept_", "coef_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(peer, name), atol=1e-4)
    with pytest.raises(ValueError, match="read-only"):
        ours.coef_[0] = 1
    with pytest.raises(AttributeError, match="kernel='linear' alone"):
        _ = PathSVC().fit(X, y).coef_


def test_pairs_are_compacted_as_libsvm_does() -> None:
    n_support = np.array([2, 0, 3, 1])
    dual_coef = np.random.default_rng(0).normal(size=(3, 6))
    np.testing.assert_array_equal(compact(spread(dual_coef, n_support), n_support), dual_coef)


@pytest.mark.parametrize("shape", ["ovo", "ovr"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_decision_function_shape_is_that_of_svc(shape: str, n_classes: int) -> None:
    X, y = WINE[n_classes > KINDS], KINDS[n_classes > KINDS]
    ours = PathSVC(decision_function_shape=shape, tol=1e-6).fit(X, y)
    peer = SVC(decision_function_shape=shape, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-4)


def test_equal_votes_go_to_the_largest_value_if_that_is_asked() -> None:
    X, y = make_classification(
        300, 2, n_informative=2, n_redundant=0, n_clusters_per_class=1, n_classes=4,
        class_sep=0.4, random_state=4,
    )  # fmt: skip
    grid = np.stack(np.meshgrid(*[np.linspace(-6, 6, 80)] * 2), axis=-1).reshape(-1, 2)
    plain, breaks = (PathSVC(break_ties=on, C=100, gamma=10.0).fit(X, y) for on in (False, True))
    largest = breaks.decision_function(grid).argmax(axis=1)
    np.testing.assert_array_equal(breaks.predict(grid), largest)
    assert np.any(plain.predict(grid) != largest)
    with pytest.raises(ValueError, match="break_ties must be False"):
        breaks.set_params(decision_function_shape="ovo").predict(grid)


def test_kernels_that_are_given_are_those_of_svc() -> None:
    train, other = np.arange(0, 178, 2), np.arange(1, 178, 2)

    def of_both(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return rbf_kernel(A, B, gamma=0.05)

    K = of_both(WINE[train], WINE[train])
    across = of_both(WINE[other], WINE[train])
    weights = np.where(train % 3, 1.0, 0.0)
    for sample_weight in (None, weights):
        # not kernel="precomputed": there SVC takes wrong columns when rows are left out
        peer = SVC(gamma=0.05, tol=1e-6).fit(WINE[train], KINDS[train], sample_weight)
        given = PathSVC(kernel="precomputed", tol=1e-6).fit(K, KINDS[train], sample_weight)
        called = PathSVC(kernel=of_both, tol=1e-6).fit(WINE[train], KINDS[train], sample_weight)
        expected = peer.decision_function(WINE[other])
        np.testing.assert_allclose(given.decision_function(across), expected, atol=1e-4)
        np.testing.assert_allclose(called.decision_function(WINE[other]), expected, atol=1e-4)
        kept = train if sample_weight is None else train[weights > 0]
        assert set(train[given.support_]) <= set(kept)
    for one in (given, called):
        with pytest.raises(ValueError, match=r"kernel must be one of rbf.* to be saved"):
            one.save("nowhere.safetensors")
    with pytest.raises(ValueError, match="must be a square matrix"):
        PathSVC(kernel="precomputed").fit(WINE, KINDS)


def test_rows_need_not_be_numbers_for_a_callable_kernel() -> None:
    def common(one: list[str], other: list[str]) -> np.ndarray:
        return np.array([[len(set(a) & set(b)) for b in other] for a in one])

    words, kinds = ["abc", "abd", "xyz", "xyw"], ["front", "front", "back", "back"]
    ours = PathSVC(kernel=common).fit(words, kinds)
    assert ours.predict(["ab", "xy"]).tolist() == ["front", "back"]


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_sparse_rows_are_made_dense_within_the_memory(kernel: str) -> None:
    sparse = csr_matrix(np.where(np.abs(WINE) > 1, WINE, 0))
    ours = PathSVC(kernel=kernel).fit(sparse, KINDS)
    same = PathSVC(kernel=kernel).fit(sparse.toarray(), KINDS)
    np.testing.assert_array_equal(ours.decision_function(sparse), same.decision_function(
        sparse.toarray()))  # fmt: skip
    with pytest.raises(ValueError, match="X must fit in memory_bytes as a dense array, got 18,512"):
        PathSVC(memory_bytes=10_000).fit(sparse, KINDS)
    with pytest.raises(TypeError, match=r"give X\.toarray"):
        PathSVC(kernel="precomputed").fit(csr_matrix(np.eye(len(KINDS))), KINDS)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_those_of_scikit_learns_calibration(
    n_classes: int, tmp_path: Path
) -> None:
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


def test_values_that_end_in_no_number_are_refused() -> None:
    with pytest.raises(ValueError, match=r"X must hold values below .*; scale its columns"):
        PathSVC().fit(WINE * 1e300, KINDS)
    ours = PathSVC(kernel="poly").fit(WINE, KINDS)
    with pytest.raises(ValueError, match="X must hold values of which a kernel can be made"):
        ours.predict(WINE * 1e200)


def test_a_fit_that_the_limit_ended_warns_as_svc_does() -> None:
    X, y = TWO
    with pytest.warns(ConvergenceWarning, match=r"not converge to tol=0.001 within max_iter=1;"):
        assert PathSVC(max_iter=1).fit(X, y).fit_status_ != 0
    with pytest.warns(ConvergenceWarning):
        SVC(max_iter=1).fit(X, y)


FORMS = {
    "words": (WINE, np.array(["red", "rosé", "white"])[KINDS]),
    "objects": (WINE, np.array(["red", "rosé", "white"], dtype=object)[KINDS]),
    "whole numbers": (WINE.astype(np.float32), (KINDS * 10).astype(np.int16)),
    "truths": (TWO[0], TWO[1] == 1),
    "a table": (pd.DataFrame(TWO[0], columns=list("abcdef")), TWO[1]),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_saved_estimator_comes_back_as_it_was(form: str, tmp_path: Path) -> None:
    X, y = FORMS[form]
    factors = {label: 1.0 + place for place, label in enumerate(np.unique(y).tolist())}
    ours = PathSVC(C=np.float64(2.0), degree=np.int64(2), class_weight=factors).fit(X, y)
    ours.save(tmp_path / "svc.safetensors")
    back = PathSVC.load(str(tmp_path / "svc.safetensors"))
    assert back.get_params() == ours.get_params()
    assert back.n_features_in_ == ours.n_features_in_
    assert back.fit_status_ == ours.fit_status_
    assert back.classes_.dtype == ours.classes_.dtype
    for name in ("classes_", "support_", "n_support_", "support_vectors_", "dual_coef_",
                 "intercept_", "n_iter_"):  # fmt: skip
        np.testing.assert_array_equal(getattr(back, name), getattr(ours, name))
    assert hasattr(back, "feature_names_in_") == (form == "a table")
    if form == "a table":
        assert back.feature_names_in_.tolist() == list("abcdef")
    np.testing.assert_array_equal(back.predict(X), ours.predict(X))
    np.testing.assert_array_equal(back.decision_function(X), ours.decision_function(X))
    assert clone(back).fit(X, y).score(X, y) == ours.score(X, y)
    machine = KernelMachine.load(tmp_path / "svc.safetensors")
    np.testing.assert_array_equal(machine.predict(np.asarray(X)), ours.predict(X))


def test_what_is_no_saved_estimator_is_refused_in_one_line(tmp_path: Path) -> None:
    ours = PathSVC().fit(WINE, KINDS)
    path = tmp_path / "svc.safetensors"
    ours.save(path)
    whole = path.read_bytes()
    ours.machine_.save(tmp_path / "machine.safetensors")
    bad = {
        "cut.safetensors": whole[:-100],
        "no header.safetensors": whole[100:],
        "empty.safetensors": b"",
        "pickle.safetensors": pickle.dumps({"C": 1.0}),
        # as long as before, so that the file's own lengths hold
        "gamma.safetensors": whole.replace(b"classes", b"klasses"),
        "support.safetensors": whole.replace(b"n_support", b"m_support"),
        "kernel.safetensors": whole.replace(b'\\"name\\": \\"rbf\\"', b'\\"name\\": \\"rbg\\"'),
        "one-vs-none.safetensors": whole.replace(b'"decision":"\\"ovo', b'"decision":"\\"ovn'),
    }
    for name, content in bad.items():
        assert content != whole, name
        (tmp_path / name).write_bytes(content)
    save_file({"weights": np.ones(3)}, tmp_path / "foreign.safetensors")
    for name in [*bad, "foreign.safetensors", "machine.safetensors", "none.safetensors", "."]:
        with pytest.raises(InputError, match=r"must be a file that PathSVC\.save wrote") as caught:
            PathSVC.load(tmp_path / name)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"C": 0}, "The 'C' parameter of PathSVC must be .* Got 0 instead"),
        ({"C": np.inf}, r"'C' parameter .* in the range \(0.0, inf\). Got inf"),
        ({"C": "1"}, "The 'C' parameter of PathSVC must be .* Got '1' instead"),
        ({"gamma": "large"}, "'gamma' parameter .*'scale'"),
        ({"gamma": -1.0}, "'gamma' parameter .* Got -1.0"),
        ({"kernel": "rbg"}, "'kernel' parameter .*'rbf'.* Got 'rbg'"),
        ({"degree": 1.5}, "'degree' parameter .*int in the range .* Got 1.5"),
        ({"coef0": np.nan}, "'coef0' parameter .* Got nan"),
        ({"decision": "all"}, "'decision' parameter .* Got 'all'"),
        ({"class_weight": "even"}, "'class_weight' parameter .*'balanced'.* Got 'even'"),
        ({"class_weight": {0: -1}}, "class_weight must be of finite factors above 0"),
        ({"class_weight": {7: 2.0}}, "class_weight must be of the classes of y, got 7"),
        ({"tol": 0}, "'tol' parameter .* Got 0"),
        ({"max_iter": 0}, "'max_iter' parameter .* Got 0"),
        ({"n_jobs": 0}, "'n_jobs' parameter .* Got 0"),
        ({"memory_bytes": 0}, "'memory_bytes' parameter .* Got 0"),
    ],
)
def test_parameters_that_cannot_be_used(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PathSVC(**parameters).fit(WINE, KINDS)


def test_a_class_without_weight_is_named() -> None:
    with pytest.raises(ValueError, match=r"sample_weight must be above 0 .* class '2' has none"):
        PathSVC().fit(WINE, KINDS, sample_weight=(KINDS < 2).astype(float))
