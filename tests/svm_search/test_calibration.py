from __future__ import annotations

import numpy as np
import pytest

from pipelines.search.scoring import expected_calibration_error, log_loss
from pipelines.svm.probabilities import Calibration


def test_two_classes_have_one_sigmoid():
    calibration = Calibration(np.array([-2.0]), np.array([0.5]))
    calibrated = calibration.probabilities(np.array([0.0, 0.25, 1000.0, -1000.0]))
    assert calibrated.shape == (4, 2)
    np.testing.assert_allclose(calibrated[:, 1], [1 / (1 + np.exp(0.5)), 0.5, 1, 0])
    np.testing.assert_allclose(calibrated.sum(axis=1), 1)


def test_several_classes_are_brought_to_a_sum_of_one():
    calibration = Calibration(np.full(3, -1.0), np.zeros(3))
    calibrated = calibration.probabilities(
        np.array([[0.0, 0.0, 0.0], [-1e9, -1e9, -1e9], [50, 0, -50]])
    )
    np.testing.assert_allclose(calibrated[:2], 1 / 3)  # where each is 0, no class is preferred
    np.testing.assert_allclose(calibrated[2], [2 / 3, 1 / 3, 0], atol=1e-9)


def test_the_calibration_error_is_the_mean_gap_of_certainty():
    # two bins: 4 rows at certainty 0.9, 3 of them right; 2 rows at 0.6, both right
    certain = np.array([0.9] * 4 + [0.6] * 2)
    probabilities = np.stack([certain, 1 - certain], axis=1)
    truth = np.array([0, 0, 0, 1, 0, 0])
    expected = (4 * abs(0.75 - 0.9) + 2 * abs(1 - 0.6)) / 6
    assert expected_calibration_error(probabilities, truth) == pytest.approx(expected)
    assert expected_calibration_error(np.eye(2), np.array([0, 1])) == 0


def test_the_log_loss_counts_classes_that_the_rows_lack():
    probabilities = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]])
    loss = log_loss(probabilities, np.array([0, 1]))
    assert loss == pytest.approx(-(np.log(0.5) + np.log(0.8)) / 2)
