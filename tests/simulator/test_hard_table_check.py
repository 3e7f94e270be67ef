"""The first checks of ``make gpu-check``, small, in the simulator."""

from itertools import product

import pytest

from benchmarks.gpu import figures, first_launches, hard_table
from pipelines.svm.cuda import hard, path
from pipelines.svm.cuda.launches import Launching


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(Launching, "for_rows", classmethod(lambda cls, rows: cls(block_size=1)))
    monkeypatch.setattr(figures, "FIGURES", [])


def test_it_passes_and_tells_the_iterations():
    hard_table.compare_hard_table(120, gammas=(0.03,), Cs=(1.0, 1e3), n_folds=2)
    (figure,) = figures.FIGURES
    assert figure.startswith("120 rows, 4 cells, C to 1000: ")
    assert ", 0 cells unconverged; errors differ in " in figure


def test_it_fails_where_newton_is_not_taken():
    with pytest.raises(AssertionError, match="Newton's method was not taken"):
        hard_table.compare_hard_table(60, gammas=(0.3,), Cs=(1.0, 10.0), n_folds=2)


def test_one_launch_of_each_kernel_is_as_on_the_cpu(monkeypatch):
    launched, newton, solve, solve_active = set(), [], path.solve_table, hard.solve_active

    def noted(search, members, classes, shared, *arguments):
        launching = arguments[-2]
        launched.add((search.one_vs_one, len(shared) == 48, launching.hard_members > 0))
        return solve(search, members, classes, shared, *arguments)

    monkeypatch.setattr(path, "solve_table", noted)
    monkeypatch.setattr(hard, "solve_active", lambda *a: newton.append(1) or solve_active(*a))
    first_launches.launch_kernels()
    of_pairs = {(True, False, True), (True, False, False)}
    assert launched == of_pairs | set(product((True, False), (True,), (True, False)))
    assert newton
