"""Distributions of parameters, branches of spaces, and draws from them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats
from sklearn.model_selection import ParameterSampler

from pipelines.errors import InputError
from pipelines.search.candidates import read_grid, read_params
from pipelines.search.spaces import (
    Bounds,
    Branch,
    Choice,
    FrozenDistribution,
    Normal,
    Range,
    distribution_of,
    draw,
    refuse_distributions,
    unit_points,
)

ENDS = (0.0, 1 - 2**-53)
UNIT = (np.arange(2000) + 0.5) / 2000
BRANCHES = [
    Branch.of({"kernel": ["rbf"], "C": {"log": [0.01, 100]}, "gamma": {"log": [1e-4, 1]}}),
    Branch.of({"kernel": ["linear"], "C": {"log": [0.01, 100]}}),
]
LISTS = [Branch.of({"a": [1, 2, 3], "b": ["x", "y"]}), Branch.of({"c": range(5)})]


@pytest.mark.parametrize(
    ("written", "ends", "peer"),
    [
        ({"log": [0.01, 100]}, (0.01, 100.0), stats.loguniform(0.01, 100)),
        ({"uniform": [-1, 3]}, (-1.0, 3.0), stats.uniform(-1, 4)),
        ({"int": [1, 5]}, (1, 5), stats.randint(1, 6)),
    ],
)
def test_a_point_of_the_unit_interval_is_a_value(written, ends, peer):
    distribution = distribution_of("x", written)
    assert tuple(map(distribution.at, ENDS)) == pytest.approx(ends)
    values = [distribution.at(u) for u in UNIT]
    assert values == pytest.approx(peer.ppf(UNIT), rel=1e-5, abs=1e-6)
    assert {type(value) for value in values} == {int if "int" in written else float}


def test_whole_numbers_of_uniform_logarithms_are_all_drawn_the_small_ones_more_often():
    distribution = distribution_of("n", {"log_int": [1, 1000]})
    counts = np.bincount([distribution.at(u) for u in UNIT], minlength=1001)
    assert tuple(map(distribution.at, ENDS)) == (1, 1000)
    assert counts[1] > counts[2] > counts[10] > 0
    assert distribution.bounds == Bounds("int", 1, 1000, log=True)


def test_a_normal_distribution_is_scipys():
    distribution = distribution_of("x", {"normal": [10, 2]})
    assert [distribution.at(u) for u in UNIT] == pytest.approx(
        stats.norm(10, 2).ppf(UNIT), rel=1e-5
    )
    assert np.isfinite([distribution.at(u) for u in ENDS]).all()
    assert distribution.bounds == Bounds("unit", 0, 1)


def test_a_list_has_each_value_equally_often():
    distribution = distribution_of("x", ["a", None, 3])
    values = [distribution.at(u) for u in (np.arange(300) + 0.5) / 300]
    assert [values.count(choice) for choice in ("a", None, 3)] == [100, 100, 100]
    assert distribution.bounds == Bounds("place", 0, 2)


def test_frozen_distributions_of_scipy_are_taken():
    C = distribution_of("C", stats.loguniform(1e-2, 1e4))
    n = distribution_of("n", stats.randint(1, 9))
    assert isinstance(C, FrozenDistribution)
    assert C.at(0.5) == pytest.approx(10)
    assert (n.at(0.0), n.at(ENDS[1])) == (1, 8)
    assert {type(n.at(0.3)), type(n.draw(np.random.default_rng(0)))} == {int}
    first, other = (C.draw(np.random.default_rng(4)) for _ in range(2))
    assert first == other


def test_an_object_with_rvs_alone_is_drawn_at_a_point_too():
    class Dice:
        def rvs(self, random_state=None):
            return int(random_state.integers(1, 7))

    distribution = distribution_of("n", Dice())
    assert {distribution.at(u) for u in UNIT[::20]} == {1, 2, 3, 4, 5, 6}
    assert distribution.at(0.25) == distribution.at(0.25)


@pytest.mark.parametrize("sampler", ["plain", "sobol"])
def test_draws_depend_on_the_seed_alone_and_differ(sampler):
    points = draw(BRANCHES, 40, [3], sampler)
    assert points == draw(BRANCHES, 40, [3], sampler)
    assert points != draw(BRANCHES, 40, [4], sampler)
    assert len({repr(point) for point in points}) == 40
    assert {tuple(point) for point in points} == {("kernel", "C", "gamma"), ("kernel", "C")}


def test_sobol_points_fill_the_bounds_more_evenly_than_independent_draws():
    branch = [Branch.of({"C": {"log": [0.01, 100]}, "gamma": {"log": [1e-4, 1]}})]

    def gap(sampler, seed):
        points = draw(branch, 32, [seed], sampler)
        unit = [((np.log10(p["C"]) + 2) / 4, (np.log10(p["gamma"]) + 4) / 4) for p in points]
        return float(stats.qmc.discrepancy(np.clip(unit, 0, 1)))

    seeds = range(5)
    assert max(gap("sobol", i) for i in seeds) < min(gap("plain", i) for i in seeds)


def test_points_go_on_without_end():
    points = unit_points(2, np.random.default_rng(0))
    assert len({tuple(next(points)) for _ in range(100)}) == 100


def test_lists_alone_are_drawn_without_replacement_as_scikit_learn_does():
    grids = [{"a": [1, 2, 3], "b": ["x", "y"]}, {"c": range(5)}]
    points = draw(LISTS, 8, [0])
    assert len({repr(point) for point in points}) == 8
    everything = draw(LISTS, 11, [0])
    assert everything == [point for branch in LISTS for point in branch.combinations()]
    as_text = {repr(sorted(point.items())) for point in everything}
    assert as_text == {repr(sorted(p.items())) for p in ParameterSampler(grids, 11)}
    seen = {repr(point) for seed in range(40) for point in draw(LISTS, 2, [seed])}
    assert len(seen) == 11, "every combination is drawn"


def test_lists_of_more_combinations_than_can_be_numbered_are_drawn():
    huge = [Branch.of({f"p{i}": range(1000) for i in range(30)})]
    assert len(draw(huge, 5, [0])) == 5


def test_fewer_are_drawn_where_no_more_differ():
    few = [Branch.of({"n": {"int": [1, 3]}})]
    assert sorted(point["n"] for point in draw(few, 10, [0])) == [1, 2, 3]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "C must have a value, got none; leave it out"),
        (
            {"lgo": [1, 10]},
            "must be a list or a distribution of log, uniform, normal, int, log_int",
        ),
        ({"log": [0, 10]}, "must have two numbers, 0 < low < high, got {log: [0, 10]}; for"),
        ({"log": [10, 1]}, "0 < low < high"),
        ({"log": "1, 10"}, "must have two numbers"),
        ({"uniform": [1, float("inf")]}, "must have two numbers, low < high"),
        ({"uniform": [1, True]}, "must have two numbers, low < high"),
        ({"int": [1, 2.5]}, "whole numbers, low < high"),
        ({"log_int": [0, 3]}, "whole numbers, 1 <= low < high"),
        ({"normal": [0, 0]}, "a mean and a standard deviation above 0"),
        (
            [1, {"log": [1, 10]}],
            "a list of values or one distribution, got {",
        ),
    ],
)
def test_what_is_no_distribution_is_refused(value, words):
    with pytest.raises(InputError, match=re.escape(words)):
        distribution_of("C", value)


def test_other_mappings_are_values():
    for value in ({0: 1, 1: 5}, {"a": 1}, {"memory": [1, 2, 3]}):
        assert distribution_of("class_weight", value) == Choice((value,))


def test_a_distribution_is_refused_where_every_value_is_tried():
    refuse_distributions({"tree": LISTS}, "grid")
    with pytest.raises(InputError, match=r"as C of svm has, {log: \[0.01, 100\]}, got race; use"):
        refuse_distributions({"svm": BRANCHES}, "race")


def test_a_file_has_distributions_and_branches(tmp_path):
    path = tmp_path / "g.yaml"
    path.write_text(
        "svm:\n  - {kernel: rbf, C: {log: [1e-2, 1e4]}}\n  - {kernel: [linear], C: [1, 10]}\n"
        "knn:\ntree: {max_depth: {int: [1, 9]}}\n"
    )
    grids = read_grid(str(path))
    assert grids["svm"][0].parameters == {"kernel": Choice(("rbf",)), "C": Range(0.01, 1e4, True)}
    assert [dict(point) for point in grids["svm"][1].combinations()] == [
        {"kernel": "linear", "C": 1},
        {"kernel": "linear", "C": 10},
    ]
    assert list(grids["knn"][0].combinations()) == [{}]
    assert grids["tree"][0].parameters == {"max_depth": Range(1, 9, whole=True)}


def test_a_parameter_has_a_distribution_as_it_is_typed():
    read = read_params(["svm:C={log: [1e-2, 1e4]}", "svm:tol={normal: [0, 1]}"], ["svm"])
    assert read == {"svm": {"C": Range(0.01, 1e4, True), "tol": Normal(0, 1)}}
    read = read_params(["mlp:hidden_layer_sizes=(5,5),(9,)", "mlp:tol=1"], ["mlp"])
    assert read["mlp"]["hidden_layer_sizes"] == Choice(((5, 5), (9,)))
