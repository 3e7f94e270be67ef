from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from pipelines import PathSVR

RAW, TARGETS = load_diabetes(return_X_y=True)
X, Y = StandardScaler().fit_transform(RAW), (TARGETS - TARGETS.mean()) / TARGETS.std()
RNG = np.random.default_rng(0)


def wave(n, n_features, noise=0.2):
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
def test_it_is_the_model_of_svr(name):
    rows, y, parameters = DATA[name]
    ours, peer = PathSVR(**parameters).fit(rows, y), SVR(**parameters).fit(rows, y)
    assert ours.fit_status_ == 0
    # Residuals may be off by the tolerance, at either end.
    np.testing.assert_allclose(ours.predict(rows), peer.predict(rows), atol=5e-3)
    ours, peer = (model.set_params(tol=1e-6).fit(rows, y) for model in (ours, peer))
    np.testing.assert_allclose(ours.predict(rows), peer.predict(rows), atol=1e-4)


def test_a_callable_kernel_leaves_targets_to_be_checked():
    with pytest.raises(ValueError, match="could not convert string"):
        PathSVR(kernel=lambda A, B: A @ B.T).fit(X[:3], ["a", "b", "c"])


def test_a_fit_beyond_memory_is_the_same():
    whole, parts = (PathSVR(tol=1e-6, memory_bytes=n).fit(X, Y) for n in (4 << 30, 1000))
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), atol=1e-4)


def test_it_takes_what_svr_takes():
    assert PathSVR(**SVR(epsilon=0.3).get_params()).epsilon == 0.3
