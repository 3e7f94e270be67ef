"""Votes, and the rows whose class hangs on values that are nearly 0."""

from __future__ import annotations

import numpy as np

from pipelines.svm.cpu.score import pair_decisions, undecided, vote

N_CLASSES = 4
PAIRS = [(a, b) for a in range(N_CLASSES) for b in range(a + 1, N_CLASSES)]


def parts_of(values):
    """Parts that add up to decision values (n_rows, n_pairs, n_C)."""
    parts = np.zeros((N_CLASSES, N_CLASSES, values.shape[2], len(values)))
    for pair, (a, b) in enumerate(PAIRS):
        parts[a, b] = values[:, pair].T
    return parts


def winner(values):
    votes = np.zeros(N_CLASSES, int)
    for (a, b), value in zip(PAIRS, values, strict=True):
        votes[a if value > 0 else b] += 1
    return int(votes.argmax())


def test_the_rows_are_those_whose_winner_the_uncertain_signs_decide():
    generator = np.random.default_rng(0)
    values = generator.normal(size=(600, len(PAIRS), 3))
    values[generator.random(values.shape) < 0.05] *= 1e-6  # uncertain
    within = 1e-3
    by_pair = pair_decisions(parts_of(values), np.zeros((len(PAIRS), 3)))
    np.testing.assert_array_equal(by_pair, values.transpose(1, 2, 0))
    codes = vote(by_pair, N_CLASSES).T
    changeable = set(undecided(by_pair, np.full(3, within), N_CLASSES)[1].tolist())
    for v in range(600):
        near = [(c, p) for c in range(3) for p in range(len(PAIRS)) if abs(values[v, p, c]) < 1e-4]
        changes = False
        for c in range(3):
            free = [p for of, p in near if of == c]
            assert codes[v, c] == winner(values[v, :, c])
            for signs in np.ndindex(*(2,) * len(free)):
                other = values[v, :, c].copy()
                other[free] = np.array(signs) - 0.5
                changes |= winner(other) != codes[v, c]
        assert not changes or v in changeable  # none is missed
        assert v not in changeable or (np.abs(values[v]) < within).any()
    unsure = (np.abs(values) < 1e-4).any(axis=(1, 2)).sum()
    assert 0 < len(changeable) < 0.8 * unsure  # most uncertain signs decide nothing
