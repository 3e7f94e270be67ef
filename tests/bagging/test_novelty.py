"""Samples unlike all training rows are named, and others seldom are."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits, load_wine

from pipelines.bagging.estimator import BaggedNets
from pipelines.bagging.selective_prediction import novelty_p_values, select_novel
from pipelines.data.image_files import ImageFormat, read_image
from pipelines.nn.member import FeatureDistance

SEVEN = Path(__file__).parents[2] / "notebooks" / "images" / "seven.png"
digits = load_digits()
ORDER = np.random.default_rng(0).permutation(len(digits.data))
X, y = digits.images[ORDER, None], digits.target[ORDER]


@pytest.fixture(scope="module", params=["conv", pytest.param("cnn", marks=pytest.mark.slow)])
def nets(request):
    space = {"cnn": {"n_conv_layer": 8, "learning_rate": 0.1, "momentum": 0.9}}
    fitted = BaggedNets(
        4,
        1,
        cv=2,
        network=request.param,
        batch_size=16,
        max_epochs=8,
        random_state=0,
        space=space.get(request.param, "auto"),
    )
    return fitted.fit(X[:1000], y[:1000])


def test_noise_is_novel_and_digits_are_not(nets):
    p = nets.assess(X[1000:]).p
    for level in (0.05, 0.2, 0.5):
        assert np.mean(p <= level) <= level + 3 * np.sqrt(level * (1 - level) / len(p))
    assert np.mean(p <= 0.5) > 0.2
    rng = np.random.default_rng(1)
    scrambled = rng.permuted(X[1000:1200].reshape(200, 64), axis=1)
    assert np.mean(nets.assess(scrambled.reshape(200, 1, 8, 8)).p <= 0.05) > 0.8
    assert np.mean(nets.assess(rng.integers(0, 17, (200, 1, 8, 8))).p <= 0.05) > 0.5


def test_a_digit_drawn_with_another_pen_is_not_disowned_and_noise_is(nets, tmp_path):
    data = SimpleNamespace(X_train=digits.data, image_shape=(8, 8), ink=True)
    form = ImageFormat.of(data)
    assert form is not None
    noise = np.random.default_rng(0).integers(0, 256, (64, 64)).astype(np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    seven, other = (
        read_image(path, form).reshape(1, 1, 8, 8) for path in (SEVEN, tmp_path / "noise.png")
    )
    assert nets.predict(seven)[0] == 7
    assert not nets.assess(seven).is_novel[0]
    assert nets.assess(other).is_novel[0]


def test_rows_of_a_table():
    features, classes = load_wine(return_X_y=True)
    is_train = np.arange(len(classes)) % 3 > 0
    nets = BaggedNets(6, random_state=0).fit(features[is_train], classes[is_train])
    other_rows = features[~is_train]
    assert np.mean(nets.assess(other_rows).p <= 0.05) < 0.15
    far = other_rows + 8 * features.std(axis=0) * np.random.default_rng(0).choice(
        [-1, 1], other_rows.shape
    )
    assert np.mean(nets.assess(far).p <= 0.05) > 0.9


def test_the_distance_is_that_of_mahalanobis_to_the_nearest_class():
    rng = np.random.default_rng(0)
    shape = rng.normal(size=(3, 3))
    y = rng.integers(0, 2, 4000)
    features = rng.normal(size=(4000, 3)) @ shape + 30 * y[:, None]
    reference = FeatureDistance.of(features, y)
    assert np.median(reference.distance(features)) == pytest.approx(1, abs=1e-5)
    away = reference.distance(np.array([[0, 0, 0], [30, 30, 30], [0, 0, 0] + 5 * shape[1]]))
    np.testing.assert_allclose(
        away,
        [0, 0, 5 / np.median(np.linalg.norm(rng.normal(size=(9999, 3)), axis=1))],
        rtol=0.05,
        atol=0.05,
    )
    same = FeatureDistance.of(np.ones((4, 2)), np.array([0, 0, 2, 2]))
    assert same.centers.shape == (2, 2)
    assert same.distance(np.zeros((1, 2))).isfinite().all()


def test_p_is_exact_by_counting():
    p = novelty_p_values(np.array([4.0, 1.0, 2.0, 1.0]), np.array([0.5, 2.0, 3.0, 9.0, np.nan]))
    np.testing.assert_allclose(p, [1.0, 3 / 5, 2 / 5, 1 / 5, 1.0])
    assert novelty_p_values(np.ones(3), np.empty(0)).shape == (0,)


def test_the_rule_for_a_batch_is_that_of_benjamini_and_hochberg():
    p = np.array([0.9, 0.011, 0.039, 0.001, 0.05])
    np.testing.assert_array_equal(select_novel(p, 0.05), [False, True, False, True, False])
    from scipy.stats import false_discovery_control

    p_values = np.random.default_rng(3).beta(0.5, 1, 200)
    np.testing.assert_array_equal(
        select_novel(p_values, 0.1), false_discovery_control(p_values) <= 0.1
    )
    assert select_novel(np.array([0.04]))[0]
    assert not select_novel(np.array([0.06]))[0]
    assert not select_novel(np.empty(0)).any()
