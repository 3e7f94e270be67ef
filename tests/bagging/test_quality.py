from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from pipelines.bagging.answer import SUBSETS, describe_quality, size_errors
from pipelines.bagging.reductions import reduce_members


def drawn(n_members, n_samples=200):
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 3, n_samples)
    logits = 1.2 * np.eye(3)[truth] + rng.normal(size=(n_members, n_samples, 3))
    p = np.exp(logits)
    return p / p.sum(axis=2, keepdims=True), truth


def test_errors_of_every_size_over_all_subsets_of_few_members():
    p, truth = drawn(4)
    table = size_errors(p, truth, seed=0)
    assert table.groupby("size").vote_error.count().to_dict() == {1: 4, 2: 6, 3: 4, 4: 1}
    alone = (p.argmax(axis=2) != truth).mean(axis=1)
    np.testing.assert_allclose(table[table["size"] == 1].vote_error, alone)
    pairs = [
        np.mean(p[list(pair)].mean(axis=0).argmax(axis=1) != truth)
        for pair in combinations(range(4), 2)
    ]
    np.testing.assert_allclose(table[table["size"] == 2].mean_error, pairs)
    whole = reduce_members(p)
    assert table.vote_error.iloc[-1] == np.mean(whole.vote != truth)


def test_many_members_are_drawn_from_and_the_seed_decides():
    p, truth = drawn(14, 30)
    table = size_errors(p, truth, seed=1)
    counts = table.groupby("size").vote_error.count()
    assert counts[1] == 14
    assert counts[7] == SUBSETS
    assert counts[14] == 1
    assert table.equals(size_errors(p, truth, seed=1))
    assert not table.equals(size_errors(p, truth, seed=2))


def test_facts_count_errors_and_what_is_kept():
    p, truth = drawn(5)
    answers = reduce_members(p)
    about = describe_quality(answers, truth)
    assert about["n_vote_errors"] == np.sum(answers.vote != truth)
    assert about["mean_test_error"] == np.mean(p.mean(axis=0).argmax(axis=1) != truth)
    agree = (p.argmax(axis=2) == answers.vote).sum(axis=0) >= 4  # of 5: at least 3 in 4
    kept = agree & (answers.certainty >= 0.5)
    assert about["selective_prediction"]["n_kept"] == kept.sum()
    assert about["selective_prediction"]["n_wrong_kept"] == np.sum(kept & (answers.vote != truth))
    assert 0 < about["test_calibration_error"] < 1
    gold = -np.mean(np.log(p.mean(axis=0)[np.arange(len(truth)), truth]))
    assert about["test_log_loss"] == pytest.approx(gold)
