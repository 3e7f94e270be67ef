from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from pipelines.run_folder.statistics import (
    interval,
    standard_error,
    wilson,
    within_one_standard_error,
)
from tests.grids import FOLDS, grid


@pytest.mark.parametrize(("wrong", "points"), [(0, 30), (17, 360), (30, 30), (1, 1)])
def test_the_interval_is_wilsons(wrong, points):
    reference = binomtest(wrong, points).proportion_ci(method="wilson")
    assert wilson(wrong, points) == pytest.approx((reference.low, reference.high), abs=1e-9)


def test_none_wrong_is_not_nothing():
    assert interval(0, 30) == "95 % interval 0 to 11.35 %"
    assert interval(0, 100_000) == "95 % interval 0 to 0.0038 %"


def test_the_standard_error_is_that_of_the_corrected_deviation():
    values = np.array([0.1, 0.3, 0.2, 0.15, 0.4])
    usual = values.std(ddof=1) / np.sqrt(len(values))
    assert standard_error(values.std(ddof=0), len(values)) == pytest.approx(usual)


def test_ties_and_the_simplest_within_one_standard_error():
    candidates = grid([[0.30, 0.11, 0.10], [0.31, 0.10, 0.13]], std=0.03)  # error 0.015
    marks = within_one_standard_error(candidates, FOLDS, ("C", "gamma"))
    assert marks == ["best", "tied", "within 1 SE, simplest", "", "", ""]
    assert candidates.loc[2, ["C", "gamma"]].tolist() == [10.0, 1.0]


def test_alone_the_best_is_the_simplest():
    candidates = grid([[0.3, 0.1]], std=0.0)
    assert within_one_standard_error(candidates, FOLDS, ("C", "gamma")) == ["best", ""]
    assert within_one_standard_error(candidates * np.nan, FOLDS, ("C", "gamma")) is None


def test_only_candidates_with_all_folds_are_as_good_or_tied():
    states = ["", "stopped after 4 of 5 folds, 0.1 points behind", "", "", "", ""]
    candidates = grid([[0.30, 0.11, 0.10], [0.31, 0.10, 0.13]], std=0.03).assign(stopped=states)
    marks = within_one_standard_error(candidates, FOLDS, ("C", "gamma"))
    assert marks == ["best", "", "within 1 SE, simplest", "", "", ""]
    early = candidates.assign(stopped="out of time after 1 of 5 folds")
    assert within_one_standard_error(early, FOLDS, ("C", "gamma")) is None
