from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_classification
from sklearn.metrics.pairwise import pairwise_kernels

from pipelines.data.scaling import Scaling
from pipelines.errors import InputError
from pipelines.svm.backends import load_backend
from pipelines.svm.kernel import KERNELS, RBF, Kernel
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.multiclass import codes_of
from pipelines.svm.probabilities import Calibration
from pipelines.svm.settings import Settings

DIGITS = load_digits(return_X_y=True)
TWO = make_classification(300, 8, random_state=0)


def machine_of(X, y, decision):
    solver = load_backend("sklearn", "cpu")
    scaling = Scaling("standardise").fit(X)
    fitted = solver.fit(scaling.transform(X), y, 10.0, 0.01, Settings(decision))
    support, coefficients, intercepts = solver.parts(fitted)
    machine = KernelMachine(
        scaling.transform(X[support]),
        coefficients,
        intercepts,
        RBF,
        0.01,
        scaling,
        np.unique(y),
        decision,
    )
    return machine, fitted


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
@pytest.mark.parametrize("data", [DIGITS, TWO], ids=["ten classes", "two"])
def test_values_are_those_of_scikit_learn(data, decision):
    X, y = data
    machine, fitted = machine_of(X, y, decision)
    scaled = machine.scaling.transform(X)
    np.testing.assert_array_equal(machine.predict(X), fitted.predict(scaled))
    decisions, expected = machine.decision_function(X), fitted.decision_function(scaled)
    np.testing.assert_allclose(decisions, expected, atol=1e-6)
    n_problems = 1 if len(machine.classes_) == 2 else {"ovo": 45, "ovr": 10}[decision]
    assert machine.coefficients.shape[1] == n_problems
    if n_problems == 45:
        pairs = fitted.set_params(decision_function_shape="ovo").decision_function(scaled)
        np.testing.assert_allclose(machine.decision_values(X), pairs, atol=1e-6)


def test_values_do_not_depend_on_the_block_size(monkeypatch):
    X, y = DIGITS
    machine, _ = machine_of(X, y, "ovo")
    whole = machine.decision_values(X[:50])
    monkeypatch.setattr("pipelines.svm.kernel_machine.BLOCK_ENTRIES", 7 * len(machine.coefficients))
    np.testing.assert_allclose(machine.decision_values(X[:50]), whole, atol=1e-10)
    assert machine.decision_values(X[:0]).shape == (0, 45)


def test_votes_that_tie_go_to_the_smallest_class():
    round_robin = np.array([[1.0, -1.0, 1.0]])  # 0 beats 1, 2 beats 0, 1 beats 2
    assert codes_of(round_robin, 3, "ovo").tolist() == [0]
    assert codes_of(np.array([[-3.0, -1.0, -2.0]]), 3, "ovr").tolist() == [1]


def test_parts_that_do_not_belong_together_are_refused(tmp_path):
    machine, _ = machine_of(*DIGITS, "ovo")
    path = tmp_path / "model.safetensors"
    damaged = [
        replace(machine, intercepts=machine.intercepts[1:]),
        replace(machine, coefficients=machine.coefficients[1:]),
        replace(machine, intercepts=np.full_like(machine.intercepts, np.nan)),
        replace(machine, classes_=machine.classes_[:1]),
        replace(machine, decision="ovr"),
        replace(machine, decision="all"),
        replace(machine, calibration=Calibration(np.ones(1), np.zeros(1))),
    ]
    for machine_ in damaged:
        machine_.save(path)
        with pytest.raises(InputError, match="must be a model that this program saved: its "):
            KernelMachine.load(path)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_those_of_scikit_learn(name):
    rng = np.random.default_rng(0)
    rows, other_rows = rng.normal(size=(40, 7)), rng.normal(size=(30, 7))
    products = Kernel(name, degree=4, coef0=0.5, gamma=0.3).between(rows, other_rows)
    parameters = {"gamma": 0.3, "degree": 4, "coef0": 0.5}
    theirs = pairwise_kernels(rows, other_rows, metric=name, filter_params=True, **parameters)
    np.testing.assert_allclose(products, theirs, rtol=1e-12, atol=1e-15)
