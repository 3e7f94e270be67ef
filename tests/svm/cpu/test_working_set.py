"""Which rows an inner solve is given."""

import numpy as np

from pipelines.svm.cpu.working_set import keep_worst


def test_of_more_rows_than_there_is_room_for_the_worst_are_kept():
    residual = np.array([0.5, -3.0, 0.1, 2.0, -0.2, 0.0])
    beta, upper = np.array([0.5, 1.0, 0.5, 0.0, 0.5, 1.0]), np.ones(6)
    chosen = np.array([True, True, True, True, True, False])
    count = keep_worst(residual, beta, np.zeros(6), upper, 0.0, 3, 1, chosen, 4)
    assert count == 4
    # the worst pair, and of the free the two that are farthest from the level
    np.testing.assert_array_equal(np.flatnonzero(chosen), [0, 1, 3, 4])
