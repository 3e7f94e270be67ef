"""Which rows an inner solve is given."""

import numpy as np

from pipelines.svm.cpu.problem import BETA, CHOSEN, RESIDUAL, UPPER
from pipelines.svm.cpu.working_set import keep_worst


def test_of_more_rows_than_there_is_room_for_the_worst_are_kept():
    state, numbers = np.zeros((6, 6)), np.zeros((5, 6), np.int64)
    state[RESIDUAL] = [0.5, -3.0, 0.1, 2.0, -0.2, 0.0]
    state[BETA], state[UPPER] = [0.5, 1.0, 0.5, 0.0, 0.5, 1.0], 1.0
    numbers[CHOSEN, :5] = 1
    assert keep_worst(state, numbers, 0.0, 3, 1, 4) == 4
    # the worst pair, and of the free the two that are farthest from the level
    np.testing.assert_array_equal(np.flatnonzero(numbers[CHOSEN]), [0, 1, 3, 4])
