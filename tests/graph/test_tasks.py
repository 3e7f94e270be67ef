"""The tasks of the partitioned iteration, as plain calls: no cluster."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.graph import pagerank, partition, tasks
from pipelines.graph.edges import sorted_names
from pipelines.graph.files import open_edges
from pipelines.graph.partition import Source, Split
from pipelines.graph.random_graphs import RandomGraph
from pipelines.graph.walk import Walk


def _deal(folder, source: Source, n_partitions: int, **rules: str) -> tuple[Split, int]:
    parts = source.parts(500)
    if isinstance(source.edges, RandomGraph):
        n_nodes, first = source.edges.n_nodes, 0
    else:
        nodes = sorted_names([source.names(part) for part in parts])
        partition.write_nodes(str(folder), nodes)
        n_nodes, first = len(nodes), None
    nodes = partition.read_nodes(str(folder), n_nodes, first)
    n_in = sum(
        partition.deal(source, str(folder), lambda: nodes, min(n_nodes, 64), numbered)
        for numbered in enumerate(parts)
    )
    bounds = partition.balanced_bounds(n_in, n_nodes, n_partitions)
    split = Split(str(folder), bounds, **rules)
    for p in range(n_partitions):
        partition.compress(split, n_in, len(parts), p)
    return split, n_nodes


def _iterate(split: Split, walk: Walk, weighted: bool, tol: float, precision: type) -> np.ndarray:
    everyone = range(split.n_partitions)
    for p in everyone:
        start = walk.start()[split.bounds[p] : split.bounds[p + 1]]
        tasks.write_start(split, p, start, walk.jump)
    partitions = [tasks.load_partition(split, walk, p, weighted) for p in everyone]
    states = [tasks.begin_state(partitions[p], split, p, 0) for p in everyone]
    total = tasks.add_up(None, tol, *map(tasks.sums, states))
    for _ in range(200):
        handed = [
            [tasks.hand_over(partitions[q], states[q], total, p, precision)
             for q in everyone if q != p]
            for p in everyone
        ]  # fmt: skip
        states = [
            tasks.advance(partitions[p], states[p], total, precision, *handed[p]) for p in everyone
        ]
        total = tasks.add_up(total, tol, *map(tasks.sums, states))
    assert total.done
    return np.concatenate([state.ranks for state in states])


@pytest.mark.parametrize("n_partitions", [1, 2, 3, 7])
def test_partitions_together_give_the_ranks_of_one_machine(tmp_path, n_partitions):
    graph = RandomGraph("rmat", 700, 6, 4)
    split, n_nodes = _deal(tmp_path, Source(graph), n_partitions)
    ours = _iterate(split, Walk(n_nodes), False, 1e-10, np.float64)
    assert np.abs(ours - pagerank(graph, tol=1e-10).values).sum() < 1e-14


@pytest.mark.parametrize("at_once", [1, 50, 1000])
@pytest.mark.parametrize("rules", [{}, {"self_loops": "drop"}, {"repeated": "once"}])
def test_rules_and_weights_of_a_file_read_in_parts(tmp_path, monkeypatch, rules, at_once):
    monkeypatch.setattr(partition, "EDGES_AT_ONCE", at_once)
    rng = np.random.default_rng(2)
    rows = zip(rng.integers(60, size=400), rng.integers(60, size=400), rng.random(400), strict=True)
    path = tmp_path / "edges.txt"
    path.write_text("".join(f"x{a} x{b} {weight}\n" for a, b, weight in rows))
    split, n_nodes = _deal(
        tmp_path / "work", Source(open_edges(path, weight="3"), text=True), 3, **rules
    )
    ours = _iterate(split, Walk(n_nodes), True, 1e-10, np.float64)
    whole = pagerank(path, weight="3", tol=1e-10, **rules)
    assert np.abs(ours - whole.values).sum() < 1e-14


def test_partitions_and_parts_without_edges(tmp_path):
    """All edges point at one node of many, from parts that may be empty."""
    path = tmp_path / "edges.csv"
    path.write_text("a,b,w\n" + "".join(f"{a},0,{a + 1}\n" for a in range(300)))
    source = Source(open_edges(path, weight="w"))
    split, n_nodes = _deal(tmp_path / "work", source, 7)
    assert 0 in np.diff(split.bounds) or len(set(split.bounds)) == 8
    ours = _iterate(split, Walk(n_nodes), True, 1e-10, np.float64)
    assert np.abs(ours - pagerank(path, weight="w", tol=1e-10).values).sum() < 1e-14


def test_only_what_a_partition_needs_is_handed_over(tmp_path):
    """In a ring cut into four arcs, an arc needs the last node of the one before."""
    split, n_nodes = _deal(tmp_path, Source(RandomGraph("ring", 1000, 1)), 4)
    walk = Walk(n_nodes)
    for p in range(4):
        start = walk.start()[split.bounds[p] : split.bounds[p + 1]]
        tasks.write_start(split, p, start, walk.jump)
    for p in range(4):
        loaded = tasks.load_partition(split, walk, p, False)
        assert [len(wanted) for wanted in loaded.sends] == [int(q == (p + 1) % 4) for q in range(4)]
        assert sum(len(np.load(split.path(p, f"needs-{q:03d}"))) for q in range(4)) == 1
