from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from pipelines import PathSVC, PathSVR
from pipelines.errors import InputError
from pipelines.svm.kernel_machine import KernelMachine, KernelRegressor

RAW, TARGETS = load_diabetes(return_X_y=True)
X, Y = StandardScaler().fit_transform(RAW), (TARGETS - TARGETS.mean()) / TARGETS.std()
RNG = np.random.default_rng(0)

# As of PathSVC: two solutions within the tolerance are not equal to seven digits.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "within the tolerance only, as SVR",
    "check_sample_weight_equivalence_on_sparse_data": "within the tolerance only, as SVR",
}


@parametrize_with_checks(
    [PathSVR(), PathSVR(kernel="linear")], expected_failed_checks=lambda estimator: EXPECTED
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def wave(n: int, n_features: int, noise: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(n).normal(size=(n, n_features))
    return rows, np.sin(2 * rows[:, 0]) + np.random.default_rng(1).normal(scale=noise, size=n)


TWICE = wave(80, 2)
# Rows, targets and parameters; of wide spreads the tolerance is in units of the targets.
DATA: dict[str, tuple[np.ndarray, np.ndarray, dict[str, Any]]] = {
    "standardised targets": (X, Y, {"gamma": 0.05}),
    "targets as they are": (X, TARGETS, {"C": 100.0, "epsilon": 5.0}),
    "linear": (X, Y, {"kernel": "linear", "C": 0.1}),
    "poly": (X[:200], Y[:200], {"kernel": "poly", "degree": 2, "coef0": 1.0}),
    "sigmoid": (X[:200], Y[:200], {"kernel": "sigmoid", "gamma": 0.01, "C": 0.5}),
    "constant targets": (X[:50], np.full(50, 3.25), {}),
    "no tube": (X[:200], Y[:200], {"epsilon": 0.0}),
    "a tube that holds all": (X[:100], Y[:100], {"epsilon": 50.0}),
    "duplicates": (np.repeat(TWICE[0], 3, axis=0), np.repeat(TWICE[1], 3), {"C": 10.0}),
    "duplicates that differ": (np.repeat(TWICE[0], 2, axis=0), RNG.normal(size=160), {}),
    "one column": (*wave(150, 1), {"C": 10.0}),
    "a constant column": (np.ones((40, 1)), Y[:40], {}),
    "a large C": (*wave(150, 2, 0.02), {"C": 1e4, "gamma": 1.0}),
    "a small C": (*wave(150, 2), {"C": 1e-4}),
    "one row": (X[:1], Y[:1], {}),
    "three rows": (X[:3], Y[:3], {"C": 10.0}),
    "more columns than rows": (*wave(30, 100), {}),
    "outliers": (X[:200], np.where(np.arange(200) % 40, Y[:200], 100.0), {}),
}


@pytest.mark.parametrize("name", DATA)
def test_it_is_the_model_of_svr(name: str) -> None:
    rows, y, parameters = DATA[name]
    ours, peer = PathSVR(**parameters).fit(rows, y), SVR(**parameters).fit(rows, y)
    assert ours.fit_status_ == 0
    # Residuals may be off by the tolerance, at either end.
    np.testing.assert_allclose(ours.predict(rows), peer.predict(rows), atol=5e-3)
    ours, peer = (one.set_params(tol=1e-6).fit(rows, y) for one in (ours, peer))
    np.testing.assert_allclose(ours.predict(rows), peer.predict(rows), atol=1e-4)


def test_attributes_have_the_form_of_svr() -> None:
    parameters: dict[str, Any] = {"kernel": "linear", "C": 0.1, "tol": 1e-7}
    ours, peer = PathSVR(**parameters).fit(X, Y), SVR(**parameters).fit(X, Y)
    for name in ("support_", "n_support_", "support_vectors_"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(peer, name))
    for name in ("dual_coef_", "intercept_", "coef_"):
        found, expected = getattr(ours, name), getattr(peer, name)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, atol=1e-4)
    by_hand = X @ ours.coef_[0] + ours.intercept_
    np.testing.assert_allclose(by_hand, ours.predict(X), atol=1e-9)
    with pytest.raises(AttributeError, match="kernel='linear' alone"):
        _ = PathSVR().fit(X[:20], Y[:20]).coef_
    assert PathSVR(**SVR(epsilon=0.3).get_params()).epsilon == 0.3


def test_sample_weights_are_those_of_svr() -> None:
    weights = np.arange(len(X)) % 5 - 1.0
    ours = PathSVR(tol=1e-6).fit(X, Y, sample_weight=weights)
    peer = SVR(tol=1e-6).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), atol=1e-4)
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    assert set(ours.support_) <= set(np.flatnonzero(weights > 0))
    with pytest.raises(ValueError, match="sample_weight must be above 0 for a training row"):
        ours.fit(X, Y, sample_weight=-np.ones(len(X)))


