"""The grid asks for all at once, coarse values first."""

from __future__ import annotations

from pipelines.search.candidates import grid_candidates
from pipelines.search.strategies.base import Scope
from pipelines.search.strategies.grid import Grid, halving_levels

from .made_up import accuracies, play, scope


def test_every_candidate_is_asked_for_on_every_split():
    requested_cells = play(Grid(scope(6, 3, 2)), accuracies([0.5] * 6, 3))
    assert sorted(requested_cells) == [(i, split, 1.0) for i in range(6) for split in range(3)]


def test_coarse_values_come_first():
    parameters = grid_candidates({"C": [1.0] * 1, "gamma": [10.0**i for i in range(7)]})
    levels = halving_levels(parameters)
    assert [levels[i] for i in range(7)] == [2, 1, 2, 0, 2, 1, 2]
    (requests,) = Grid(Scope([[i] for i in range(7)], 5, 100, parameters=parameters)).rounds()
    assert [request.candidates for request in requests][:3] == [(3,), (1,), (5,)]


def test_a_group_comes_as_early_as_its_coarsest_candidate():
    parameters = grid_candidates({"C": [0.1, 1.0, 10.0], "gamma": [0.1, 1.0, 10.0]})
    groups = [[0, 3, 6], [1, 4, 7], [2, 5, 8]]  # by gamma
    (requests,) = Grid(Scope(groups, 5, 100, parameters=parameters)).rounds()
    assert requests[0].candidates == (1, 4, 7)
