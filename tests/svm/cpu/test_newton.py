"""Newton's method on the free multipliers."""

import numpy as np
import pytest

from benchmarks.tables.tables import make_table
from pipelines.svm.cpu.binary_problem import BETA, LOWER, RESIDUAL, UPPER
from pipelines.svm.cpu.newton import Newton
from pipelines.svm.rules import RESOLVED64
from pipelines.svm.solutions import CONVERGED, STALLED

TOL = 1e-3


def problem(gamma, C, n=300):
    X, labels = make_table("phoneme", n)
    y = np.where(labels == 1, 1.0, -1.0)
    K = np.expm1(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    state = np.zeros((6, n))
    state[LOWER], state[UPPER] = np.where(y > 0, 0, -C), np.where(y > 0, C, 0)
    return K, y, state


def solve(newton, K, y, state, rows, limit=100_000):
    """Solve from the multipliers as they are, on some rows; the others do not move."""
    part = state[:, rows]
    part[RESIDUAL] = (y - K @ state[BETA])[rows]
    inner = np.ascontiguousarray(K[np.ix_(rows, rows)])
    diagonal = np.diagonal(inner).copy()
    solution = newton.solve(inner, diagonal, part, rows, TOL, TOL, limit, RESOLVED64)
    state[:, rows] = part
    return solution


def gap(K, y, state, rows):
    residual, beta = (y - K @ state[BETA])[rows], state[BETA, rows]
    return residual[beta < state[UPPER, rows]].max() - residual[beta > state[LOWER, rows]].min()


@pytest.mark.parametrize("gamma", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("start", ["zero", "half"])
def test_the_active_set_ends_at_the_optimum(gamma, start):
    C, rows = 1e4, np.arange(300)
    K, y, state = problem(gamma, C)
    if start == "half":  # everything free, and of sum 0
        state[BETA] = np.where(y > 0, 1.0 / (y > 0).sum(), -1.0 / (y < 0).sum())
    steps, status = solve(Newton(np.empty((300, 300))), K, y, state, rows)
    assert status == CONVERGED
    assert steps < 5_000
    assert (state[BETA] >= state[LOWER]).all()
    assert (state[BETA] <= state[UPPER]).all()
    assert abs(state[BETA].sum()) < 1e-9 * C
    assert gap(K, y, state, rows) < 1.01 * TOL


def test_a_factor_is_carried_from_one_working_set_to_the_next():
    K, y, state = problem(0.1, 1e4)
    newton, rng = Newton(np.empty((300, 300))), np.random.default_rng(0)
    first = rng.permutation(300)[:260]
    begun = solve(newton, K, y, state, first)[0]
    again = state.copy()
    # All that is free, in another order, and some rows more.
    free = (state[LOWER] < state[BETA]) & (state[BETA] < state[UPPER])
    second = rng.permutation(np.union1d(np.flatnonzero(free), rng.permutation(300)[:280]))
    steps, status = solve(newton, K, y, state, second)
    assert status == CONVERGED
    assert steps < begun / 2
    assert gap(K, y, state, second) < 1.01 * TOL
    # A working set without a row of the factor begins with a new one.
    solve(newton, K, y, state, second)
    without = second[second != second[free[second]][0]]
    assert solve(newton, K, y, again, without)[1] == CONVERGED
    assert gap(K, y, again, without) < 1.01 * TOL


def test_more_free_rows_than_there_is_room_for_are_refused():
    K, y, state = problem(0.1, 1e4)
    state[BETA] = np.where(y > 0, 1.0 / (y > 0).sum(), -1.0 / (y < 0).sum())
    assert solve(Newton(np.empty((200, 200))), K, y, state, np.arange(300)) == (0, STALLED)


def test_a_limit_leaves_residuals_that_belong_to_the_multipliers():
    K, y, state = problem(0.1, 1e4)
    steps, _ = solve(Newton(np.empty((300, 300))), K, y, state, np.arange(300), limit=7)
    assert steps == 7
    np.testing.assert_allclose(state[RESIDUAL], y - K @ state[BETA], atol=1e-6)
