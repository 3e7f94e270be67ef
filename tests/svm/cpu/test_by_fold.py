"""Folds that are done before the search is: given as they end, the same whatever the others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold

from pipelines.data.fits import Progress
from pipelines.svm.cpu import by_fold
from pipelines.svm.cpu.by_fold import jobs_in_order, solve_by_fold
from pipelines.svm.cpu.path import cross_validate_path, solve_path

CS, GAMMA = np.logspace(-2, 3, 4), 1e-2
NUMBERS = ("n_errors", "n_support", "n_iterations", "status", "objectives")
# Memory for the kernel of all rows, for half of their products, for the blocks of pairs, and
# for some of their rows.
MEMORY = [4 << 30, 1_500_000, 400_000, 60_000]


@pytest.fixture(autouse=True)
def long(monkeypatch):
    """Everything takes long enough for folds in turns."""
    monkeypatch.setattr(by_fold, "ROWS_FOR_TURNS", 0)


def digits():
    X, y = load_digits(return_X_y=True)
    X, y = (X[:500] / 4).astype(np.float32), y[:500]
    return X, y, list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
@pytest.mark.parametrize("memory_bytes", MEMORY)
def test_a_fold_is_the_same_to_the_last_digit_without_the_others(memory_bytes, decision):
    X, y, folds = digits()
    options = {
        "memory_bytes": memory_bytes,
        "decision": decision,
        "n_threads": 2,
        "return_decisions": True,
    }
    whole = cross_validate_path(X, y, GAMMA, CS, folds, **options)
    selected = cross_validate_path(X, y, GAMMA, CS, folds, only=(1, 3), **options)
    for name in NUMBERS:
        ours, theirs = getattr(whole, name), getattr(selected, name)
        np.testing.assert_array_equal(ours[:, :, [1, 3]], theirs[:, :, [1, 3]])
    np.testing.assert_array_equal(whole.decisions[0][3], selected.decisions[0][3])


@pytest.mark.parametrize("memory_bytes", MEMORY)
def test_folds_are_given_one_by_one_and_the_share_grows(memory_bytes):
    X, y, folds = digits()
    progress = []
    shares = [0.0]
    for item in solve_path(X, y, GAMMA, CS, folds, memory_bytes=memory_bytes, n_threads=1):
        if isinstance(item, Progress):
            shares.append(item.fraction)
            continue
        assert item.n_support
        if item.candidate == 0:
            progress.append((item.split, shares[-1]))
    assert [fold for fold, _ in progress] == [0, 1, 2, 3]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    # None before its problems are solved; the first while others are yet to be.
    assert all(share >= due for (_, share), due in zip(progress, (0.25, 0.5, 0.75, 1), strict=True))
    assert progress[0][1] < 1


def test_small_problems_keep_their_folds_together(monkeypatch):
    monkeypatch.setattr(by_fold, "ROWS_FOR_TURNS", 1000)
    assert jobs_in_order([1, 0], (0, 2), 1000) == [[(1, 0)], [(0, 0)], [(1, 2)], [(0, 2)]]
    assert jobs_in_order([1, 0], (0, 2), 999) == [[(1, 0)], [(1, 2)], [(0, 0)], [(0, 2)]]
    assert jobs_in_order(range(16), (0, 2), 999)[:2] == [[(0, 0), (0, 2)], [(1, 0), (1, 2)]]


def test_an_error_ends_the_search_and_what_is_left_is_not_begun():
    begun = []

    def solve(number, fold):
        begun.append((number, fold))
        raise MemoryError

    jobs = [[(number, fold)] for fold in range(50) for number in range(3)]
    with ThreadPoolExecutor(1) as pool, pytest.raises(MemoryError):
        list(solve_by_fold(jobs, solve, lambda fold: fold, pool))
    assert len(begun) < len(jobs)
