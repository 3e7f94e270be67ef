"""The benchmarks of PageRank on small graphs: what they record, and their pages."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import pagerank, pagerank_study
from benchmarks.pagerank_peers import iteration_bytes, make_lines
from pipelines.graph.graph import graph_of
from pipelines.graph.random_graphs import RandomGraph


@pytest.mark.slow
def test_all_lines_come_to_the_same_ranks():
    graph = graph_of(RandomGraph("rmat", 2000, 5, 0), repeated="once")
    peer_lines = make_lines(graph, 1e-9, 2)
    assert {"pull", "scipy", "networkx"} <= set(peer_lines.lines)
    ours = peer_lines.lines["pull"]()
    for name, line in peer_lines.lines.items():
        assert np.abs(line().ranks - ours.ranks).sum() < 1e-7, name
    assert {"networkit", "igraph"} == set(peer_lines.missing) | (
        {"networkit", "igraph"} & set(peer_lines.lines)
    )


@pytest.mark.slow
def test_the_comparison_keeps_a_page(tmp_path):
    options = ["--nodes", "1000", "--repeat", "1", "--results", str(tmp_path)]
    assert pagerank.main(options) == 0
    (kept,) = tmp_path.glob("*.json")
    record = json.loads(kept.read_text())
    assert record["floor_ms"] > 0
    assert record["giga_edges_a_second"] > 0
    assert all(line["error"] < 1e-4 for line in record["lines"])
    assert "G edges a second" in kept.with_suffix(".md").read_text()


def test_the_study_keeps_a_page(tmp_path):
    options = ["--nodes", "200", "--degree", "5", "--iterations", "3", "--results", str(tmp_path)]
    assert pagerank_study.main(options) == 0
    page = next(tmp_path.glob("*.md")).read_text()
    assert "moved out by a broadcast" in page
    record = json.loads(next(tmp_path.glob("*.json")).read_text())
    names = [line["variant"] for line in record["lines"]]
    assert len(names) == 13
    assert {"pull", "scipy-dense-product", "torch-sparse-broadcast"} <= set(names)
    assert all(line["differs_from_first"] < 1e-12 for line in record["lines"])


def test_the_floor_counts_each_byte_once():
    nodes = np.arange(100)
    graph = graph_of((np.repeat(nodes, 3), (np.repeat(nodes, 3) + np.tile([1, 2, 3], 100)) % 100))
    assert iteration_bytes(graph) == 4 * 300 + 40 * 100


@pytest.mark.parametrize("benchmark", [pagerank, pagerank_study])
def test_a_mistake_is_one_line(benchmark, capsys):
    assert benchmark.main(["--nodes", "0"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{benchmark.COMMAND}: --nodes: must be at least 1, got 0")
