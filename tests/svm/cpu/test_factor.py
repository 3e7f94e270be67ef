"""The factor of the free multipliers, carried from one working set to the next."""

import numpy as np
import pytest

from pipelines.svm.cpu.factor import factorise, no_factor, take_up


@pytest.mark.slow
def test_a_carried_factor_is_that_of_the_rows_that_are_free_now():
    rng = np.random.default_rng(1)
    n, ridge = 60, 1e-6
    X = rng.normal(size=(n, 4))
    K = np.expm1(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    lower, upper, beta = np.zeros(n), np.ones(n), np.zeros(n)
    carried = no_factor(n)
    free = carried.free
    assert take_up(K, 1.0, ridge, beta, lower, upper, np.arange(n), carried) == -1
    free[:40] = carried.rows[:40] = np.arange(40)
    carried.size[0], carried.ridge[0] = 40, ridge
    factorise(K, 1.0, carried, 40)

    # Another working set in another order; three rows were pinned, two set free.
    rows = rng.permutation(n)[::-1]
    beta[np.isin(rows, [*np.delete(np.arange(40), [3, 17, 30]), 45, 50])] = 0.5
    block = K[np.ix_(rows, rows)]
    f = take_up(block, 1.0, ridge, beta, lower, upper, rows, carried)
    assert sorted(free[:f]) == sorted(np.flatnonzero(beta))
    expected = block[np.ix_(free[:f], free[:f])] + 1 + ridge * np.eye(f)
    lower_part = np.tril(carried.factor[:f, :f])
    np.testing.assert_allclose(lower_part @ lower_part.T, expected, atol=1e-10)
    np.testing.assert_allclose(lower_part @ carried.sides[0, :f], 1, atol=1e-6)

    # A row of the factor that the working set has not, or another ridge: a new start.
    few = rows != 5
    left = block[np.ix_(few, few)]
    carried.rows[:f] = rows[free[:f]]
    carried.size[0] = f
    assert take_up(left, 1.0, ridge, beta[few], lower, upper, rows[few], carried) == -1
    assert take_up(block, 1.0, 100 * ridge, beta, lower, upper, rows, carried) == -1
