"""The boundary of a grid, and the command that widens it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.svm_search.boundary import most_fits, on_grid_boundary, widening_command
from tests.grids import FOLDS, grid

RUN = Path("run")


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([[0.5, 0.3, 0.10], [0.6, 0.4, 0.2]], ["the largest C", "the smallest gamma"]),
        ([[0.5, 0.11, 0.10], [0.6, 0.4, 0.2]], ["the smallest gamma"]),  # by less than 0.015
        ([[0.5, 0.10, 0.3], [0.6, 0.11, 0.2]], []),
        ([[0.1, 0.3, 0.4]], ["the smallest C"]),
    ],
)
def test_an_edge_counts_where_the_neighbour_is_worse_by_a_standard_error(errors, expected):
    assert [str(edge) for edge in on_grid_boundary(grid(errors, std=0.03), FOLDS)] == expected


def test_a_wider_grid_keeps_its_step_and_ends_at_a_round_number_where_one_is_near():
    candidates = grid([[0.5, 0.3, 0.10]], std=0.03)
    (edge,) = on_grid_boundary(candidates, FOLDS)
    options = {"n_c": 12, "log_c": [-3.0, 2.5], "n_gamma": 3}
    assert widening_command([], options, [edge], RUN) == ("--log-c -3 5 --n-c 17 --extend run", 15)
    options = {"n_c": 8, "log_c": [-3.0, 3.0], "n_gamma": 1}
    assert widening_command([], options, [edge], RUN) == (
        "--log-c -3 5.571428571 --n-c 11 --extend run",
        3,
    )
    options = {"n_c": 8, "log_c": [-2.0, 5.0], "n_gamma": 1}
    assert widening_command([], options, [edge], RUN) == ("--log-c -2 6 --n-c 9 --extend run", 1)


def test_no_grid_is_advised_to_go_beyond_the_largest_c():
    candidates = grid([[0.5, 0.3, 0.10]], std=0.03)
    candidates["C"] *= 1e6 / candidates["C"].max()
    assert on_grid_boundary(candidates, FOLDS) == []


def test_the_wider_grid_holds_every_value_of_this_one():
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
    assert widening_command(argv, options, on_grid_boundary(candidates, FOLDS), RUN) == (
        "pleasingly svm-grid --dataset 'my table.csv' --log-c 0 3 --n-c 4 "
        "--log-gamma -1 1 --n-gamma 3 --extend run",
        6,
    )


def test_values_by_hand_go_on_as_they_are():
    candidates = grid([[0.5, 0.3, 0.10], [0.6, 0.4, 0.2]], std=0.03)  # C = 1, 10, 100
    C, gamma = on_grid_boundary(candidates, FOLDS)
    assert (C.values, gamma.values) == ((1.0, 10.0, 100.0), (1.0, 10.0))
    options = {"c": [1.0, 10.0, 100.0], "gamma": ["scale", 10.0], "n_c": None, "n_gamma": None}
    argv = ["svm", "--c", "1,10,100", "--gamma=scale,10", "--quiet"]
    assert widening_command(argv, options, [C, gamma], RUN) == (
        "svm --quiet --c 1,10,100,1000 --gamma scale,10,0.1 --extend run",
        4 * 3 - 3 * 2,
    )
    mixed = {"c": [1.0, 10.0, 100.0], "n_gamma": 2, "log_gamma": [0.0, 1.0]}
    assert widening_command([], mixed, [gamma], RUN) == (
        "--log-gamma -1 1 --n-gamma 3 --extend run",
        3,
    )


def with_states(states):
    """A grid whose best has the largest C, with candidates that were given up or not tried.

    ``states`` has of C and gamma the state, and how far behind it was.
    """
    table = grid([[0.5, 0.3, 0.10], [0.6, 0.4, 0.2]], std=0.03)
    table = table.assign(stopped="", behind=np.nan)
    for label, row in table.iterrows():
        state, behind = states.get((row["C"], row["gamma"]), ("", np.nan))
        table.loc[label, ["stopped", "behind"]] = state, behind
    table.loc[table["stopped"] != "", ["score_mean", "score_std"]] = np.nan
    return table.sort_values("score_mean", ascending=False, ignore_index=True)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({(10.0, 1.0): ("stopped after 2 of 5 folds, 20.0 points behind", 0.2)}, ["the largest C"]),
        ({(10.0, 1.0): ("stopped after 2 of 5 folds, 1.0 points behind", 0.01)}, []),
        # Nothing is known of it; the next one that was tried is clearly worse.
        (
            {(10.0, 1.0): ("not tried", np.nan), (10.0, 10.0): ("not tried", np.nan)},
            ["the largest C"],
        ),
        ({(10.0, 1.0): ("out of time after 2 of 5 folds", np.nan)}, []),
    ],
)
def test_a_neighbour_that_was_given_up_is_worse_and_one_not_tried_tells_nothing(states, expected):
    ends = on_grid_boundary(with_states(states), FOLDS)
    assert [str(edge) for edge in ends if edge.name == "C"] == expected


def test_a_best_without_all_folds_lies_on_no_boundary():
    table = grid([[0.5, 0.3, 0.10]], std=0.03).assign(
        stopped="out of time after 1 of 5 folds", behind=np.nan
    )
    assert on_grid_boundary(table, FOLDS) == []


def test_a_strategy_needs_at_most_the_fits_of_a_grid():
    metadata = {"n_splits": 5, "options": {"folds": 5, "nested": 3}}
    assert most_fits(metadata, 100) == "2,000 fits"
    assert most_fits(metadata | {"strategy": {"name": "race"}}, 100) == "at most 2,000 fits"
