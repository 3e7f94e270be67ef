"""Graphs: the rules of self-loops and repeated edges, random ones, and their limits."""

from __future__ import annotations

import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from scipy import sparse

from pipelines.errors import InputError
from pipelines.graph import compute_pagerank
from pipelines.graph.edges import MOST_NODES, check_node_count
from pipelines.graph.graph import graph_of
from pipelines.graph.random_graphs import BLOCK_EDGES, RandomGraph

EDGES = (np.array([0, 0, 1, 2, 2, 2]), np.array([1, 1, 1, 0, 0, 1]), np.array([1.0, 5, 2, 3, 4, 6]))


def _listed(graph):
    """Source, target and weight of every edge."""
    rows = graph.rows
    target = np.repeat(np.arange(graph.n_nodes), np.diff(rows.first))
    weight = np.ones(rows.n_edges) if rows.weight is None else rows.weight
    return sorted(zip(rows.source.tolist(), target.tolist(), weight.tolist(), strict=True))


@pytest.mark.slow
def test_repeated_edges_and_self_loops_follow_the_rule():
    assert len(_listed(graph_of(EDGES))) == 6
    once = graph_of(EDGES, repeated="once")
    assert _listed(once) == [(0, 1, 1.0), (1, 1, 2.0), (2, 0, 3.0), (2, 1, 6.0)]
    dropped = graph_of(EDGES, self_loops="drop")
    assert [edge for edge in _listed(dropped) if edge[:2] == (1, 1)] == []
    both = graph_of(EDGES[:2], self_loops="drop", repeated="once")
    assert _listed(both) == [(0, 1, 1.0), (2, 0, 1.0), (2, 1, 1.0)]
    with pytest.raises(InputError, match=r"^repeated must be one of sum, once, got 'twice'"):
        graph_of(EDGES, repeated="twice")
    with pytest.raises(InputError, match="edges must hold an edge that is no self-loop"):
        graph_of((np.array([1]), np.array([1])), self_loops="drop")


@hypothesis.given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=60)
)
def test_rows_hold_every_edge(pairs):
    graph = graph_of(np.array(pairs), nodes=10)
    assert [edge[:2] for edge in _listed(graph)] == sorted(pairs)
    assert graph.out_weight.tolist() == [
        sum(source == node for source, _ in pairs) for node in range(10)
    ]
    once = graph_of(np.array(pairs), nodes=10, repeated="once")
    assert [edge[:2] for edge in _listed(once)] == sorted(set(pairs))


@pytest.mark.parametrize("kind", ["erdos", "rmat"])
def test_random_graphs_are_the_same_for_a_seed(kind):
    graph, again, other = (RandomGraph(kind, 3000, 4, seed) for seed in (1, 1, 2))
    assert (graph.block(0)[0] == again.block(0)[0]).all()
    assert (graph.block(0)[1] == again.block(0)[1]).all()
    source, target = graph.block(0)
    assert source.dtype == target.dtype == np.int32
    assert min(source.min(), target.min()) >= 0
    assert max(source.max(), target.max()) < 3000
    assert len(source) != len(other.block(0)[0]) or (source != other.block(0)[0]).any()


def test_erdos_has_the_degree_asked_for_and_no_edge_twice():
    source, target = RandomGraph("erdos", 5000, 8, 0).block(0)
    assert abs(len(source) / 5000 - 8) < 0.2
    assert len(set(zip(source.tolist(), target.tolist(), strict=True))) == len(source)
    assert (source != target).all()
    assert abs(np.bincount(target, minlength=5000).var() - 8) < 1  # Poisson's
    complete = RandomGraph("erdos", 30, 29, 0).block(0)
    assert len(complete[0]) == 30 * 29


def test_rmat_is_skewed_and_as_large_as_asked_for():
    graph = RandomGraph("rmat", 300_000, 8, 0)
    blocks = [graph.block(i) for i in graph.parts()]
    assert len(blocks) == -(-300_000 * 8 // BLOCK_EDGES)
    assert sum(len(source) for source, _ in blocks) == 300_000 * 8
    n_in = np.bincount(np.concatenate([target for _, target in blocks]), minlength=300_000)
    assert n_in.max() > 100 * n_in.mean()
    assert (blocks[0][0][:100] != blocks[1][0][:100]).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("circle", 5, 2), "random must be one of erdos, rmat, got 'circle'"),
        (("rmat", 1, 1), "nodes must be at least 2, got 1"),
        (("rmat", 2**31, 1), "nodes must be at most 2147483647"),
        (("rmat", 5, 5), "degree must be at least 1 and below nodes"),
    ],
)
def test_random_graphs_out_of_range_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        RandomGraph(*arguments)


def test_more_nodes_than_int32_holds_are_refused_before_anything_is_made():
    check_node_count(MOST_NODES)
    with pytest.raises(InputError, match=r"nodes must be at most 2147483647 \(2\^31 - 1\)"):
        compute_pagerank(np.array([[0, 1]]), nodes=2**31)


