"""Intervals against the paper's definition in a double loop, and which rows they keep."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pipelines import InputError
from pipelines.bagging import intervals
from pipelines.bagging.intervals import (
    JackknifeIntervals,
    RunIntervals,
    describe_intervals,
    narrowest,
)
from pipelines.data.model_file import read_model, write_model
from pipelines.nn.member import OutOfBagPrediction


def bagged(n_rows=40, n_members=7, n_new=9, seed=0):
    """Members that say anything: what they left out, the targets, what they say of new rows."""
    rng = np.random.default_rng(seed)
    members = []
    for _ in range(n_members):
        rows = np.setdiff1d(np.arange(n_rows), rng.integers(0, n_rows, n_rows))
        values = rng.normal(size=(len(rows), 1))
        members.append(OutOfBagPrediction(rows, values, np.full(len(rows), np.nan)))
    return members, rng.normal(size=n_rows), rng.normal(size=(n_members, n_new))


def by_the_book(
    members,
    y,
    new,
    confidence,
    by_spread=False,
):
    """Kim, Xu and Barber 2020, algorithm 1, row by row, and by disagreement."""
    lower, upper, spreads = [], [], {}
    for i in range(len(y)):
        outputs = [member.outputs[member.rows == i] for member in members if i in member.rows]
        if outputs:
            spreads[i] = np.std(outputs)
    typical = np.mean(list(spreads.values()))
    for x in range(new.shape[1]):
        below, above = [], []
        for i in range(len(y)):
            ignorant = [b for b, member in enumerate(members) if i in member.rows]
            if not ignorant:
                continue
            at_i = np.mean([members[b].outputs[members[b].rows == i] for b in ignorant])
            residual = abs(y[i] - at_i)
            at_x = np.mean([new[b, x] for b in ignorant])
            if by_spread:
                spread = np.std([new[b, x] for b in ignorant])
                residual *= (spread + typical) / (spreads[i] + typical)
            below.append(at_x - residual)
            above.append(at_x + residual)
        n = len(below)
        rank = math.ceil(round(confidence * (n + 1), 6))
        above.sort()
        below.sort(reverse=True)
        upper.append(above[rank - 1])
        lower.append(below[rank - 1])
    return np.array(lower), np.array(upper)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("n_members", [3, 12])
@pytest.mark.parametrize("by_spread", [False, True])
def test_bounds_are_those_of_the_paper(confidence, n_members, by_spread, monkeypatch):
    members, y, new = bagged(n_members=n_members)
    expected = by_the_book(members, y, new, confidence, by_spread)
    fitted = JackknifeIntervals.of(members, y)
    np.testing.assert_allclose(fitted.bounds(new, confidence, by_spread), expected, atol=1e-12)
    monkeypatch.setattr(intervals, "BLOCK", 90)  # two new rows at a time
    np.testing.assert_allclose(fitted.bounds(new, confidence, by_spread), expected, atol=1e-12)
    assert (n_members == 3) == (fitted.n_drawn_by_all > 0)
    assert len(fitted.truth) + fitted.n_drawn_by_all == 40


@pytest.mark.parametrize("by_spread", [False, True])
def test_an_interval_of_little_confidence_holds_the_mean(by_spread):
    members, y, new = bagged()
    lower, upper = JackknifeIntervals.of(members, y).bounds(new, 0.02, by_spread)
    crossed, _ = by_the_book(members, y, new, 0.1, by_spread)
    assert (crossed > new.mean(axis=0)).any()
    assert ((lower <= new.mean(axis=0)) & (new.mean(axis=0) <= upper)).all()


def test_equal_weights_change_nothing_and_zero_leaves_a_row_out():
    members, y, new = bagged()
    plain = JackknifeIntervals.of(members, y).bounds(new, 0.8)
    np.testing.assert_array_equal(
        JackknifeIntervals.of(members, y, np.full(40, 3)).bounds(new, 0.8), plain
    )
    weights = np.ones(40)
    weights[::5] = 0
    without = [
        OutOfBagPrediction(*(part[weights[member.rows] > 0] for part in member))
        for member in members
    ]
    expected = by_the_book(without, y, new, 0.8)
    weighted = JackknifeIntervals.of(members, y, weights)
    assert len(weighted.truth) == np.sum(weights > 0) - weighted.n_drawn_by_all
    np.testing.assert_allclose(weighted.bounds(new, 0.8), expected, rtol=1e-12)


def test_a_weight_of_two_counts_as_two_rows():
    """Rows that are all there twice, but for the new one, which counts as their mean."""
    left_out, truth = np.ones((4, 1), dtype=bool), np.array([1.0, 2.0, 3.0, 10.0])
    once = JackknifeIntervals(
        left_out, truth, np.zeros(4), np.zeros(4), np.array([1.0, 1.0, 1.0, 3.0])
    )
    # Weights come to 1, 2, 3, 6 of 7.5.
    new = np.zeros((1, 1))
    assert [float(once.bounds(new, c)[1][0]) for c in (0.13, 0.26, 0.39, 0.41, 0.79)] == [
        1.0,
        2.0,
        3.0,
        10.0,
        10.0,
    ]
    assert float(once.bounds(new, 0.26)[0][0]) == -2.0
    with pytest.raises(InputError, match=r"^confidence must be at most 0.8 with 4 out-of-bag rows"):
        once.bounds(new, 0.81)


def test_targets_far_from_zero_lose_no_digits():
    members, y, new = bagged()
    far, scale = 1e9, 1e-3
    moved = [member._replace(outputs=member.outputs * scale + far) for member in members]
    for by_spread in (False, True):
        fitted = JackknifeIntervals.of(moved, y * scale + far)
        bounds = np.stack(fitted.bounds(new * scale + far, by_spread=by_spread))
        plain = np.stack(JackknifeIntervals.of(members, y).bounds(new, by_spread=by_spread))
        np.testing.assert_allclose((bounds - far) / scale, plain, atol=1e-2)


def test_coverage_where_everything_is_known():
    """Members that all say 0 of noise alone: quantiles of the noise, at every confidence."""
    rng = np.random.default_rng(3)
    y, fresh = rng.normal(size=400), rng.normal(size=20_000)
    members = [
        OutOfBagPrediction(np.arange(400), np.zeros((400, 1)), np.zeros(400)) for _ in range(2)
    ]
    fitted = JackknifeIntervals.of(members, y)
    for confidence in (0.5, 0.8, 0.9, 0.99):
        lower, upper = fitted.bounds(np.zeros((2, len(fresh))), confidence)
        covered = np.mean((lower <= fresh) & (fresh <= upper))
        assert covered == pytest.approx(confidence, abs=0.03)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, math.nan])
def test_a_confidence_that_is_none_is_refused(confidence):
    members, y, new = bagged()
    with pytest.raises(InputError, match=r"^confidence must lie between 0 and 1, got .*; use conf"):
        JackknifeIntervals.of(members, y).bounds(new, confidence)


def test_too_few_rows_for_a_confidence():
    members, y, new = bagged(n_rows=10)
    fitted = JackknifeIntervals.of(members, y)
    n = len(fitted.truth)
    assert fitted.bounds(new, n / (n + 1))[0].shape == (9,)  # the largest there is
    with pytest.raises(InputError, match=rf"^confidence must be at most .* with {n} out-of-bag"):
        fitted.bounds(new, 0.99)
    none = JackknifeIntervals.of([], y)
    with pytest.raises(
        InputError, match=r"^intervals need rows that a member left out, got none of 10"
    ):
        none.bounds(np.empty((0, 3)), 0.5)


def test_what_is_stored_gives_the_same_bounds(tmp_path):
    members, y, new = bagged()
    fitted = JackknifeIntervals.of(members, y)
    write_model(tmp_path / "intervals.safetensors", fitted.arrays(), {})
    arrays, _ = read_model(tmp_path / "intervals.safetensors")
    stored = JackknifeIntervals.from_arrays(arrays)
    assert stored.n_drawn_by_all == fitted.n_drawn_by_all
    np.testing.assert_array_equal(stored.bounds(new), fitted.bounds(new))
    with pytest.raises(ValueError, match="do not belong together"):
        JackknifeIntervals.from_arrays({**arrays, "intervals.weights": np.ones(3)})
    with pytest.raises(ValueError, match="have no members"):
        JackknifeIntervals.from_arrays({**arrays, "intervals.left_out": np.ones(len(y))})


def test_the_narrowest_are_kept():
    lower, upper = np.zeros(5), np.array([3.0, 1.0, 2.0, 1.0, 4.0])
    assert narrowest(lower, upper, share=0.4).tolist() == [False, True, False, True, False]
    assert narrowest(lower, upper, share=0.2).tolist() == [False, True, False, False, False]
    assert narrowest(lower, upper, share=0.59).sum() == 2
    assert narrowest(lower, upper, share=1).all()
    assert narrowest(lower, upper, width=2.0).tolist() == [False, True, True, True, False]
    assert narrowest(lower[:0], upper[:0], share=0.5).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "^exactly one of share and width must say .* got none; give one$"),
        ({"share": 0.5, "width": 1.0}, "got both; give one$"),
        ({"share": 0.0}, "^share must be above 0 and at most 1, got 0.0; use share=0.9 "),
        ({"share": math.nan}, "^share must be"),
        ({"width": -1.0}, "^width must be at least 0, got -1.0"),
        ({"width": math.nan}, "^width must be at least 0, got nan"),
    ],
)
def test_what_keeps_no_rows_is_refused(arguments, says):
    with pytest.raises(InputError, match=says):
        narrowest(np.zeros(3), np.ones(3), **arguments)


def test_what_a_run_says_of_intervals():
    lower, upper = np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 3.0, 5.0, 9.0])
    summary = describe_intervals(np.array([1.0, 0.0, 4.0, 8.0]), lower, upper, 0.8)
    assert summary == {
        "confidence": 0.8,
        "n_test": 4,
        "n_covered": 3,
        "coverage": 0.75,
        "mean_width": 3.0,
        "median_width": 2.5,
    }


def test_rows_of_a_run_are_kept_by_their_width():
    members, y, new = bagged()
    jackknife = JackknifeIntervals.of(members, y)
    columns = RunIntervals(jackknife, 0.8).columns(new)
    assert list(columns) == ["lower", "upper"]
    width = float(np.median(columns["upper"] - columns["lower"]))
    kept = RunIntervals(jackknife, 0.8, width).columns(new)["kept"]
    assert kept.tolist() == (columns["upper"] - columns["lower"] <= width).tolist()
