from __future__ import annotations

from dataclasses import fields

import dask
import numpy as np
import pytest

from pipelines.bagging.reductions import QUANTILES, as_dask_array, hardest_samples, reduce_members


def drawn(n_members=7, n_samples=50, n_classes=4):
    p = np.random.default_rng(3).gamma(0.3, size=(n_members, n_samples, n_classes))
    return (p / p.sum(axis=2, keepdims=True)).astype(np.float32)


def test_reductions_are_those_of_a_loop():
    p = drawn()
    answers = reduce_members(p)
    for sample in range(p.shape[1]):
        counts = [int(np.sum(p[:, sample].argmax(axis=1) == code)) for code in range(4)]
        mean = p[:, sample].astype(float).mean(axis=0)
        most = [code for code in range(4) if counts[code] == max(counts)]
        vote = max(most, key=lambda code: mean[code])
        assert answers.votes[sample].tolist() == counts
        assert answers.vote[sample] == vote
        assert answers.by_mean[sample] == mean.argmax()
        np.testing.assert_allclose(answers.mean[sample], mean, atol=1e-12)
        assert answers.certainty[sample] == pytest.approx(mean[vote])
        assert answers.disagreement[sample] == pytest.approx(1 - counts[vote] / len(p))
        np.testing.assert_allclose(
            answers.quantiles[sample].T, np.quantile(p[:, sample].astype(float), QUANTILES, axis=0)
        )
    assert len(np.unique(answers.vote)) == 4


def test_a_tie_goes_to_the_mean_then_to_the_smaller_class():
    by_mean = [[0.9, 0.1, 0.0], [0.0, 1.0, 0.0]]  # one vote each; class 1 has the larger mean
    equal = [[0.75, 0.0, 0.25], [0.25, 0.0, 0.75]]
    majority = [[0.4, 0.3, 0.3], [0.4, 0.3, 0.3]]
    p = np.array([by_mean, equal, majority]).transpose(1, 0, 2)
    assert reduce_members(p).vote.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("first_class", "deferred"),
    [
        ([0.9, 0.9, 0.9, 0.9], False),
        ([0.9, 0.9, 0.9, 0.1], False),  # three of four agree
        ([0.9, 0.9, 0.9, 0.1, 0.1], True),
        ([0.6, 0.6, 0.6, 0.1], True),  # they agree, and are unsure together
        ([float("nan")] * 4, True),  # of a row beyond single precision
    ],
)
def test_the_rule_refers_what_divides_the_members_or_leaves_them_unsure(first_class, deferred):
    p = np.array([[[value, 1 - value]] for value in first_class])
    assert reduce_members(p).deferred.tolist() == [deferred]


def test_the_hardest_points_are_those_the_members_divide_over():
    sure, unsure = [[0.9, 0.1]] * 2, [[0.6, 0.4]] * 2
    divided, closely = [[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.45, 0.55]]
    p = np.array([sure, divided, unsure, closely]).transpose(1, 0, 2)
    answers = hardest_samples(reduce_members(p), 3)
    assert answers.tolist() == [3, 1, 2]


def test_one_member_and_a_cluster(four_workers, monkeypatch):
    monkeypatch.setattr("pipelines.bagging.reductions.SAMPLES_PER_CHUNK", 8)
    p = drawn()
    here = reduce_members(p)
    (cluster_answers,) = dask.compute(
        reduce_members(as_dask_array(list(p))), scheduler=four_workers
    )
    for field in fields(here):
        np.testing.assert_array_equal(
            getattr(cluster_answers, field.name), getattr(here, field.name)
        )
    alone = reduce_members(p[:1])
    np.testing.assert_array_equal(alone.vote, p[0].argmax(axis=1))
    assert not alone.disagreement.any()