@pytest.mark.parametrize(
    ("edges", "parameters", "message"),
    [
        (np.empty((0, 2), int), {}, "edges must hold at least one edge"),
        (np.zeros((3, 3), int), {}, r"edges must be a path, a table, .* got ndarray"),
        ((np.array([0, 1]), np.array([1])), {}, "edges must have as many sources as targets"),
        ((np.array([0.5, np.nan]), np.array([1.0, 2])), {}, "edges must name two nodes"),
        ((np.array([0, 7]), np.array([1, 2])), {"nodes": 5}, "5 known nodes, got 7"),
        ((["a", 1], ["b", "c"]), {}, "edges must have names of one kind"),
        (np.array([[0, 1]]), {"nodes": 0}, "nodes must be at least 1, got 0"),
        (np.array([[0, 1]]), {"alpha": 1.0}, "alpha must lie strictly between 0 and 1, got 1.0"),
        (np.array([[0, 1]]), {"alpha": 0}, "alpha must lie strictly between 0 and 1, got 0"),
        (np.array([[0, 1]]), {"alpha": float("nan")}, "alpha must lie strictly between 0 and 1"),
        (np.array([[0, 1]]), {"dangling": "some"}, "dangling must be one of uniform, person"),
        (np.array([[0, 1]]), {"tol": 0.0}, "tol must be at least 1e-14"),
        (np.array([[0, 1]]), {"iterations": 0}, "iterations must be at least 1, got 0"),
        (np.array([[0, 1]]), {"tol": None}, "tol or iterations must be given"),
        (np.array([[0, 1]]), {"device": "tpu"}, "device must be one of cpu, gpu, got 'tpu'"),
        (np.array([[0, 1]]), {"device": "gpu"}, "device must be cpu where cuGraph cannot run"),
        (
            (np.array([0]), np.array([1]), np.array([-2.0])),
            {},
            "weight must be finite and at least 0, got -2.0 in row 1",
        ),
        (np.array([[0, 1]]), {"alpha": "0.5"}, r"alpha must be a number, got '0.5' \(str\)"),
        (np.array([[0, 1]]), {"tol": "1e-6"}, "tol must be a number, got '1e-6'"),
        (np.array([[0, 1]]), {"iterations": 5.5}, "iterations must be a whole number, got 5.5"),
        (np.array([[0, 1]]), {"nodes": "2"}, "nodes must be a whole number, got '2'"),
        ((np.array([0]), np.array([1]), np.array([1.0, 2])), {}, "weight must have a number for"),
        ((np.array([0]), np.array([1]), ["x"]), {}, r"weight must be a column of numbers \(.*'x'"),
        (pd.DataFrame({"a": [1]}), {}, "edges must have a column of sources and one of"),
        (pd.DataFrame({"a": [1], "b": [2]}), {"weight": "w"}, "weight must be the name of a col"),
    ],
)
def test_bad_input_is_one_line(edges, parameters, message):
    with pytest.raises(InputError, match=message) as caught:
        compute_pagerank(edges, **parameters)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [">i8", "<i8", "uint64"])
def test_whole_numbers_of_any_form_are_the_nodes(dtype):
    edges = np.array([[0, 1], [1, 2], [2, 0], [3, 0]])
    numbers = compute_pagerank(edges)
    for columns in (edges.astype(dtype), pd.DataFrame(edges.astype(dtype), columns=["a", "b"])):
        ranks = compute_pagerank(columns)
        pd.testing.assert_index_equal(ranks.nodes, numbers.nodes)
        np.testing.assert_array_equal(ranks.values, numbers.values)


def test_numbers_beyond_int64_stay_numbers():
    edges = np.array([[2**63, 1], [1, 2**64 - 1], [2**64 - 1, 2**63]], np.uint64)
    assert compute_pagerank(edges).nodes.tolist() == [1, 2**63, 2**64 - 1]


def test_ranks_do_not_depend_on_the_unit_of_weights():
    source, target, weight = EDGES
    usual = compute_pagerank((source, target, weight))
    for unit in (5e-324, 1e-310, 1e-30, 1e23, 2.9e307):
        for edges in (
            (source, target, weight * unit),
            sparse.coo_matrix((weight * unit, (source, target)), shape=(3, 3)),
        ):
            np.testing.assert_allclose(compute_pagerank(edges).values, usual.values, rtol=1e-6)


def test_weights_of_one_node_may_be_of_another_size_than_those_of_others():
    edges = (["a", "a", "b", "c"], ["b", "c", "c", "a"])
    equal = compute_pagerank(edges, tol=1e-12)
    for tiny in (5e-324, 1e-310, 1.2e308):
        ranks = compute_pagerank((*edges, [tiny, tiny, 1.0, 1.0]), tol=1e-12)
        np.testing.assert_allclose(ranks.values, equal.values, atol=1e-11)


def test_ranks_that_are_not_finite_are_no_answer(monkeypatch):
    monkeypatch.setattr("pipelines.graph.ranks.residual", lambda *_: float("nan"))
    with pytest.raises(InputError, match="edges must have finite ranks"):
        compute_pagerank(np.array([[0, 1]]))
