from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from pipelines.run_folder.statistics import (
    interval,
    on_grid_boundary,
    standard_error,
    widen,
    wilson,
    within_one_standard_error,
)

FOLDS = 5

RUN = Path("run")


def grid(errors: list[list[float]], std: float) -> pd.DataFrame:
    """Candidates, best first, of errors by gamma (rows) and C (columns)."""
    rows = [
        {
            "C": 10.0**c,
            "gamma": 10.0**g,
            "error_mean": error,
            "error_std": std,
            "score_mean": 1 - error,
            "score_std": std,
        }
        for g, row in enumerate(errors)
        for c, error in enumerate(row)
    ]
    table = pd.DataFrame(rows).sort_values(["error_mean", "C", "gamma"], ignore_index=True)
    return table.assign(rank=range(1, len(table) + 1))


@pytest.mark.parametrize(("wrong", "points"), [(0, 30), (17, 360), (30, 30), (1, 1)])
def test_the_interval_is_wilsons(wrong: int, points: int) -> None:
    found = binomtest(wrong, points).proportion_ci(method="wilson")
    assert wilson(wrong, points) == pytest.approx((found.low, found.high), abs=1e-9)


def test_none_wrong_is_not_nothing() -> None:
    assert interval(0, 30) == "95 % interval 0 to 11.35 %"
    assert interval(0, 100_000) == "95 % interval 0 to 0.0038 %"


def test_the_standard_error_is_that_of_the_corrected_deviation() -> None:
    values = np.array([0.1, 0.3, 0.2, 0.15, 0.4])
    usual = values.std(ddof=1) / np.sqrt(len(values))
    assert standard_error(values.std(ddof=0), len(values)) == pytest.approx(usual)


def test_ties_and_the_simplest_within_one_standard_error() -> None:
    candidates = grid([[0.30, 0.11, 0.10], [0.31, 0.10, 0.13]], std=0.03)  # error 0.015
    marks = within_one_standard_error(candidates, FOLDS, ("C", "gamma"))
    assert marks == ["best", "tied", "within 1 SE, simplest", "", "", ""]
    assert candidates.loc[2, ["C", "gamma"]].tolist() == [10.0, 1.0]


def test_alone_the_best_is_the_simplest() -> None:
    candidates = grid([[0.3, 0.1]], std=0.0)
    assert within_one_standard_error(candidates, FOLDS, ("C", "gamma")) == ["best", ""]
    assert within_one_standard_error(candidates * np.nan, FOLDS, ("C", "gamma")) is None


@pytest.mark.parametrize(
    ("errors", "found"),
    [
        ([[0.5, 0.3, 0.10], [0.6, 0.4, 0.2]], ["the largest C", "the smallest gamma"]),
        ([[0.5, 0.11, 0.10], [0.6, 0.4, 0.2]], ["the smallest gamma"]),  # by less than 0.015
        ([[0.5, 0.10, 0.3], [0.6, 0.11, 0.2]], []),
        ([[0.1, 0.3, 0.4]], ["the smallest C"]),
    ],
)
def test_an_edge_counts_where_the_neighbour_is_worse_by_a_standard_error(
    errors: list[list[float]], found: list[str]
) -> None:
    assert [str(edge) for edge in on_grid_boundary(grid(errors, std=0.03), FOLDS)] == found


def test_a_wider_grid_keeps_its_step_and_ends_at_a_round_number_where_one_is_near() -> None:
    candidates = grid([[0.5, 0.3, 0.10]], std=0.03)
    (edge,) = on_grid_boundary(candidates, FOLDS)
    options = {"n_c": 12, "log_c": [-3.0, 2.5], "n_gamma": 3}
    assert widen([], options, [edge], RUN) == ("--log-c -3 5 --n-c 17 --extend run", 15)
    options = {"n_c": 8, "log_c": [-3.0, 3.0], "n_gamma": 1}
    assert widen([], options, [edge], RUN) == ("--log-c -3 5.571428571 --n-c 11 --extend run", 3)
    options = {"n_c": 8, "log_c": [-2.0, 5.0], "n_gamma": 1}
    assert widen([], options, [edge], RUN) == ("--log-c -2 6 --n-c 9 --extend run", 1)


def test_no_grid_is_advised_to_go_beyond_the_largest_c() -> None:
    candidates = grid([[0.5, 0.3, 0.10]], std=0.03)
    candidates["C"] *= 1e6 / candidates["C"].max()
    assert on_grid_boundary(candidates, FOLDS) == []


def test_the_wider_grid_holds_every_value_of_this_one() -> None:
    candidates = grid([[0.5, 0.3, 0.10], [0.6, 0.4, 0.2]], std=0.03)
    options = {"n_c": 3, "log_c": [0.0, 2.0], "n_gamma": 2, "log_gamma": [0.0, 1.0]}
    argv = [
        "python",
        "-m",
        "pipelines.svm_grid",
        "--n-c=3",
        "--log-c",
        "0",
        "2",
        "--dataset",
        "my table.csv",
        "--results",
        "here",
    ]
    assert widen(argv, options, on_grid_boundary(candidates, FOLDS), RUN) == (
        "pleasingly svm-grid --dataset 'my table.csv' --log-c 0 3 --n-c 4 "
        "--log-gamma -1 1 --n-gamma 3 --extend run",
        6,
    )
