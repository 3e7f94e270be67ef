"""The temperature of the vote: scikit-learn's, on rows that members left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sklearn
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn.datasets import load_wine
from sklearn.naive_bayes import GaussianNB

from pipelines import BaggedNets
from pipelines.bagging.calibration import (
    LEAST_EVENTS,
    MOST_CHANGE,
    UNSCALED,
    TemperatureScaling,
)
from pipelines.search.scoring import log_loss


def drawn(n_rows, n_classes, sharpness):
    """Draw probabilities, classes by them, and make them too certain or too uncertain."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(n_rows, n_classes)) * 1.5
    p = softmax(logits, axis=1)
    truth = (p.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    return softmax(logits * sharpness, axis=1), truth


@pytest.mark.parametrize("sharpness", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_temperature_is_where_the_loss_has_no_slope(sharpness, n_classes):
    p, truth = drawn(500, n_classes, sharpness)
    logits = np.log(p + 1e-12)

    def slope(inverse):
        expected = (softmax(inverse * logits, axis=1) * logits).sum(axis=1)
        return float(np.mean(expected - logits[np.arange(500), truth]))

    fit = TemperatureScaling.of(p, truth)
    assert 1 / fit.temperature == pytest.approx(brentq(slope, 1e-3, 1e3, xtol=1e-12), rel=1e-6)
    assert fit.temperature == pytest.approx(sharpness, rel=0.3)
    assert fit.log_loss == pytest.approx(log_loss(p, truth))
    assert fit.scaled_log_loss == pytest.approx(log_loss(fit.scaled(p), truth))
    assert fit.scaled_log_loss < fit.log_loss


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8),
    reason="scikit-learn has temperatures from 1.8 on",
)
@pytest.mark.filterwarnings("ignore:Since FrozenEstimator does not appear to accept sample_weight")
@pytest.mark.parametrize("n_classes", [2, 5])
def test_it_is_scikit_learns(n_classes):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    rng = np.random.default_rng(0)
    y = np.arange(400) % n_classes
    X = np.repeat(np.eye(n_classes)[y], 3, axis=1) + 2 * rng.normal(size=(400, 3 * n_classes))
    model = GaussianNB().fit(X[:50], y[:50])  # far too certain; it has probabilities alone
    p = model.predict_proba(X)
    for weights in (None, rng.random(400)):
        peer = CalibratedClassifierCV(FrozenEstimator(model), method="temperature", ensemble=False)
        peer.fit(X, y, sample_weight=weights)
        (calibrated,) = peer.calibrated_classifiers_
        fit = TemperatureScaling.of(p, y, weights)
        assert 1 / fit.temperature == pytest.approx(calibrated.calibrators[0].beta_, rel=1e-6)
        np.testing.assert_allclose(fit.scaled(p), peer.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("sharpness", [0.1, 30.0])
def test_the_most_probable_class_stays(sharpness):
    p, truth = drawn(300, 4, sharpness)
    scaled = TemperatureScaling.of(p, truth).scaled(p.astype(np.float32))
    np.testing.assert_allclose(scaled.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(scaled.argmax(axis=1), p.argmax(axis=1))


@pytest.mark.parametrize("n_wrong", [0, LEAST_EVENTS - 1, LEAST_EVENTS])
def test_too_few_wrong_rows_change_nothing(n_wrong):
    """All right: the least loss is at no uncertainty at all, which one new row would refute."""
    truth = np.arange(200) % 2
    p = np.where(np.eye(2)[truth] == 1, 0.9, 0.1)
    truth[:n_wrong] = 1 - truth[:n_wrong]
    fit = TemperatureScaling.of(p, truth)
    assert (fit.n_rows, fit.n_wrong) == (200, n_wrong)
    if n_wrong == LEAST_EVENTS:
        assert fit.temperature != 1
        return
    assert fit.temperature == 1
    assert fit.log_loss == fit.scaled_log_loss
    assert f"of 200 out-of-bag rows {n_wrong} are wrong, and a temperature needs 10" in fit.line
    np.testing.assert_array_equal(fit.scaled(p), p)


def test_without_rows_nothing_is_fitted():
    assert TemperatureScaling.of(np.empty((0, 3)), np.empty(0, dtype=int)) == UNSCALED
    assert "no row was left out" in UNSCALED.line


def test_rows_without_weight_do_not_count():
    p, truth = drawn(400, 3, 2.0)
    half = np.arange(400) < 200
    np.testing.assert_allclose(
        TemperatureScaling.of(p, truth, half.astype(float)).temperature,
        TemperatureScaling.of(p[half], truth[half]).temperature,
        rtol=1e-6,
    )


def test_an_ensemble_says_what_its_temperature_did():
    X, y = load_wine(return_X_y=True)
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, (y + 1) % 3, y)  # wrong labels
    nets = BaggedNets(random_state=0).fit(X, y)
    fit = nets.calibration_
    assert nets.temperature_ == fit.temperature < fit.fitted  # of twelve, and of a third of them
    assert fit.scaled_log_loss < fit.log_loss
    assert fit.n_rows == len(nets.selective_prediction_.out_of_bag.truth)
    assert fit.line.startswith(
        f"temperature {fit.temperature:.3f} (of the members that left a row out: "
        f"{fit.fitted:.3f}); log loss of {fit.n_rows} out-of-bag rows"
    )
    mean = nets.predict_ensemble(X).mean
    np.testing.assert_array_equal(nets.predict_proba(X), fit.scaled(mean))
    weights = (np.arange(len(y)) % 4 > 0).astype(float)
    weighted = BaggedNets(random_state=0).fit(X, y, weights).calibration_
    assert weighted.n_rows <= weights.sum() < fit.n_rows


def test_out_of_bag_rows_look_no_better_than_new_ones():
    """Labels by chance: rows that chose when to stop would look as if something was learned."""
    losses = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(100, 8)), np.arange(100) % 2
        nets = BaggedNets(random_state=seed).fit(X, y)
        losses.append(nets.calibration_.log_loss)
    assert np.mean(losses) > 0.77  # 0.79; of rows that chose themselves 0.75


def test_the_temperature_of_many_members_lies_on_the_line_of_fewer():
    p, truth = drawn(400, 3, 2.0)
    fit = replace(TemperatureScaling.of(p, truth), fitted=1.6)
    half = replace(fit, fitted=2.0)
    of_twelve = fit.of_more_members(half, 4.0, 2.0, 12)
    slope = (np.log(2.0) - np.log(1.6)) / (1 / 2 - 1 / 4)
    assert np.log(of_twelve.temperature) == pytest.approx(np.log(1.6) + slope * (1 / 12 - 1 / 4))
    far = fit.of_more_members(replace(half, fitted=22026.0), 4.0, 2.0, 12)
    assert far.temperature == pytest.approx(1.6 * np.exp(-MOST_CHANGE * 2 / 3))
    for few, other in (
        (fit, replace(half, n_wrong=LEAST_EVENTS - 1)),
        (replace(fit, temperature=1.0, fitted=1.0, n_wrong=0), half),
    ):
        assert few.of_more_members(other, 4.0, 2.0, 12) is few
