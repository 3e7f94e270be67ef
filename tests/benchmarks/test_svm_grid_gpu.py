"""The comparison with cuml, where a stand-in that fits by scikit-learn is in its place."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import SVC

from benchmarks import svm_grid_gpu
from benchmarks.gpu.cuml_cells import Cell, sample_cells, time_cells
from benchmarks.grid_search.lines import Errors, Problem, make_problem

CS, GAMMAS = (0.5, 50.0), (1e-3, 1e-2, 1e-1)
STAND_IN = """
import os
import time
from sklearn import svm

class SVC(svm.SVC):
    def __init__(self, C=1.0, gamma="scale", decision_function_shape="ovr", output_type=None):
        super().__init__(C=C, gamma=gamma, decision_function_shape=decision_function_shape)
        self.output_type = output_type

    def fit(self, X, y):
        if self.C == float(os.environ.get("SLOW_C", "nan")):
            time.sleep(600)
        if self.C == float(os.environ.get("FATAL_C", "nan")):
            os._exit(3)
        return super().fit(X, y)
"""


@pytest.fixture
def cuml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "cuml"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "svm.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem("digits", Cs=CS, gammas=GAMMAS, n_folds=2, limit=300)


def errors_of_sklearn(problem: Problem) -> Errors:
    data = problem.data()
    X, y = data.scaled("cpu"), data.y
    return {
        (C, gamma, fold): int(
            np.sum(SVC(C=C, gamma=gamma).fit(X[train], y[train]).predict(X[held]) != y[held])
        )
        for C in CS
        for gamma in GAMMAS
        for fold, (train, held) in enumerate(problem.folds)
    }


@pytest.mark.slow
def test_cells_are_fitted_with_their_own_C_and_gamma(cuml: None, problem: Problem) -> None:
    expected = errors_of_sklearn(problem)
    # Were C and gamma exchanged, the errors would be others.
    assert len(set(expected.values())) > 2
    cells = sample_cells(problem, 12)
    found = {one.cell: one for one in time_cells(problem.data(), cells, "ovo", 100)}
    assert {tuple(cell): one.n_errors for cell, one in found.items()} == expected
    assert all(one.seconds > 0 for one in found.values())


@pytest.mark.slow
def test_a_line_says_whether_both_find_the_same(cuml: None, problem: Problem) -> None:
    errors = errors_of_sklearn(problem)
    line = svm_grid_gpu._cuml(problem, "ovo", sample_cells(problem, 12), errors)
    assert line["cuml_largest_difference_rows"] == 0
    assert line["cuml_cells_timed"] == 12
    assert line["cuml_cells_ended"] == 0
    assert line["cuml_projected_seconds"] == pytest.approx(12 * line["cuml_seconds_per_cell"])
    errors[0.5, 1e-3, 0] += 7
    line = svm_grid_gpu._cuml(problem, "ovo", sample_cells(problem, 12), errors)
    assert line["cuml_largest_difference_rows"] == 7


@pytest.mark.slow
def test_a_cell_that_takes_too_long_is_ended(
    cuml: None, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOW_C", "50")
    cells = [Cell(0.5, 1e-2, 0), Cell(50.0, 1e-2, 0), Cell(0.5, 1e-3, 1)]
    started = time.monotonic()
    one, ended, other = time_cells(problem.data(), cells, "ovo", 8)
    assert time.monotonic() - started < 200
    assert (ended.seconds, ended.n_errors) == (8, None)
    assert one.n_errors is not None
    assert other.n_errors is not None


def test_a_process_that_dies_is_said(
    cuml: None, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FATAL_C", "50")
    with pytest.raises(RuntimeError, match="ended with status 3"):
        list(time_cells(problem.data(), [Cell(50.0, 1e-2, 0)], "ovo", 100))


def test_a_sample_is_from_all_over_the_grid(problem: Problem) -> None:
    cells = sample_cells(problem, 4)
    assert cells[0] == Cell(0.5, 1e-3, 0)
    assert cells[-1] == Cell(50.0, 1e-1, 1)
    assert len(cells) == 4
    assert len(set(sample_cells(problem, 99))) == problem.n_fits


def test_the_page_says_what_is_a_lower_bound() -> None:
    line = {
        "decision": "ovo", "seconds": 20.0, "phases": {"solve": 18.0}, "smo_bytes": 1e12,
        "smo_bytes_per_second": 5e10, "peak_bytes": 2**30, "cuml_cells_timed": 6,
        "cuml_cells_ended": 2, "cuml_projected_seconds": 4000.0, "cuml_largest_difference_rows": 1,
    }  # fmt: skip
    machine = {"cpu": "one", "cores": 2, "memory_gib": 8, "system": "Linux", "python": "3.12"}
    record = {
        "date": "2026-01-02", "dataset": "mnist", "n_train": 60_000, "fits": 2880,
        "gpu": "NVIDIA Example 1", "machine": machine, "lines": [line],
    }  # fmt: skip
    text = svm_grid_gpu.page(record)
    assert "at least 4000 s | at least 200 × | 1 rows" in " ".join(text.split())
    record["lines"] = [{**line, "cuml_cells_ended": 0}, {**line, "decision": "ovr"}]
    assert " 4000 s | 200 ×" in " ".join(svm_grid_gpu.page(record).split())


def test_without_cuml_a_line_says_so(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svm_grid_gpu, "is_installed", lambda: False)
    assert svm_grid_gpu._cuml(problem, "ovo", [], {}) == {"cuml": "not installed"}
