"""Ranks to begin with: those of a graph that was much like this one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import InputError
from pipelines.graph import compute_pagerank
from pipelines.graph.distributed import distributed_pagerank
from pipelines.graph.edge_files import open_edges
from pipelines.graph.iteration import StoppingRule
from pipelines.graph.random_graphs import RandomGraph

EDGES = pd.DataFrame({"from": ["a", "b", "c", "c", "d"], "to": ["b", "c", "a", "b", "e"]})
TOL = 1e-12


def a_graph():
    rng = np.random.default_rng(0)
    ends = rng.zipf(1.6, size=(4000, 2)) % 500
    return pd.DataFrame(ends, columns=["from", "to"])


def n_iterations(ranks):
    return len(ranks.changes)


@pytest.mark.parametrize("dangling", ["uniform", "none"])
def test_known_ranks_of_the_same_graph_are_at_once_at_the_end(dangling):
    start_ranks = compute_pagerank(a_graph(), dangling=dangling, tol=TOL)
    again = compute_pagerank(a_graph(), dangling=dangling, tol=TOL, start=start_ranks)
    assert n_iterations(again) <= 2 < 15 < n_iterations(start_ranks)
    np.testing.assert_allclose(again.values, start_ranks.values, atol=1e-12)


def test_a_graph_that_changed_a_little_takes_fewer_iterations_to_the_same_ranks():
    before = a_graph()
    after = pd.concat([before.iloc[4:], pd.DataFrame({"from": [7, 9999], "to": [9999, 7]})])
    start_ranks = compute_pagerank(before, tol=TOL)
    plain = compute_pagerank(after, tol=TOL)
    begun = compute_pagerank(after, tol=TOL, start=start_ranks)
    assert begun.converged
    assert n_iterations(begun) < n_iterations(plain)
    np.testing.assert_allclose(begun.values, plain.values, atol=begun.bound + plain.bound)
    assert any("1 node has no rank yet, such as 9999" in note for note in begun.notes)


def test_nodes_that_are_gone_are_left_out_and_told():
    start_ranks = compute_pagerank(EDGES, tol=TOL)
    ranks = compute_pagerank(EDGES.iloc[:4], tol=TOL, start=start_ranks)
    message = "start: 2 nodes that are not in the graph left out, such as 'd'"
    assert any(message in note for note in ranks.notes)
    np.testing.assert_allclose(ranks.values, compute_pagerank(EDGES.iloc[:4], tol=TOL).values)


def test_vectors_begin_by_their_names_or_all_by_one():
    jumps = pd.DataFrame({"x": {"a": 1.0}, "y": {"c": 1.0, "d": 2.0}}).fillna(0)
    start_ranks = compute_pagerank(EDGES, personalise=jumps, tol=TOL)
    swapped = compute_pagerank(EDGES, personalise=jumps[["y", "x"]], tol=TOL, start=start_ranks)
    assert n_iterations(swapped) <= 2
    column_ranks = compute_pagerank(
        EDGES, personalise=jumps, tol=TOL, start=start_ranks.frame()[["x"]]
    )
    np.testing.assert_allclose(column_ranks.values, start_ranks.values, atol=1e-11)
    with pytest.raises(InputError, match=r"start must have one column .* \(x, z\), got x, y"):
        compute_pagerank(EDGES, personalise=jumps.rename(columns={"y": "z"}), start=start_ranks)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"z": 1.0}, "start must have ranks of nodes of the graph, got 'z'"),
        ({"a": -1.0}, "start must hold finite numbers of at least 0, got -1.0 for 'a'"),
        ({"a": 0.0}, "start must have a number above 0"),
        ({}, "start must hold numbers by node"),
        ("none.parquet", "start must be an existing .csv, .tsv, .txt, .parquet file"),
    ],
)
def test_what_are_no_ranks_is_one_line(start, message):
    with pytest.raises(InputError, match=message):
        compute_pagerank(EDGES, start=start)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_of_ranks(suffix, tmp_path):
    start_ranks = compute_pagerank(a_graph(), tol=TOL)
    path, frame = (
        tmp_path / f"ranks.{suffix}",
        start_ranks.frame().rename_axis("node").reset_index(),
    )
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    assert n_iterations(compute_pagerank(a_graph(), tol=TOL, start=path)) <= 2
    if suffix == "parquet":  # as it lies in the folder of a run
        assert n_iterations(compute_pagerank(a_graph(), tol=TOL, start=tmp_path)) <= 2


def test_on_many_workers_and_what_an_earlier_call_left(in_process, tmp_path):
    path = tmp_path / "edges.csv"
    a_graph().to_csv(path, index=False)
    stop, edges = StoppingRule(TOL), open_edges(path)
    plain = distributed_pagerank(in_process, edges, tmp_path / "work", stop=stop)
    begun = distributed_pagerank(in_process, edges, tmp_path / "work", stop=stop, start=plain)
    assert n_iterations(begun) <= 2 < n_iterations(plain)
    np.testing.assert_allclose(begun.values, plain.values, atol=1e-12)


def test_cugraph_begins_with_them(gpu_stand_in):
    graph = RandomGraph("erdos", 300, 2, 3)
    start_ranks = compute_pagerank(graph, tol=TOL)
    few = {"device": "gpu", "tol": 1e-11, "iterations": 2}
    assert compute_pagerank(graph, start=start_ranks, **few).converged
    assert not compute_pagerank(graph, **few).converged


def test_empty_cells_of_a_file_are_said(tmp_path):
    start_ranks = compute_pagerank(EDGES, tol=TOL).frame()
    start_ranks.iloc[1] = np.nan
    for path, write in (
        (tmp_path / "ranks.csv", start_ranks.to_csv),
        (tmp_path / "ranks.parquet", start_ranks.to_parquet),
    ):
        write(path)
        ranks = compute_pagerank(EDGES, tol=TOL, start=str(path))
        assert any("1 empty cell taken for 0" in note for note in ranks.notes)
