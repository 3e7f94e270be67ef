"""What ``PathSVC`` and ``PathSVR`` have in common: scikit-learn's form, weights, kernels, files."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from scipy.sparse import csr_matrix
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_diabetes, load_wine, make_classification
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from pipelines import PathSVC, PathSVR
from pipelines.errors import InputError
from pipelines.svm.kernel_machine import KernelMachine, KernelRegressor

WINE, KINDS = load_wine(return_X_y=True)
WINE = StandardScaler().fit_transform(WINE)
WORDS = np.array(["red", "rosé", "white"])[KINDS]
TWO = make_classification(200, 6, random_state=0)
ROWS, TARGETS = load_diabetes(return_X_y=True)
ROWS, TARGETS = StandardScaler().fit_transform(ROWS), (TARGETS - TARGETS.mean()) / TARGETS.std()

# Ours, scikit-learn's, rows and targets.
CLASSES = (PathSVC, SVC, WINE, KINDS)
NUMBERS = (PathSVR, SVR, ROWS, TARGETS)
BOTH = pytest.mark.parametrize(("ours", "peer", "X", "y"), [CLASSES, NUMBERS], ids=["svc", "svr"])

# As scikit-learn's own list says of SVC: gamma="scale" does not know of weights, and two
# solutions within the tolerance are not equal to seven digits.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "within the tolerance only, as SVC",
    "check_sample_weight_equivalence_on_sparse_data": "within the tolerance only, as SVC",
}


@parametrize_with_checks(
    [PathSVC(), PathSVC(decision="ovr"), PathSVR(), PathSVR(kernel="linear")],
    expected_failed_checks=lambda estimator: EXPECTED,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def values(fitted, X):
    return fitted.decision_function(X) if is_classifier(fitted) else fitted.predict(X)


@pytest.mark.parametrize(
    ("ours", "peer", "X", "y"),
    [CLASSES, (PathSVC, SVC, WINE[KINDS < 2], KINDS[KINDS < 2]), NUMBERS],
    ids=["three classes", "two", "numbers"],
)
def test_attributes_have_the_form_of_scikit_learns(ours, peer, X, y):
    fitted, theirs = (kind(kernel="linear", C=0.1, tol=1e-7).fit(X, y) for kind in (ours, peer))
    for name in ("support_", "n_support_", "support_vectors_"):
        np.testing.assert_array_equal(getattr(fitted, name), getattr(theirs, name))
    for name in ("dual_coef_", "intercept_", "coef_"):
        assert getattr(fitted, name).shape == getattr(theirs, name).shape
        np.testing.assert_allclose(getattr(fitted, name), getattr(theirs, name), atol=1e-4)
    assert np.asarray(fitted.n_iter_).shape == np.asarray(theirs.n_iter_).shape
    assert np.all(np.asarray(fitted.n_iter_) > 0)
    assert fitted.fit_status_ == 0
    with pytest.raises(ValueError, match="read-only"):
        fitted.coef_[0] = 1
    with pytest.raises(AttributeError, match="kernel='linear' alone"):
        _ = fitted.set_params(kernel="rbf").fit(X, y).coef_


@pytest.mark.parametrize(
    ("ours", "peer", "X", "y", "parameters"),
    [(*CLASSES, {}), (*CLASSES, {"class_weight": "balanced"}), (*NUMBERS, {})],
    ids=["svc", "balanced", "svr"],
)
def test_sample_weights_are_those_of_scikit_learn(ours, peer, X, y, parameters):
    # Rows of no weight or less are left out.
    weights = np.random.default_rng(0).integers(-1, 4, len(y)) * 0.5
    fitted = ours(tol=1e-6, **parameters).fit(X, y, sample_weight=weights)
    theirs = peer(tol=1e-6, **parameters).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(values(fitted, X), values(theirs, X), atol=1e-4)
    assert set(fitted.support_) <= set(np.flatnonzero(weights > 0))
    np.testing.assert_array_equal(fitted.support_vectors_, X[fitted.support_])
    with pytest.raises(ValueError, match="sample_weight must be above 0 for a "):
        fitted.fit(X, y, sample_weight=-np.ones(len(y)))


@BOTH
def test_kernels_that_are_given_are_those_of_scikit_learn(ours, peer, X, y):
    train, other = np.arange(0, len(X), 2), np.arange(1, len(X), 2)

    def kernel(A, B):
        return rbf_kernel(A, B, gamma=0.05)

    for weights in (None, np.where(train % 3, 1.0, 0.0)):
        # not kernel="precomputed": there SVC takes wrong columns when rows are left out
        theirs = peer(gamma=0.05, tol=1e-6).fit(X[train], y[train], weights)
        called = ours(kernel=kernel, tol=1e-6).fit(X[train], y[train], weights)
        precomputed = ours(kernel="precomputed", tol=1e-6)
        precomputed.fit(kernel(X[train], X[train]), y[train], weights)
        expected, across = values(theirs, X[other]), kernel(X[other], X[train])
        np.testing.assert_allclose(values(called, X[other]), expected, atol=1e-4)
        np.testing.assert_allclose(values(precomputed, across), expected, atol=1e-4)
        kept = train if weights is None else train[weights > 0]
        assert set(train[precomputed.support_]) <= set(kept)
    for estimator in (precomputed, called):
        with pytest.raises(ValueError, match=r"kernel must be one of rbf.* to be saved"):
            estimator.save("nowhere.safetensors")
    with pytest.raises(ValueError, match="must be a square matrix"):
        precomputed.fit(X, y)


@BOTH
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_sparse_rows_are_made_dense_within_the_memory(ours, peer, X, y, kernel):
    sparse = csr_matrix(np.where(np.abs(X) > 1, X, 0))
    fitted = ours(kernel=kernel).fit(sparse, y)
    same = ours(kernel=kernel).fit(sparse.toarray(), y)
    np.testing.assert_array_equal(values(fitted, sparse), values(same, sparse.toarray()))
    with pytest.raises(ValueError, match="X must fit in memory_bytes as a dense array, got "):
        ours(memory_bytes=10_000).fit(sparse, y)
    with pytest.raises(TypeError, match=r"give X\.toarray"):
        ours(kernel="precomputed").fit(csr_matrix(np.eye(len(y))), y)


def table(X):
    return pd.DataFrame(X, columns=list("abcdefghijklm")[: X.shape[1]])


FORMS: dict[str, tuple[Any, Any, Any]] = {
    "words": (PathSVC(class_weight={"red": 1.0, "white": 3.0}), WINE, WORDS),
    "objects": (PathSVC(), WINE, WORDS.astype(object)),
    "whole numbers": (
        PathSVC(class_weight={0: 2.0}),
        WINE.astype(np.float32),
        (KINDS * 10).astype(np.int16),
    ),
    "truths": (PathSVC(degree=np.int64(2), class_weight={True: 2.0}), TWO[0], TWO[1] == 1),
    "a table of classes": (PathSVC(), table(TWO[0]), TWO[1]),
    "numbers": (PathSVR(epsilon=0.2), ROWS, TARGETS),
    "a table of numbers": (PathSVR(), table(ROWS), TARGETS),
    "no support": (PathSVR(epsilon=50), ROWS, TARGETS),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_saved_estimator_comes_back_as_it_was(form, tmp_path):
    estimator, X, y = FORMS[form]
    ours, file = clone(estimator).set_params(C=np.float64(2.0)).fit(X, y), tmp_path / "svm"
    ours.save(file)
    back = type(ours).load(str(file))
    assert back.get_params() == ours.get_params()
    names = [
        "n_features_in_",
        "fit_status_",
        "n_iter_",
        "support_",
        "n_support_",
        "support_vectors_",
        "dual_coef_",
        "intercept_",
    ]
    names += ["classes_"] if is_classifier(ours) else []
    names += ["feature_names_in_"] if isinstance(X, pd.DataFrame) else []
    for name in names:
        restored, other = np.asarray(getattr(back, name)), np.asarray(getattr(ours, name))
        np.testing.assert_array_equal(restored, other)
        assert restored.dtype == other.dtype
    assert hasattr(back, "feature_names_in_") == isinstance(X, pd.DataFrame)
    np.testing.assert_array_equal(back.predict(X), ours.predict(X))
    np.testing.assert_array_equal(values(back, X), values(ours, X))
    assert clone(back).fit(X, y).score(X, y) == ours.score(X, y)
    machine = (KernelMachine if is_classifier(ours) else KernelRegressor).load(file)
    np.testing.assert_array_equal(machine.predict(np.asarray(X)), ours.predict(X))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with files of both estimators and both machines, and with what is none."""
    folder = tmp_path_factory.mktemp("models")
    svc, svr = PathSVC().fit(WINE, KINDS), PathSVR().fit(ROWS, TARGETS)
    for name, estimator in (("svc", svc), ("svr", svr)):
        estimator.save(folder / name)
        estimator.machine_.save(folder / f"{name} machine")
    save_file({"weights": np.ones(3)}, folder / "foreign")
    whole = (folder / "svc").read_bytes()
    for name, content in {
        "cut": whole[:-100],
        "no header": whole[100:],
        "empty": b"",
        "pickle": pickle.dumps({"C": 1.0}),
        # as long as before, so that the file's own lengths hold
        "klasses": whole.replace(b"classes", b"klasses"),
        "m_support": whole.replace(b"n_support", b"m_support"),
        "rbg": whole.replace(b'\\"name\\": \\"rbf\\"', b'\\"name\\": \\"rbg\\"'),
        "ovn": whole.replace(b'"decision":"\\"ovo', b'"decision":"\\"ovn'),
    }.items():
        assert content != whole, name
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        *(
            (PathSVC, name, "")
            for name in (
                "cut",
                "no header",
                "empty",
                "pickle",
                "klasses",
                "m_support",
                "rbg",
                "ovn",
                "foreign",
                "svc machine",
                "none",
                ".",
            )
        ),
        (PathSVC, "svr", "it holds a regression, "),
        (PathSVR, "svc", "it holds a classifier, "),
        (PathSVR, "svr machine", "it holds none; a run's "),
        (KernelMachine, "svr", "it holds a regression, which KernelRegressor.load reads; "),
        (KernelRegressor, "svc", "it holds a classifier, which KernelMachine.load reads; "),
    ],
)
def test_what_is_no_such_file_is_refused_in_one_line(files, kind, name, words):
    wrote = rf"a file that {kind.__name__}\.save wrote: "
    what = wrote if kind in (PathSVC, PathSVR) else "a model that this program saved: "
    with pytest.raises(InputError, match=f"must be {what}.*{words}") as caught:
        kind.load(files / name)
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
        ({"epsilon": -0.1}, r"'epsilon' parameter of PathSVR .* Got -0\.1"),
    ],
)
def test_parameters_that_cannot_be_used(parameters, words):
    estimator = PathSVR if "epsilon" in parameters else PathSVC
    with pytest.raises(ValueError, match=words):
        estimator(**parameters).fit(WINE, KINDS)
