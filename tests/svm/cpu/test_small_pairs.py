"""Many small classes, whose pairs are solved in one call: the same as pair by pair, and as SVC."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from pipelines.svm.cpu import in_memory, small_pairs
from pipelines.svm.cpu.path import cross_validate_path
from pipelines.svm.search import search_folds
from pipelines.svm.settings import Settings

CS, GAMMA = [0.1, 3.0, 1e4], 0.05


RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(8), 12)
X = RNG.normal(size=(8, 4))[Y] + RNG.normal(size=(len(Y), 4))
# Of the first fold class 3 has no row to train on; the second draws rows more than once.
FOLDS = [
    (np.flatnonzero((Y != 3) & (np.arange(len(Y)) % 3 > 0)), np.arange(0, len(Y), 3)),
    (np.repeat(np.arange(0, len(Y), 2), 1 + np.arange(len(Y) // 2) % 2), np.arange(1, len(Y), 2)),
]


def both(monkeypatch, **options):
    """The result of the pairs together, and of each by itself."""

    def fit_path():
        return cross_validate_path(
            X, Y, GAMMA, CS, FOLDS, n_threads=1, return_decisions=True, **options
        )

    together = fit_path()
    monkeypatch.setattr(in_memory, "has_small_pairs", lambda search: False)
    return together, fit_path()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"class_weight": "balanced"},
        {"kernel": "sigmoid", "coef0": -1.0},
        {"kernel": "linear", "tol": 1e-6},  # its largest C is hard
        {"sample_weight": 0.5 + np.arange(len(Y)) % 3},
        {"max_iter": 7},
    ],
    ids=["rbf", "balanced", "sigmoid", "hard", "weighted", "limited"],
)
def test_pairs_together_are_as_each_by_itself(monkeypatch, options):
    together, alone = both(monkeypatch, **options)
    np.testing.assert_allclose(together.objectives, alone.objectives, rtol=1e-5)
    np.testing.assert_array_equal(together.status, alone.status)
    assert together.decisions is not None
    assert alone.decisions is not None
    for decisions, other in zip(together.decisions[0], alone.decisions[0], strict=True):
        np.testing.assert_allclose(decisions, other, atol=5e-2 if "max_iter" in options else 5e-3)
    assert (together.fit_seconds > 0).all()


def test_more_threads_than_folds_change_no_bit():
    """Pairs of a few hundred rows, shared out over threads class by class."""
    digits = load_digits()
    rows = np.flatnonzero(digits.target < 5)
    X, y = digits.data[rows], digits.target[rows]
    folds = list(StratifiedKFold(2).split(X, y))
    assert small_pairs.has_small_pairs(search_folds(y, np.ones(1), folds, Settings())[0])
    alone, shared = (
        cross_validate_path(X, y, 1e-3, CS, folds, n_threads=n, return_decisions=True)
        for n in (1, 4)
    )
    np.testing.assert_array_equal(alone.objectives, shared.objectives)
    for of_alone, of_shared in zip(alone.decisions[0], shared.decisions[0], strict=True):
        np.testing.assert_array_equal(of_alone, of_shared)
    for number, (train, test) in enumerate(folds):
        for c, C in enumerate(CS):
            theirs = SVC(C=C, gamma=1e-3).fit(X[train], y[train]).predict(X[test])
            assert np.count_nonzero(alone.predictions[0][number][c] != theirs) <= 1


def test_rows_are_sorted_with_their_numbers():
    values = np.random.default_rng(0).integers(0, 50, 300).astype(np.float64)
    numbers = np.arange(300)
    before = values.copy()
    small_pairs._sort(values, numbers)
    assert (np.diff(values) >= 0).all()
    np.testing.assert_array_equal(before[numbers], values)
