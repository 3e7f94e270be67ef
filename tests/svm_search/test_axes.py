"""Values of C, gamma and epsilon: by hand, and what scale and auto are on the rows of a search."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import RegularGridInterpolator
from scipy.stats import qmc
from sklearn.svm import SVC

from pipelines.data.load import load_dataset
from pipelines.data.placement import FoldedData
from pipelines.errors import InputError
from pipelines.svm_grid import Options
from pipelines.svm_search import axes
from pipelines.svm_search.axes import (
    axes_of,
    axis_by_hand,
    check_values,
    draw_points,
    gamma_in_numbers,
    n_gammas_of,
    read_values,
)

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
STUDY = RESULTS / "2026-11-23-svm_grid-mnist" / "cv_results.parquet"
DIGITS = load_dataset("digits", limit=300)


def test_numbers_and_words_are_read_as_they_are_typed():
    assert read_values("0.1, 1,1e3") == (0.1, 1.0, 1000.0)
    assert read_values("scale,0.01") == ("scale", 0.01)
    assert read_values("") == ()


@pytest.mark.parametrize("word", ["scale", "auto"])
def test_a_word_is_scikit_learns_gamma(word, monkeypatch):
    X = FoldedData.of(DIGITS, []).scaled("cpu")
    expected = SVC(gamma=word).fit(X, DIGITS.y_train)._gamma
    assert gamma_in_numbers(word, DIGITS) == pytest.approx(expected, rel=1e-6)
    monkeypatch.setattr(axes, "ROWS_AT_ONCE", 7)
    assert gamma_in_numbers(word, DIGITS) == pytest.approx(expected, rel=1e-6)


def test_rows_without_spread_have_a_gamma():
    flat = replace(DIGITS, X_train=np.full_like(DIGITS.X_train, 3))
    assert gamma_in_numbers("scale", flat) == 1.0


def test_an_axis_by_hand_is_in_order_and_of_numbers():
    scale = gamma_in_numbers("scale", DIGITS)
    assert axis_by_hand("gamma", (1.0, "scale", 1e-5), DIGITS) == (1e-5, scale, 1.0)
    with pytest.raises(InputError, match=rf"got scale and {scale}, both"):
        axis_by_hand("gamma", ("scale", scale), DIGITS)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("c", (), "c must be numbers from 1e-30 to 1e+30 with commas between them, got none; for"),
        ("c", (1.0, 0.0), "got 0; for instance c='0.1,1,10'"),
        ("c", (float("inf"),), "got inf"),
        ("c", (float("nan"),), "got nan"),
        ("c", ("scale",), "got 'scale'"),
        ("gamma", ("scal",), "numbers from 1e-30 to 1e+30, scale or auto, with commas"),
        ("gamma", ("scale", 0.1, "scale"), "gamma must be different values, got scale twice"),
        ("c", (1.0, 1.0 + 1e-12), "got 1.0 and 1.000000000001, both 1; leave one of them out"),
        ("epsilon", (-0.1,), "epsilon must be numbers from 0 to 1e+30"),
    ],
)
def test_what_is_no_value_is_refused(name, values, words):
    with pytest.raises(InputError, match=re.escape(words)):
        check_values(name, values)


def test_epsilon_may_be_0():
    check_values("epsilon", (0.0, 0.1))


def test_the_record_has_what_the_rows_decided_and_nothing_beside_values_by_hand():
    grid, chosen = axes_of(Options(c=(10.0, 0.1), n_gamma=2), DIGITS)
    assert grid["C"] == (0.1, 10.0)
    assert len(grid["gamma"]) == 2
    assert set(chosen) == {"n_gamma", "log_gamma"}
    grid, chosen = axes_of(Options(), DIGITS)
    assert [len(values) for values in grid.values()] == [8, 8]
    assert chosen["n_c"] == 8
    grid, chosen = axes_of(Options(kernel="linear", n_gamma=5), DIGITS)
    assert len(grid["gamma"]) == chosen["n_gamma"] == 1


def drawn(**options):
    points, chosen = draw_points(Options(strategy="random", **options), DIGITS)
    assert set(chosen) == {"log_c", "log_gamma"}
    return points


def test_few_gammas_are_drawn_with_several_c_each():
    points = drawn(log_c=(-3.0, 6.0), log_gamma=(-6.0, -2.0))
    by_gamma = Counter(point["gamma"] for point in points)
    assert sorted(by_gamma.values()) == [3] * 4 + [4] * 12
    parts = np.floor(4 * (np.log10(list(by_gamma)) + 6)).astype(int)
    assert parts.tolist() == list(range(16)), "each has a part of its own of the bounds"
    Cs = np.log10([point["C"] for point in points])
    assert len(set(Cs)) == 60
    assert np.histogram(Cs, bins=8, range=(-3, 6))[0].min() >= 6
    unit = [((np.log10(p["C"]) + 3) / 9, (np.log10(p["gamma"]) + 6) / 4) for p in points]
    assert qmc.discrepancy(unit) < 0.0025, "of plain draws it is 0.006"
    assert points == drawn(log_c=(-3.0, 6.0), log_gamma=(-6.0, -2.0))
    assert points != drawn(log_c=(-3.0, 6.0), log_gamma=(-6.0, -2.0), seed=1)


def test_on_the_study_s_grid_few_gammas_are_as_good_as_plain_draws():
    cells = pd.read_parquet(STUDY, columns=["C", "gamma", "error"])
    errors = cells.groupby(["gamma", "C"])["error"].mean().unstack()
    axes_of_study = np.log10(errors.index), np.log10(errors.columns)
    error = RegularGridInterpolator(axes_of_study, errors.to_numpy())
    bounds = {"log_c": (-3.0, 6.0), "log_gamma": (-6.0, -2.0)}

    def behind(**how):
        lowest_errors = [
            error([(np.log10(point["gamma"]), np.log10(point["C"])) for point in points]).min()
            for points in (drawn(seed=seed, **bounds, **how) for seed in range(20))
        ]
        return 100 * (float(np.mean(lowest_errors)) - float(errors.min().min()))

    assert behind() < 0.02
    assert behind(sampler="plain", n_iter=16) > 0.02, "at the price of as many gamma"


@pytest.mark.parametrize("n", [1, 2, 3, 7, 60, 61, 1000])
def test_as_many_are_drawn_as_were_asked_for(n):
    points = drawn(n_iter=n)
    assert len(points) == n
    assert len({point["gamma"] for point in points}) == min(n, n_gammas_of(n))


def test_plain_draws_have_each_a_gamma_of_its_own():
    points = drawn(sampler="plain", n_iter=20)
    assert len({point["gamma"] for point in points}) == 20
    longer = drawn(sampler="plain", n_iter=30)
    assert {*map(str, points)} < {*map(str, longer)}, "a longer run extends a shorter one"


def test_a_linear_kernel_has_one_gamma():
    points = drawn(kernel="linear", n_iter=9)
    assert len({point["gamma"] for point in points}) == 1
    assert len({point["C"] for point in points}) == 9


def test_bounds_of_one_value_are_that_value():
    assert {point["gamma"] for point in drawn(log_gamma=(-2.0, -2.0), n_iter=8)} == {0.01}


def test_numbers_have_an_epsilon():
    table = replace(DIGITS, task="regression", classes=np.array([]))
    points, chosen = draw_points(Options(strategy="random", n_iter=60), table)
    assert chosen["log_epsilon"] == (-2.0, 0.0)
    assert len({(point["gamma"], point["epsilon"]) for point in points}) == 16
    assert all(0.01 <= point["epsilon"] <= 1 for point in points)
