import hypothesis
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold, train_test_split

from pipelines.data.folds import make_folds, split_test, stratified_subset

SEEDS = st.integers(0, 2**32 - 1)


def codes(counts, seed=0):
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


@settings(deadline=None)
@hypothesis.given(
    counts=st.lists(st.integers(5, 40), min_size=1, max_size=12),
    n_folds=st.integers(2, 5),
    seed=SEEDS,
)
def test_folds_are_those_of_scikit_learn(counts, n_folds, seed):
    y = codes(counts, seed)
    theirs = StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(y, y)
    for ours, (train, validation) in zip(make_folds(y, n_folds, seed), theirs, strict=True):
        np.testing.assert_array_equal(ours[0], train)
        np.testing.assert_array_equal(ours[1], validation)


@pytest.mark.parametrize("n_folds", [1, 0, -3])
def test_too_few_folds(n_folds, refused):
    message = refused(lambda: make_folds(codes([9, 9]), n_folds, 0))
    assert message == f"--folds must be at least 2, got {n_folds}"


def test_class_with_fewer_rows_than_folds(refused):
    classes = np.array(["cat", "dog", "emu"])
    y = codes([9, 9, 3])
    words = ["--folds", "got 5", "'emu' has 3", "--folds 3", "--limit"]
    refused(lambda: make_folds(y, 5, 0, classes), *words)
    refused(lambda: make_folds(y, 5, 0), "class '2' has 3")
    message = refused(lambda: make_folds(codes([9, 1]), 2, 0), "class '1' has 1")
    assert "use --folds" not in message


@settings(deadline=None)
@hypothesis.given(
    counts=st.lists(st.integers(10, 40), min_size=2, max_size=9),
    test_size=st.floats(0.2, 0.8),
    seed=SEEDS,
)
def test_test_split_is_that_of_scikit_learn(counts, test_size, seed):
    y = codes(counts, seed)
    train, test = split_test(y, test_size, seed, np.arange(len(counts)))
    theirs = train_test_split(np.arange(len(y)), test_size=test_size, random_state=seed, stratify=y)
    np.testing.assert_array_equal(train, theirs[0])
    np.testing.assert_array_equal(test, theirs[1])


@pytest.mark.parametrize("test_size", [0, 1, -0.1, 1.5, float("nan")])
def test_test_size_out_of_bounds(test_size, refused):
    words = ["--test-size", "between 0 and 1", str(test_size)]
    refused(lambda: split_test(codes([9, 9]), test_size, 0, np.arange(2)), *words)


def test_test_size_that_cannot_be_stratified(refused):
    def split(counts, test_size):
        return lambda: split_test(codes(counts), test_size, 0, np.array(["a", "b", "c"]))

    refused(split([9, 9, 9], 0.05), "--test-size", "0.05", "2 of 27", "3 classes")
    refused(split([9, 9, 9], 0.95), "--test-size", "0.95", "1 of 27", "3 classes")
    refused(split([500, 500, 2], 0.95), "--test-size", "0.95", "training row", "'c'")


@settings(deadline=None)
@hypothesis.given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=8), share=st.floats(0, 1), seed=SEEDS
)
def test_subset_keeps_the_proportions(counts, share, seed):
    y = codes(counts, seed)
    limit = len(counts) + round(share * (len(y) - len(counts)))
    rows = stratified_subset(y, limit, seed)
    assert len(rows) == limit
    assert (np.diff(rows) > 0).all()  # each once, in the original order
    taken = np.bincount(y[rows], minlength=len(counts))
    exact = np.array(counts) * limit / len(y)
    assert (taken >= 1).all()
    if (exact >= 1).all():
        assert (abs(taken - exact) < 1 + 1e-9).all()
    np.testing.assert_array_equal(rows, stratified_subset(y, limit, seed))


@pytest.mark.parametrize("limit", [None, 30, 31, 10**9])
def test_large_limit_takes_all(limit):
    np.testing.assert_array_equal(stratified_subset(codes([10, 20]), limit, 0), np.arange(30))


@pytest.mark.parametrize("limit", [2, 1, 0, -5])
def test_limit_below_the_number_of_classes(limit, refused):
    words = ["--limit", "at least 3", f"got {limit}", "all 27"]
    refused(lambda: stratified_subset(codes([9, 9, 9]), limit, 0), *words)
