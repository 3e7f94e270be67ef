"""Which rows an inner solve is given."""

import numpy as np
from sklearn.datasets import load_digits

from pipelines import PathSVC
from pipelines.svm.cpu.binary_problem import BETA, CHOSEN, RESIDUAL, UPPER
from pipelines.svm.cpu.working_set import keep_most_violating, keep_worst


def test_of_more_rows_than_there_is_room_for_the_worst_are_kept():
    state, numbers = np.zeros((6, 6)), np.zeros((5, 6), np.int64)
    state[RESIDUAL] = [0.5, -3.0, 0.1, 2.0, -0.2, 0.0]
    state[BETA], state[UPPER] = [0.5, 1.0, 0.5, 0.0, 0.5, 1.0], 1.0
    numbers[CHOSEN, :5] = 1
    assert keep_worst(state, numbers, 0.0, 3, 1, 4) == 4
    # the worst pair, and of the free the two that are farthest from the level
    np.testing.assert_array_equal(np.flatnonzero(numbers[CHOSEN]), [0, 1, 3, 4])


def test_as_many_are_kept_to_rise_as_to_fall():
    state, numbers = np.zeros((6, 6)), np.zeros((5, 6), np.int64)
    state[RESIDUAL] = [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    state[BETA], state[UPPER] = [0.0, 0.0, 0.0, 0.0, 1.0, 1.0], 1.0  # of two alone may fall
    keep_most_violating(state, numbers, 4)
    np.testing.assert_array_equal(np.flatnonzero(numbers[CHOSEN]), [0, 1, 4, 5])


def test_a_working_set_without_room_for_all_free_rows_takes_no_more_iterations():
    """Nearly all rows are support vectors, of which there is room for one in four."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    settings = {"gamma": 10.0, "decision": "ovr"}
    ours = PathSVC(**settings, memory_bytes=280_000).fit(X, y)
    whole = PathSVC(**settings).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), whole.decision_function(X), atol=3e-3)
    assert ours.n_iter_.sum() < 2 * whole.n_iter_.sum()
