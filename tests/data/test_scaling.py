import numpy as np
import pytest

from pipelines.data.scaling import PIXELS_0_16, PIXELS_0_255, Scaling


def test_constants_of_the_study():
    X = np.array([[0, 127, 255]], np.uint8)
    scaled = PIXELS_0_255.fit(X).transform(X)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled, (X.astype(float) - 127.5) / 73.61, rtol=1e-6)


def test_digits_get_the_same_map_in_their_own_range():
    ours = PIXELS_0_16.fit(np.empty((0, 1))).transform(np.array([[0.0, 8.0, 16.0]]))
    study = PIXELS_0_255.fit(np.empty((0, 1))).transform(np.array([[0.0, 127.5, 255.0]]))
    np.testing.assert_allclose(ours, study)


def test_standardise_uses_the_rows_it_was_fitted_on():
    rng = np.random.default_rng(0)
    X, other = rng.normal(3, 5, (50, 4)), rng.normal(size=(9, 4))
    fitted = Scaling("standardise").fit(X)
    scaled = fitted.transform(X)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), 1)
    np.testing.assert_allclose(fitted.transform(other), (other - X.mean(0)) / X.std(0))
    assert scaled.dtype == np.float64


@pytest.mark.parametrize("value", [0.0, 0.1, 1e300, -7.0])
def test_feature_without_spread_gets_scale_one(value):
    X = np.column_stack([np.full(7, value), np.arange(7)])
    fitted = Scaling("standardise").fit(X)
    assert fitted.scale[0] == 1
    np.testing.assert_array_equal(fitted.transform(X)[:, 0], 0)


def test_standardise_bytes_gives_float32():
    X = np.array([[0, 200], [250, 200]], np.uint8)
    scaled = Scaling("standardise").fit(X).transform(X)
    assert scaled.dtype == np.float32
    np.testing.assert_array_equal(scaled, [[-1, 0], [1, 0]])


def test_none_changes_only_the_type():
    X = np.array([[1, 2]], np.int64)
    scaled = Scaling("none").fit(X).transform(X)
    assert scaled.dtype == np.float64
    np.testing.assert_array_equal(scaled, X)


def test_a_feature_of_very_small_numbers_has_a_spread():
    X = np.random.default_rng(0).normal(size=(30, 2)) * [1e-200, 1]
    scaled = Scaling("standardise").fit(X).transform(X)
    np.testing.assert_allclose(scaled.std(axis=0), 1, rtol=1e-12)
