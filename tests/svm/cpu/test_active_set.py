"""Newton's method on the free multipliers."""

import numpy as np
import pytest

from benchmarks.tables.tables import make_table
from pipelines.svm.cpu.active_set import _pin_many, solve_active
from pipelines.svm.cpu.factor import directions, no_factor
from pipelines.svm.solutions import CONVERGED

TOL = 1e-3


@pytest.mark.parametrize("gamma", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("start", ["zero", "half"])
def test_the_active_set_ends_at_the_optimum(gamma, start):
    X, labels = make_table("phoneme", 300)
    y, C = np.where(labels == 1, 1.0, -1.0), 1e4
    K = np.expm1(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    lower, upper = np.where(y > 0, 0, -C), np.where(y > 0, C, 0)
    beta = np.zeros(len(y))
    if start == "half":  # everything free, and of sum 0
        beta = np.where(y > 0, 1.0 / (y > 0).sum(), -1.0 / (y < 0).sum())
    residual = y - K @ beta
    steps, status = solve_active(
        K, residual, beta, lower, upper, np.arange(300), no_factor(300), TOL, TOL, 100_000
    )
    assert status == CONVERGED
    assert steps < 5_000
    assert (beta >= lower).all()
    assert (beta <= upper).all()
    assert abs(beta.sum()) < 1e-9 * C
    residual = y - K @ beta
    assert residual[beta < upper].max() - residual[beta > lower].min() < 1.01 * TOL


@pytest.mark.slow
def test_many_rows_are_pinned_at_once_where_the_objective_falls():
    rng = np.random.default_rng(0)
    f = 60
    A = rng.normal(size=(f, f))
    K = A @ A.T / f + 1e-3 * np.eye(f)
    residual, least, most = 3 * rng.normal(size=f), -rng.random(f), rng.random(f)
    carried = no_factor(f)
    factor, sides = np.linalg.cholesky(K), carried.sides
    carried.factor[:] = factor
    sides[0] = np.linalg.solve(factor, np.ones(f))
    sides[1] = np.linalg.solve(factor, residual)
    before, d, v, move = sides[1].copy(), np.empty(f), np.empty(f), np.empty(f)
    level = directions(carried, f, d, v)
    np.testing.assert_allclose(K @ d + level, residual, atol=1e-9)
    times = np.where(d > 0, most, least) / d
    first = times.min()
    assert _pin_many(carried, least, most, first, level, d, v, move)
    pinned = np.isinf(move)
    assert pinned.sum() >= 4
    moved = np.where(pinned, np.where(move > 0, most, least), move)
    assert abs(moved.sum()) < 1e-9
    assert (moved >= least - 1e-12).all()
    assert (moved <= most + 1e-12).all()

    def change(step):
        return 0.5 * step @ K @ step - residual @ step

    assert change(moved) < change(first * d) < 0
    np.testing.assert_allclose(factor @ (before - sides[1]), K @ moved, atol=1e-9)