def test_kernels_that_are_given_are_those_of_svr() -> None:
    train, other = np.arange(0, len(X), 2), np.arange(1, len(X), 2)

    def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return rbf_kernel(A, B, gamma=0.05)

    for weights in (None, np.where(train % 3, 1.0, 0.0)):
        peer = SVR(gamma=0.05, tol=1e-6).fit(X[train], Y[train], weights)
        called = PathSVR(kernel=kernel, tol=1e-6).fit(X[train], Y[train], weights)
        given = PathSVR(kernel="precomputed", tol=1e-6)
        given.fit(kernel(X[train], X[train]), Y[train], weights)
        expected = peer.predict(X[other])
        np.testing.assert_allclose(called.predict(X[other]), expected, atol=1e-4)
        across = kernel(X[other], X[train])
        np.testing.assert_allclose(given.predict(across), expected, atol=1e-4)
    with pytest.raises(ValueError, match=r"kernel must be one of rbf.* to be saved"):
        called.save("nowhere.safetensors")
    with pytest.raises(ValueError, match="could not convert string"):
        PathSVR(kernel=kernel).fit(X[:3], ["a", "b", "c"])


def test_sparse_rows_and_rows_beyond_memory_give_the_same() -> None:
    sparse = csr_matrix(np.where(np.abs(X) > 1, X, 0))
    ours = PathSVR(tol=1e-6).fit(sparse.toarray(), Y)
    np.testing.assert_array_equal(PathSVR(tol=1e-6).fit(sparse, Y).predict(sparse), ours.predict(
        sparse.toarray()))  # fmt: skip
    small = PathSVR(tol=1e-6, memory_bytes=1000).fit(sparse.toarray(), Y)
    np.testing.assert_allclose(
        small.predict(sparse.toarray()), ours.predict(sparse.toarray()), atol=1e-4
    )


@pytest.mark.parametrize("form", ["array", "table", "no support"])
def test_a_saved_estimator_comes_back_as_it_was(form: str, tmp_path: Path) -> None:
    rows = pd.DataFrame(X, columns=list("abcdefghij")) if form == "table" else X
    ours = PathSVR(C=np.float64(2.0), epsilon=50 if form == "no support" else 0.2).fit(rows, Y)
    ours.save(tmp_path / "svr.safetensors")
    back = PathSVR.load(str(tmp_path / "svr.safetensors"))
    assert back.get_params() == ours.get_params()
    for name in ("n_features_in_", "fit_status_", "n_iter_", "support_", "support_vectors_",
                 "dual_coef_", "intercept_"):  # fmt: skip
        np.testing.assert_array_equal(getattr(back, name), getattr(ours, name))
    if form == "table":
        assert back.feature_names_in_.tolist() == list("abcdefghij")
    np.testing.assert_array_equal(back.predict(rows), ours.predict(rows))
    assert clone(back).fit(rows, Y).score(rows, Y) == ours.score(rows, Y)
    machine = KernelRegressor.load(tmp_path / "svr.safetensors")
    np.testing.assert_allclose(machine.predict(X), ours.predict(rows), atol=1e-9)


def test_the_file_of_another_class_is_refused_in_one_line(tmp_path: Path) -> None:
    PathSVR().fit(X, Y).save(tmp_path / "svr.safetensors")
    PathSVC().fit(X, Y > 0).save(tmp_path / "svc.safetensors")
    PathSVR().fit(X, Y).machine_.save(tmp_path / "machine.safetensors")
    for load, name, words in (
        (PathSVC.load, "svr", "must be a file that PathSVC.save wrote: it holds a regression, "),
        (PathSVR.load, "svc", "must be a file that PathSVR.save wrote: it holds a classifier, "),
        (
            PathSVR.load,
            "machine",
            "must be a file that PathSVR.save wrote: it holds none; a run's ",
        ),
        (KernelMachine.load, "svr", "it holds a regression, which KernelRegressor.load reads; "),
        (KernelRegressor.load, "svc", "it holds a classifier, which KernelMachine.load reads; "),
    ):
        with pytest.raises(InputError, match=words) as caught:
            load(tmp_path / f"{name}.safetensors")
        assert "\n" not in str(caught.value)


def test_epsilon_is_not_below_0() -> None:
    with pytest.raises(ValueError, match=r"'epsilon' parameter of PathSVR .* Got -0\.1"):
        PathSVR(epsilon=-0.1).fit(X, Y)
