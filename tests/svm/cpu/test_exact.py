"""Kernel rows in double precision, made when they are asked for."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from benchmarks.tables.tables import make_table
from pipelines.svm.cpu import exact
from pipelines.svm.cpu.exact import ExactKernel, ExactRows
from pipelines.svm.cpu.path import cross_validate_path
from pipelines.svm.kernel import Kernel

GAMMA, ENOUGH = 0.3, 1 << 30


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(300, 7))


def all_of(held, order):
    """Every row of a store that is asked for some rows at a time."""
    for wanted in order:
        assert held.hold(wanted)
    return held.store[held.slot]


@pytest.mark.parametrize("kernel", [Kernel(), Kernel("poly", 3, 1.0), Kernel("linear")])
def test_they_are_the_kernel(rows, kernel):
    values = all_of(ExactRows(rows, kernel.at(GAMMA), ENOUGH), [np.arange(300)])
    expected = {
        "rbf": rbf_kernel(rows, gamma=GAMMA) - 1,
        "poly": polynomial_kernel(rows, degree=3, gamma=GAMMA, coef0=1.0),
        "linear": rows @ rows.T,
    }[kernel.name]
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(values, values.T)
    held = ExactRows(rows, kernel.at(GAMMA), ENOUGH)
    np.testing.assert_allclose(held.diagonal, np.diagonal(expected), rtol=1e-12, atol=1e-12)


def test_a_row_is_the_same_whichever_are_made_with_it(rows):
    together = all_of(ExactRows(rows, Kernel(gamma=GAMMA), ENOUGH), [np.arange(300)])
    order = np.random.default_rng(1).permutation(300)
    by_turns = [order[:1], order[:40], order[30:31], order[20:]]
    apart = all_of(ExactRows(rows, Kernel(gamma=GAMMA), ENOUGH), by_turns)
    np.testing.assert_array_equal(together, apart)


def test_equal_rows_are_at_distance_0(rows):
    rows[5] = rows[200]
    values = all_of(ExactRows(rows + 1e6, Kernel(gamma=GAMMA), ENOUGH), [np.arange(300)])
    assert values[5, 200] == 0.0


def test_there_is_room_for_so_many(rows):
    held = ExactRows(rows, Kernel(gamma=GAMMA), 8 * 300 * 10)
    assert held.hold(np.arange(8))
    assert held.hold(np.arange(4, 10))
    assert not held.hold(np.arange(9, 11))
    assert held.hold(np.arange(10))


def test_walks_share_rows_where_all_fit(rows):
    kernel = ExactKernel(rows, Kernel(gamma=GAMMA), 8 * 300 * 300, 2)
    assert kernel.of(None) is kernel.of(None)
    small = ExactKernel(rows, Kernel(gamma=GAMMA), 8 * 300 * 299, 2)
    assert small.of(None) is not small.of(None)
    assert len(small.of(None).store) == 149


@pytest.mark.slow
def test_what_has_no_room_is_solved_in_single_precision(monkeypatch):
    had_room, hold = [], ExactRows.hold
    monkeypatch.setattr(
        ExactRows, "hold", lambda rows, wanted: had_room.append(hold(rows, wanted)) or had_room[-1]
    )
    X, y = make_table("phoneme", 700)
    folds = [(np.arange(550), np.arange(550, 700))]
    grid = X, y, [0.05, 0.5], [0.1, 1000.0, 1e5], folds
    whole = cross_validate_path(*grid)
    assert had_room
    assert all(had_room)
    # both kernels in single precision fit, and few rows in double precision
    narrow = cross_validate_path(*grid, memory_bytes=10 * 700 * 700, n_threads=4)
    assert not all(had_room)
    assert not narrow.status.any()
    assert np.abs(narrow.n_errors - whole.n_errors).max() <= 1


def test_products_of_many_features_are_made_once_for_all_gammas(monkeypatch):
    wide, kept, computed_rows = np.random.default_rng(0).normal(size=(60, 40)), {}, []
    products_of = exact._products_of
    monkeypatch.setattr(
        exact,
        "_products_of",
        lambda columns, rows, *arguments: (
            computed_rows.extend(rows) or products_of(columns, rows, *arguments)
        ),
    )
    for gamma, wanted in ((GAMMA, np.arange(40)), (2 * GAMMA, np.arange(20, 60))):
        held = ExactKernel(wide, Kernel(gamma=gamma), ENOUGH, 1, kept).of(None)
        assert held.hold(wanted)
        expected = rbf_kernel(wide, gamma=gamma)[wanted] - 1
        np.testing.assert_allclose(held.store[held.slot[wanted]], expected, rtol=1e-12, atol=1e-12)
    assert sorted(computed_rows) == list(range(60))
