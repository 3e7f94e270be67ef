"""Points unlike all training rows are named, and others seldom are."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from pipelines.bagging.novelty import ConformalNoveltyDetector, choose_reference_rows, select_novel

digits = load_digits()
ORDER = np.random.default_rng(0).permutation(len(digits.data))
X = digits.data[ORDER].astype(np.uint8)


def test_digits_are_at_home_as_often_as_p_says_and_others_are_not() -> None:
    known = ConformalNoveltyDetector.of(X[:1000], is_image=True)
    p = known.p_values(X[1000:])
    for level in (0.05, 0.2, 0.5):
        assert np.mean(p <= level) <= level + 3 * np.sqrt(level * (1 - level) / len(p))
    assert not select_novel(p).mean() > 0.02
    scrambled = np.random.default_rng(1).permuted(X[1000:1300], axis=1)
    assert np.mean(known.p_values(scrambled) <= 0.05) > 0.95
    turned = np.rot90(X[1000:1300].reshape(-1, 8, 8), axes=(1, 2)).reshape(300, -1)
    assert np.mean(known.p_values(turned) <= 0.05) > 0.5


def test_the_grey_of_a_picture_alone_tells() -> None:
    known = ConformalNoveltyDetector.of(X[:1000], is_image=True)
    pale = (X[1000:1200] // 2 + 4).astype(np.uint8)
    assert np.mean(known.p_values(pale) <= 0.05) > 0.9


def test_rows_of_a_table_by_distance() -> None:
    rng = np.random.default_rng(2)
    known = ConformalNoveltyDetector.of(rng.normal(size=(800, 5)), is_image=False)
    assert known.apart.shape == (1, 800)
    assert np.mean(known.p_values(rng.normal(size=(800, 5))) <= 0.05) < 0.09
    assert (known.p_values(rng.normal(size=(50, 5)) + 8) <= 0.01).all()
    assert known.p_values(np.empty((0, 5))).shape == (0,)


def test_p_is_exact_by_counting() -> None:
    known = ConformalNoveltyDetector.of(np.array([[0.0], [1.0], [3.0], [7.0]]), is_image=False)
    np.testing.assert_allclose(known.apart, [[1, 1, 2, 4]])
    np.testing.assert_allclose(known.p_values(np.array([[2.0], [9.0], [50.0]])),
                               [1.0, 3 / 5, 1 / 5])  # fmt: skip


def test_one_row_knows_nothing() -> None:
    known = ConformalNoveltyDetector.of(np.array([[0.0]]), is_image=False)
    np.testing.assert_array_equal(known.p_values(np.array([[5.0]])), [1.0])


def test_the_rule_for_a_batch_is_that_of_benjamini_and_hochberg() -> None:
    p = np.array([0.9, 0.011, 0.039, 0.001, 0.05])
    np.testing.assert_array_equal(select_novel(p, 0.05), [False, True, False, True, False])
    from scipy.stats import false_discovery_control

    many = np.random.default_rng(3).beta(0.5, 1, 200)
    np.testing.assert_array_equal(select_novel(many, 0.1), false_discovery_control(many) <= 0.1)
    assert select_novel(np.array([0.04]))[0]
    assert not select_novel(np.array([0.06]))[0]
    assert not select_novel(np.empty(0)).any()


def test_known_rows_are_drawn_once_by_the_seed() -> None:
    assert choose_reference_rows(7, 0).tolist() == list(range(7))
    some = choose_reference_rows(9_000, 3)
    assert len(np.unique(some)) == 5_000
    np.testing.assert_array_equal(some, choose_reference_rows(9_000, 3))
    assert not np.array_equal(some, choose_reference_rows(9_000, 4))
    assert some.max() == pytest.approx(9_000, rel=0.01)
