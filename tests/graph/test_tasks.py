"""The tasks of the partitioned iteration, as plain calls: no cluster."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from pipelines.graph import compute_pagerank, partitions, tasks
from pipelines.graph.distributed import write_start
from pipelines.graph.edges import sorted_names
from pipelines.graph.files import open_edges
from pipelines.graph.iteration import RandomSurfer
from pipelines.graph.partitions import Partitioning
from pipelines.graph.random_graphs import RandomGraph


def _write(folder, source, n_partitions: int, **rules: str) -> Partitioning:
    parts = source.parts(500)
    if isinstance(source, RandomGraph):
        n_nodes, first = source.n_nodes, 0
    else:
        nodes = sorted_names([source.names(part) for part in parts])
        partitions.write_nodes(str(folder), nodes)
        n_nodes, first = len(nodes), None
    nodes = partitions.read_nodes(str(folder), n_nodes, first)
    n_in = sum(
        partitions.write_edges_by_cell(
            source, str(folder), lambda: nodes, min(n_nodes, 64), numbered
        )
        for numbered in enumerate(parts)
    )
    bounds = partitions.balanced_bounds(n_in, n_nodes, n_partitions)
    weighted = getattr(source, "weight", None) is not None
    partitioning = Partitioning(str(folder), bounds, weighted)
    rules = {"self_loops": "keep", "repeated": "sum"} | rules
    for p in range(n_partitions):
        partitions.write_rows(partitioning, *rules.values(), n_in, len(parts), p)
    return partitioning


def _iterate(partitioning: Partitioning, tol: float, precision: type) -> np.ndarray:
    everyone, surfer = range(partitioning.n_partitions), RandomSurfer(partitioning.n_nodes)
    write_start(partitioning, surfer, surfer.start())
    partitions = [tasks.load_partition(partitioning, surfer, p) for p in everyone]
    states = [tasks.read_state(partitions[p], partitioning, p, 0) for p in everyone]
    total = tasks.add_up(None, tol, *map(tasks.sums, states))
    for _ in range(200):
        received = [
            [tasks.contributions_to(partitions[q], states[q], total, p, precision)
             for q in everyone if q != p]
            for p in everyone
        ]  # fmt: skip
        states = [
            tasks.advance(partitions[p], states[p], total, precision, *received[p])
            for p in everyone
        ]
        total = tasks.add_up(total, tol, *map(tasks.sums, states))
    assert total.done
    return np.concatenate([state.ranks for state in states])


@pytest.mark.parametrize("n_partitions", [1, 2, 3, 7])
def test_partitions_together_give_the_ranks_of_one_machine(tmp_path, n_partitions):
    graph = RandomGraph("rmat", 700, 6, 4)
    partitioning = _write(tmp_path, graph, n_partitions)
    ours = _iterate(partitioning, 1e-10, np.float64)
    assert np.abs(ours - compute_pagerank(graph, tol=1e-10).values).sum() < 1e-14


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 50, 1000])
@pytest.mark.parametrize("rules", [{}, {"self_loops": "drop"}, {"repeated": "once"}])
def test_rules_and_weights_of_a_file_read_in_parts(tmp_path, monkeypatch, rules, at_once):
    monkeypatch.setattr(partitions, "EDGES_AT_ONCE", at_once)
    rng = np.random.default_rng(2)
    rows = zip(rng.integers(60, size=400), rng.integers(60, size=400), rng.random(400), strict=True)
    path = tmp_path / "edges.txt"
    path.write_text("".join(f"x{a} x{b} {weight}\n" for a, b, weight in rows))
    partitioning = _write(
        tmp_path / "work", replace(open_edges(path, weight="3"), text=True), 3, **rules
    )
    ours = _iterate(partitioning, 1e-10, np.float64)
    whole = compute_pagerank(path, weight="3", tol=1e-10, **rules)
    assert np.abs(ours - whole.values).sum() < 1e-14


def test_partitions_and_parts_without_edges(tmp_path):
    """All edges point at one node of many, from parts that may be empty."""
    path = tmp_path / "edges.csv"
    path.write_text("a,b,w\n" + "".join(f"{a},0,{a + 1}\n" for a in range(300)))
    source = open_edges(path, weight="w")
    partitioning = _write(tmp_path / "work", source, 7)
    assert 0 in np.diff(partitioning.bounds) or len(set(partitioning.bounds)) == 8
    ours = _iterate(partitioning, 1e-10, np.float64)
    assert np.abs(ours - compute_pagerank(path, weight="w", tol=1e-10).values).sum() < 1e-14


def test_a_partition_that_is_moved_is_loaded_again(tmp_path):
    partitioning = _write(tmp_path, RandomGraph("rmat", 700, 6, 4), 2)
    surfer = RandomSurfer(partitioning.n_nodes)
    write_start(partitioning, surfer, surfer.start())
    loaded = tasks.load_partition(partitioning, surfer, 1)
    sent = pickle.dumps(loaded)
    assert len(sent) < 2000
    moved = pickle.loads(sent)
    assert (moved.rows.rows.source == loaded.rows.rows.source).all()
    assert [len(one) for one in moved.needed_by] == [len(one) for one in loaded.needed_by]
    assert moved.maps


def test_only_what_a_partition_needs_is_exchanged(tmp_path):
    """In a ring cut into four arcs, an arc needs the last node of the one before."""
    path = tmp_path / "ring.csv"
    path.write_text("a,b\n" + "".join(f"{i},{(i + 1) % 1000}\n" for i in range(1000)))
    partitioning = _write(tmp_path / "work", open_edges(path), 4)
    surfer = RandomSurfer(partitioning.n_nodes)
    write_start(partitioning, surfer, surfer.start())
    for p in range(4):
        loaded = tasks.load_partition(partitioning, surfer, p)
        assert [len(wanted) for wanted in loaded.needed_by] == [
            int(q == (p + 1) % 4) for q in range(4)
        ]
        assert sum(len(np.load(partitioning.path(p, f"needs-{q:03d}"))) for q in range(4)) == 1
