"""Candidates drawn by scores: better than by chance, and the same whoever ends first."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from pipelines.errors import InputError
from pipelines.search.spaces import Branch
from pipelines.search.strategies.base import Cell, Scope
from pipelines.search.strategies.tpe import TPE, CandidateSource

Parameters = Mapping[str, Any]
Objective = Callable[[Parameters], float | None]
N_SPLITS = 2


SVM = Branch.of({"C": {"log": [1e-3, 1e6]}, "gamma": {"log": [1e-6, 1e-2]}})


def of_svm(parameters):
    """Best at C = 20, gamma = 0.0006."""
    return (
        -((math.log10(parameters["C"]) - 1.3) ** 2) / 4
        - (math.log10(parameters["gamma"]) + 3.2) ** 2
    )


class Search:
    """A search whose rows come in an order by chance, or as they are asked for."""

    def __init__(self, spaces, n_iter, seed=0):
        self.drawn = list[Parameters]()
        sources = [CandidateSource(branches, self.add) for branches in spaces]
        self.strategy = TPE(Scope((), N_SPLITS, 100, seed), sources, n_iter)
        self.most_waiting = 0

    def add(self, parameters):
        self.drawn.append(dict(parameters))
        return len(self.drawn) - 1

    def row(self, cell, objective):
        candidate, split, share = cell
        score = objective(self.drawn[candidate])
        row = {"candidate": candidate, "split": split, "share": share, "score": score}
        return row | ({} if score is None else {"score": score + 0.01 * split})

    def run(self, objective, order=None):
        waiting = list[Cell]()
        while (requests := self.strategy.ask()) is not None:
            waiting += (cell for request in requests for cell in request.cells)
            assert waiting
            self.most_waiting = max(self.most_waiting, len(waiting))
            position = 0 if order is None else int(order.integers(len(waiting)))
            self.strategy.tell([self.row(waiting.pop(position), objective)])
        assert not waiting


def best_of(parameters, objective):
    return max(map(objective, parameters))


def by_chance(n, seed):
    generator = np.random.default_rng(seed)
    exponents = generator.uniform([-3, -6], [6, -2], (n, 2))
    return [{"C": 10**C, "gamma": 10**gamma} for C, gamma in exponents.tolist()]


def test_it_finds_better_candidates_than_chance():
    ours, theirs = list[float](), list[float]()
    for seed in range(8):
        search = Search([[SVM]], 60, seed)
        search.run(of_svm)
        assert len(search.drawn) == 60
        ours.append(best_of(search.drawn, of_svm))
        theirs.append(best_of(by_chance(60, seed), of_svm))
    assert np.median(ours) > np.median(theirs) / 3
    assert sum(our > other for our, other in zip(ours, theirs, strict=True)) >= 6


def test_the_candidates_are_the_same_in_whatever_order_rows_come():
    first, second, third = (Search([[SVM]], 24) for _ in range(3))
    first.run(of_svm)
    second.run(of_svm, np.random.default_rng(1))
    third.run(of_svm, np.random.default_rng(2))
    assert first.drawn == second.drawn == third.drawn
    assert list(first.strategy.requested_cells) == list(third.strategy.requested_cells)
    other = Search([[SVM]], 24, seed=1)
    other.run(of_svm)
    assert other.drawn != first.drawn


def test_a_straggler_does_not_stop_the_others():
    search = Search([[SVM]], 24)
    window = search.strategy.window
    assert window == 4
    cells = [cell for request in search.strategy.ask() or () for cell in request.cells]
    assert sorted({candidate for candidate, *_ in cells}) == list(range(window))
    late = [cell for cell in cells if cell[0] == 1]
    search.strategy.tell([search.row(cell, of_svm) for cell in cells if cell not in late])
    # The next needs the first, whose rows are there; that after it needs the second.
    (request,) = search.strategy.ask() or ()
    assert request.candidates == (window,)
    assert search.strategy.ask() == []
    search.strategy.tell([search.row(cell, of_svm) for cell in late])
    assert len(search.strategy.ask() or ()) == 3


def test_a_resumed_search_draws_the_same_and_asks_only_for_what_is_left():
    whole, resumed = Search([[SVM]], 24), Search([[SVM]], 24)
    whole.run(of_svm, np.random.default_rng(0))
    finished_rows = [
        row for cell, row in whole.strategy.rows.items() if cell[0] < 12 and cell[:2] != (5, 1)
    ]
    resumed.strategy.tell(finished_rows)
    requests = resumed.strategy.ask()
    assert requests is not None
    # The sixth lacks a split, so that those that are drawn by it are still to come.
    assert len(requests) == 5 + resumed.strategy.window
    missing = [cell for request in requests for cell in request.cells]
    resumed.strategy.tell(
        resumed.row(cell, of_svm) for cell in missing if cell not in resumed.strategy.rows
    )
    resumed.run(of_svm)
    assert resumed.drawn == whole.drawn


def test_candidates_that_fail_are_left_out():
    def fails_if_large(parameters):
        return None if parameters["C"] > 100 else of_svm(parameters)

    first, second = (Search([[SVM]], 40) for _ in range(2))
    first.run(fails_if_large)
    second.run(fails_if_large, np.random.default_rng(1))
    assert first.drawn == second.drawn
    assert any(parameters["C"] > 100 for parameters in first.drawn)
    scores = [fails_if_large(parameters) for parameters in first.drawn]
    assert max(score for score in scores if score is not None) > -0.1

    nothing = Search([[SVM]], 8)
    nothing.run(lambda parameters: None)
    assert len(nothing.drawn) == 8


def test_a_branch_has_its_own_parameters_and_the_better_one_is_drawn_more_often():
    kernels = [
        Branch.of({"kernel": "linear", "C": {"log": [1e-3, 1e3]}}),
        Branch.of({"kernel": "rbf", **SVM.parameters}),
    ]

    def objective(parameters):
        return of_svm(parameters) if parameters["kernel"] == "rbf" else -10.0

    search = Search([kernels], 40)
    search.run(objective)
    kinds = [parameters["kernel"] for parameters in search.drawn]
    assert {"linear", "rbf"} == set(kinds)
    assert kinds[20:].count("rbf") > 15
    for parameters in search.drawn:
        names = {"kernel", "C"} | ({"gamma"} if parameters["kernel"] == "rbf" else set())
        assert parameters.keys() == names
        assert parameters["C"] <= (1e6 if parameters["kernel"] == "rbf" else 1e3)


def test_parameters_are_of_the_kind_that_their_space_says():
    space = Branch.of(
        {
            "depth": {"int": [1, 9]},
            "share": {"normal": [0, 1]},
            "trees": [10, 20, 40],
            "criterion": ["gini", None, (1, 2)],
        }
    )
    search = Search([[space]], 20)
    search.run(lambda parameters: -parameters["depth"])
    for parameters in search.drawn:
        assert isinstance(parameters["depth"], int)
        assert math.isfinite(parameters["share"])
        assert parameters["trees"] in (10, 20, 40)
        assert parameters["criterion"] in ("gini", None, (1, 2))
    assert min(parameters["depth"] for parameters in search.drawn) == 1


def test_no_candidate_is_drawn_twice():
    lists = Branch.of({"n": [1, 2, 3], "kind": ["a", "b"]})
    search = Search([[lists]], 20)
    search.run(lambda parameters: parameters["n"])
    assert len(search.drawn) == 6  # all there are
    assert len({repr(parameters) for parameters in search.drawn}) == 6


def test_algorithms_are_searched_beside_one_another():
    trees = Branch.of({"depth": {"int": [1, 9]}, "share": {"uniform": [0, 1]}})

    def objective(parameters):
        return of_svm(parameters) if "C" in parameters else -parameters["share"]

    first, second = (Search([[SVM], [trees]], 16) for _ in range(2))
    first.run(objective)
    second.run(objective, np.random.default_rng(3))
    assert first.drawn == second.drawn
    assert sum("C" in parameters for parameters in first.drawn) == 16
    assert len(first.drawn) == 32
    alone = Search([[SVM]], 16)
    alone.run(of_svm)
    assert alone.drawn == [parameters for parameters in first.drawn if "C" in parameters]


def test_without_optuna_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        InputError, match=r"strategy='tpe' needs Optuna, .*; run .*install"
    ) as caught:
        Search([[SVM]], 8)
    assert "\n" not in str(caught.value)
