"""A threshold of certainty that keeps its promise, and prediction sets that hold the true one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom

from pipelines.bagging.record import SELECTIVE_PREDICTION
from pipelines.bagging.selective_prediction import (
    STARTS,
    THRESHOLDS,
    OutOfBag,
    SelectivePrediction,
    find_threshold,
    prediction_sets,
    stored_selective_prediction,
    upper_bound,
)
from pipelines.data.model_file import read_model, write_model
from pipelines.errors import InputError
from pipelines.nn.member import OutOfBagPrediction


def draw(n, rng):
    """Answers that are right as often as they are certain, most of them nearly certain."""
    certainty = 1 - 10 ** -rng.uniform(0.1, 4, n)
    return certainty, rng.random(n) > certainty


def true_error(threshold):
    """The integral: mean of 10 ** -u from the exponent of the threshold to 4."""
    least = min(max(0.1, -np.log10(1 - threshold)), 4 - 1e-9)
    return float((10**-least - 1e-4) / (np.log(10) * (4 - least)))


def test_the_bound_is_that_of_clopper_and_pearson():
    for n_wrong, n in ((0, 299), (3, 500), (40, 50)):
        bound = upper_bound(n_wrong, n, 0.95)
        assert binom.cdf(n_wrong, n, bound) == pytest.approx(0.05)
    assert upper_bound(0, 0, 0.95) == 1
    assert upper_bound(5, 5, 0.95) == 1


@pytest.mark.slow
def test_the_promise_is_broken_no_more_often_than_it_says():
    rng = np.random.default_rng(0)
    truth = {threshold: true_error(threshold) for threshold in THRESHOLDS}
    n_runs, broken, kept = 400, 0, 0
    for _ in range(n_runs):
        rule = find_threshold(*draw(3_000, rng), error=0.02, confidence=0.9)
        if rule.threshold is not None:
            kept += 1
            broken += truth[rule.threshold] > 0.02
    assert kept > 0.9 * n_runs
    # Of 400 promises with confidence 0.9 more than 55 are broken once in 300 times.
    assert broken <= binom.ppf(0.997, n_runs, 0.1)


def test_what_is_certain_is_kept_and_what_cannot_be_proved_is_said():
    rng = np.random.default_rng(1)
    certainty, is_wrong = draw(20_000, rng)
    rule = find_threshold(certainty, is_wrong, 0.01)
    assert rule.threshold is not None
    assert rule.bound is not None
    keeps = rule.keeps(certainty)
    assert rule.n_kept == keeps.sum()
    assert rule.n_wrong == is_wrong[keeps].sum()
    assert rule.bound <= 0.01
    assert rule.bound == pytest.approx(
        beta.ppf(1 - 0.05 / len(STARTS), rule.n_wrong + 1, rule.n_kept - rule.n_wrong)
    )
    assert "at most 1 % wrong, with confidence 95 %, at certainty" in rule.line
    nothing = find_threshold(certainty[:50], is_wrong[:50], 0.01)
    assert nothing.threshold is None
    assert not nothing.keeps(certainty).any()
    assert "every sample is deferred to a human" in nothing.line
    assert find_threshold(np.empty(0), np.empty(0, dtype=bool), 0.1).threshold is None


def test_a_row_is_judged_by_those_that_left_it_out_alone():
    y = np.array([0, 1, 1, 0])
    predictions = [
        OutOfBagPrediction(np.array([0, 2]), np.array([[0.9, 0.1], [0.6, 0.4]]), np.ones(2)),
        OutOfBagPrediction(np.array([2]), np.array([[0.2, 0.8]]), np.array([3.0])),
    ]
    pooled = OutOfBag.of(predictions, y, 2)
    np.testing.assert_array_equal(pooled.truth, [0, 1])
    np.testing.assert_allclose(pooled.mean, [[0.9, 0.1], [0.4, 0.6]], atol=1e-6)
    np.testing.assert_array_equal(pooled.distance, [1, 2])
    np.testing.assert_array_equal(pooled.vote, [0, 1])  # one vote each: the larger mean
    np.testing.assert_allclose(pooled.certainty, [0.9, 0.6], atol=1e-6)
    assert not pooled.is_wrong.any()


def test_stored_rules_whose_rows_do_not_belong_together_are_refused(tmp_path):
    prediction = OutOfBagPrediction(np.arange(4), np.full((4, 2), 0.5), np.ones(4))
    path = tmp_path / SELECTIVE_PREDICTION
    SelectivePrediction.of([prediction], np.array([0, 1, 1, 0]), 2).save(path)
    assert stored_selective_prediction(tmp_path) is not None
    arrays, about = read_model(path)
    name = next(iter(arrays))
    write_model(path, {**arrays, name: arrays[name][:3]}, about)
    with pytest.raises(InputError, match="resume the run, which writes it again"):
        stored_selective_prediction(tmp_path)


def test_sets_hold_the_true_class_of_every_class_and_equal_the_quantile_rule():
    rng = np.random.default_rng(2)
    sharp = np.array([8.0, 4.0, 1.0])  # the last class is hard

    def sample(n):
        y = rng.choice(3, n, p=[0.6, 0.3, 0.1])
        logits = rng.normal(size=(n, 3)) + np.eye(3)[y] * sharp[y, None] / 2
        p = np.exp(logits)
        return (p / p.sum(axis=1, keepdims=True)).astype(np.float32), y

    (reference, truth), (new, new_truth) = sample(4_000), sample(20_000)
    sets = prediction_sets(reference, truth, new, 0.9)
    for code in range(3):
        of_class = new_truth == code
        assert sets[of_class, code].mean() == pytest.approx(0.9, abs=0.04)
        # By hand: the certainty that at most a tenth of the class' known points fall short of.
        class_scores = np.sort(1 - reference[truth == code, code].astype(float))
        limit = class_scores[int(np.ceil((len(class_scores) + 1) * 0.9)) - 1]
        differ = sets[:, code] != (1 - new[:, code].astype(float) <= limit)
        assert differ.mean() < 2e-4  # rounding at the limit itself


def test_a_class_with_too_few_known_points_is_in_every_set():
    reference = np.full((30, 2), 0.5)
    truth = np.array([0] * 25 + [1] * 5)
    sets = prediction_sets(reference, truth, np.array([[0.99, 0.01], [0.01, 0.99]]), 0.95)
    assert sets[:, 1].all()
    np.testing.assert_array_equal(sets[:, 0], [True, False])
    assert prediction_sets(reference, truth, np.empty((0, 2))).shape == (0, 2)


def test_any_number_of_known_points_of_a_class_is_taken():
    rng = np.random.default_rng(3)
    for confidence in (0.05, 0.5, 0.8, 0.95, 0.99):
        for n in (0, 1, 2, 18, 19, 20, 21, 22, 99, 100, 101, 102):
            reference = rng.dirichlet([2, 1], n + 30)
            truth = np.array([0] * n + [1] * 30)
            assert prediction_sets(reference, truth, reference[:4], confidence).shape == (4, 2)
