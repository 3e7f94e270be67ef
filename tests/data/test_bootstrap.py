"""Bootstrap samples: drawn with replacement, and never across a fold's border."""

from __future__ import annotations

import pickle

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from pipelines.data.bootstrap import BootstrapSplits, draw_bootstrap
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.errors import InputError


@st.composite
def problems(draw):
    y = draw(st.lists(st.integers(0, 4), min_size=4, max_size=120))
    return np.array(y), draw(st.integers(2, min(7, len(y) // 2))), draw(st.integers(0, 2**32))


@hypothesis.given(problems())
def test_a_sample_never_crosses_folds(problem):
    y, n_folds, seed = problem
    drawn = draw_bootstrap(y, n_folds, np.random.default_rng(seed))
    for fold, sample in zip(drawn.folds, drawn.samples, strict=True):
        assert np.isin(sample, fold).all()
        assert len(sample) == len(fold)
    for fold in range(n_folds):
        assert not np.intersect1d(drawn.train(fold), drawn.validation(fold)).size
        assert len(drawn.train(fold)) == len(y) - len(drawn.samples[fold])
    assert len(drawn.everything()) == len(y)


@hypothesis.given(problems())
def test_folds_share_out_rows_and_classes(problem):
    y, n_folds, seed = problem
    folds = draw_bootstrap(y, n_folds, np.random.default_rng(seed)).folds
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(len(y)))
    sizes = [len(fold) for fold in folds]
    assert max(sizes) - min(sizes) <= 1
    counts = np.array([np.bincount(y[fold], minlength=5) for fold in folds])
    assert (counts.max(axis=0) - counts.min(axis=0)).max() <= 1


def test_rows_are_drawn_with_replacement():
    y = np.arange(20_000) % 10
    sample = draw_bootstrap(y, 5, np.random.default_rng(0)).everything()
    # Of n draws from n rows a share of 1 - 1/e is distinct; its spread here is 0.2 %.
    assert len(np.unique(sample)) / len(y) == pytest.approx(1 - np.exp(-1), abs=0.01)


def test_equal_generators_give_equal_samples():
    y = np.arange(100) % 3
    first, same, other = (
        draw_bootstrap(y, 4, np.random.default_rng(seed)).everything() for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()


@pytest.mark.parametrize(("n_folds", "rule"), [(1, "be at least 2"), (4, "be at most half")])
def test_impossible_folds_are_one_line(n_folds, rule):
    with pytest.raises(InputError, match=rf"^folds must {rule}[^\n]*got {n_folds}"):
        draw_bootstrap(np.zeros(6, int), n_folds, np.random.default_rng(0))


def test_splits_are_those_of_the_bootstrap_and_travel_as_a_seed():
    y = (np.arange(4000) % 3).astype(np.int32)
    data = FoldedData(np.zeros((4000, 1)), y, y[:0], y[:0], (), Scaling("none"))
    splits = BootstrapSplits(data, 4, seed=9, key=(2,))
    spawned = np.random.SeedSequence(9).spawn(3)[2]
    expected = draw_bootstrap(y, 4, np.random.default_rng(spawned))
    assert len(splits) == len(list(splits)) == 4
    for fold, (train, validation) in enumerate(splits):
        np.testing.assert_array_equal(train, expected.train(fold))
        np.testing.assert_array_equal(validation, expected.validation(fold))
    (whole,) = BootstrapSplits(data, 4, seed=9, key=(2,), whole=True)
    np.testing.assert_array_equal(whole[0], expected.everything())
    np.testing.assert_array_equal(whole[1], expected.out_of_bag())
    assert len(pickle.dumps((data, splits))) < len(pickle.dumps(data)) + 500


def test_a_bootstrap_of_some_rows_has_no_others():
    y = (np.arange(300) % 3).astype(np.int32)
    weights = np.linspace(0, 1, 300)
    data = FoldedData(np.zeros((300, 1)), y, y[:0], y[:0], (), Scaling("none"), weights)
    rows = np.arange(0, 300, 2, dtype=np.int32)
    splits = BootstrapSplits(data, 3, seed=9, key=(2, 0), rows=rows)
    validated = np.concatenate([validation for _, validation in splits])
    np.testing.assert_array_equal(np.sort(validated), rows)
    assert all(np.isin(train, rows).all() for train, _ in splits)
    spawned = np.random.default_rng(np.random.SeedSequence(9).spawn(3)[2].spawn(1)[0])
    expected = draw_bootstrap(y[rows], 3, spawned, weights[rows])
    np.testing.assert_array_equal(splits.sample.everything(), rows[expected.everything()])
