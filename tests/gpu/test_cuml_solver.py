"""The cuml solver: the answers of scikit-learn, its own answers as plain numbers, no leak."""

import gc

import numpy as np

from benchmarks.gpu.figures import note
from pipelines.data.folds import make_folds
from pipelines.data.load import load_dataset
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.search import tasks
from pipelines.search.candidates import grid_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.tasks import SEARCH, make_tasks
from pipelines.svm.backends import load_backend
from pipelines.svm.kernel import RBF
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.settings import Settings
from pipelines.svm_search.problem import svm_problem

CS, GAMMAS = (0.1, 10.0, 1000.0), (1e-3, 1e-2)
MIB = 2**20


def digits():
    dataset = load_dataset("digits")
    return FoldedData.of(dataset, make_folds(dataset.y_train, 2, 0))


def rows_of(solver, data, decision="ovo", Cs=CS, gammas=GAMMAS):
    settings = Settings(decision, device="gpu" if solver == "cuml" else "cpu")
    splits = {(SEARCH, 1.0): data.folds}
    problem = svm_problem(
        data,
        splits,
        grid_candidates({"C": Cs, "gamma": gammas}),
        solver,
        settings,
        CandidateScorer(),
    )
    return [row for task in make_tasks(problem) for row in tasks.task_rows(problem, task)]


def agrees_with_sklearn(decision):
    data = digits()
    rows, expected = (rows_of(solver, data, decision) for solver in ("cuml", "sklearn"))
    assert [row["status"] for row in rows] == ["ok"] * len(expected)
    differences = [abs(a["n_errors"] - b["n_errors"]) for a, b in zip(rows, expected, strict=True)]
    note(f"{decision}: errors differ by at most {max(differences)} rows")
    assert max(differences) <= 2
    for a, b in zip(rows, expected, strict=True):
        assert abs(a["n_support"] - b["n_support"]) <= 0.05 * b["n_support"]


def test_one_vs_one_agrees_with_sklearn():
    agrees_with_sklearn("ovo")


def test_one_vs_rest_agrees_with_sklearn():
    agrees_with_sklearn("ovr")


def numbers_are_the_solvers_own(decision, classes):
    import cupy
    from cuml.svm import SVC

    data = digits()
    rows = np.isin(data.y, classes)
    X, y = data.scaled("gpu")[cupy.asarray(rows)], data.y[rows]
    solver = load_backend("cuml", "gpu")
    fitted = solver.fit(X, y, 10.0, 0.01, Settings(decision))
    support, coefficients, intercepts = solver.parts(fitted)
    machine = KernelMachine(
        X.get()[support],
        coefficients,
        intercepts,
        RBF,
        0.01,
        Scaling("none").fit(X.get()),
        np.array(classes),
        decision,
    )
    values = np.stack([svc.decision_function(X).get().reshape(-1) for svc in fitted.binary], axis=1)
    np.testing.assert_allclose(machine.decision_values(X.get()), values, atol=2e-3)
    predicted = fitted.predict(X)
    np.testing.assert_array_equal(machine.predict(X.get()), predicted)
    # A third way: cuml's own multi-class wrapper, which breaks ties of votes differently.
    wrapper = SVC(C=10.0, gamma=0.01, decision_function_shape=decision, output_type="numpy")
    theirs = wrapper.fit(X, cupy.asarray(y)).predict(X)
    assert np.sum(np.asarray(theirs).reshape(-1) != predicted) <= 2


def test_numbers_of_one_vs_one_are_cumls_own():
    numbers_are_the_solvers_own("ovo", (1, 3, 7, 8))


def test_numbers_of_one_vs_rest_are_cumls_own():
    numbers_are_the_solvers_own("ovr", (1, 3, 7, 8))


def test_numbers_of_two_classes_are_cumls_own():
    numbers_are_the_solvers_own("ovo", (3, 8))
    numbers_are_the_solvers_own("ovr", (3, 8))


def test_memory_does_not_grow_over_30_fits():
    import cupy

    # With so small a C every row is a support vector: a model that stayed would be 9 MiB.
    rng = np.random.default_rng(3)
    X = rng.integers(0, 256, (3000, 784), dtype=np.uint8)
    y = (np.arange(len(X)) % 2).astype(np.int32)
    rows = np.arange(len(X), dtype=np.int32)
    data = FoldedData(X, y, X[:0], y[:0], [(rows, rows[:100])], Scaling("constants", 127.5, 73.61))

    def used_after_a_fit():
        (row,) = rows_of("cuml", data, Cs=(1e-3,), gammas=(1e-3,))
        assert row["n_support"] == len(X)
        gc.collect()
        free, total = cupy.cuda.runtime.memGetInfo()
        return total - free

    first = [used_after_a_fit() for _ in range(3)][-1]
    growth = max(used_after_a_fit() for _ in range(30)) - first
    note(f"memory grew by {growth / MIB:.0f} MiB over 30 fits")
    assert growth < 60 * MIB
