"""PageRank on workers: its tasks as plain calls, and on a real cluster, whose workers die."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pytest
from distributed import Client
from distributed.comm import CommClosedError

from cluster_setup import open_cluster
from cluster_setup.workers import WorkerForecast
from pipelines.errors import InputError
from pipelines.graph import compute_pagerank, distributed, partitions
from pipelines.graph.distributed import distributed_pagerank
from pipelines.graph.edge_files import open_edges
from pipelines.graph.iteration import StoppingRule
from pipelines.graph.random_graphs import RandomGraph
from pipelines.run.errors import RunStopped


@pytest.mark.slow
def test_a_random_graph_on_four_workers(four_workers, tmp_path):
    graph = RandomGraph("rmat", 50_000, 6, 2)
    called = []
    ours = distributed_pagerank(
        four_workers, graph, tmp_path, callback=lambda number, change: called.append(number)
    )
    alone = compute_pagerank(graph)
    assert ours.n_partitions == 4
    assert ours.n_edges == 300_000
    assert ours.converged
    assert len(ours.changes) == len(alone.changes)
    assert called == list(range(1, len(called) + 1))
    assert np.abs(ours.values - alone.values).sum() < 1e-9
    assert not (tmp_path / partitions.PIECES).exists()


@pytest.mark.parametrize(
    "rules",
    [
        {},
        *(
            pytest.param(rule, marks=pytest.mark.slow)
            for rule in ({"self_loops": "drop"}, {"repeated": "once"})
        ),
    ],
)
def test_a_file_of_names_weights_and_rules_in_many_partitions(
    in_process, tmp_path, monkeypatch, rules
):
    """From parts and of partitions some of which are empty, as many edges point at one node."""
    monkeypatch.setattr(distributed, "PARTITION_EDGES", 100)
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": rng.integers(60, size=700), "b": rng.integers(60, size=700)})
    frame.loc[:300, "b"] = 7
    frame = ("page " + frame.astype(str)).assign(w=rng.random(700))
    frame.to_csv(path := tmp_path / "edges.csv", index=False)
    vectors = pd.DataFrame({"x": {"page 1": 1.0}, "y": {"page 2": 1.0, "page 3": 2.0}}).fillna(0)
    common = {"personalise": vectors, "dangling": "personalised", **rules}
    ours = distributed_pagerank(
        in_process,
        open_edges(path, weight="w"),
        tmp_path / "work",
        stop=StoppingRule(1e-10),
        part_bytes=500,
        **common,
    )
    alone = compute_pagerank(path, weight="w", tol=1e-10, **common)
    assert ours.n_partitions == 8
    assert ours.vectors == ["x", "y"]
    assert list(ours.nodes) == list(alone.nodes)
    assert np.abs(ours.values - alone.values).sum() < 1e-13
    assert ours.residual == pytest.approx(alone.residual, rel=1e-3)


@pytest.mark.slow
def test_contributions_are_aligned_however_they_come(in_process, tmp_path, monkeypatch):
    """Dask hands out pieces of a message, which begin anywhere; sums over them take longer."""
    exchange, pull, aligned = partitions.exchange, partitions.pull, list[bool]()

    def unaligned(*arguments):
        whole = exchange(*arguments)
        moved = np.empty(whole.contributions.nbytes + 1, np.uint8)[1:]
        moved = moved.view(whole.contributions.dtype).reshape(whole.contributions.shape)
        moved[:] = whole.contributions
        assert not moved.flags.aligned
        return replace(whole, contributions=moved)

    def noted(*arguments):
        aligned.append(arguments[4].flags.aligned)
        return pull(*arguments)

    monkeypatch.setattr(partitions, "exchange", unaligned)
    monkeypatch.setattr(partitions, "pull", noted)
    graph = RandomGraph("rmat", 500, 6, 2)
    ours = distributed_pagerank(in_process, graph, tmp_path)
    assert aligned
    assert all(aligned)
    assert np.abs(ours.values - compute_pagerank(graph).values).sum() < 1e-9


def test_partitions_are_written_once_and_ranks_go_on(in_process, tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("".join(f"{i} {i * i % 997}\n" for i in range(1000)))

    def written():
        return {file: file.stat().st_mtime_ns for file in tmp_path.glob("work/*/source.npy")}

    def ranked(**how):
        return distributed_pagerank(in_process, open_edges(path), tmp_path / "work", **how)

    assert not ranked(stop=StoppingRule(1e-9, 6)).converged
    before, called = written(), list[int]()
    both = ranked(stop=StoppingRule(1e-9), callback=lambda number, change: called.append(number))
    assert called[0] == 7
    assert np.abs(both.values - compute_pagerank(path, tol=1e-9).values).sum() < 1e-12
    # Another alpha begins anew, on the same partitions.
    other = ranked(alpha=0.5)
    assert np.abs(other.values - compute_pagerank(path, alpha=0.5).values).sum() < 1e-8
    assert written() == before
    # A changed file does not.
    path.write_text("1 2\n2 3\n3 1\n4 1\n")
    assert list(ranked().nodes) == [1, 2, 3, 4]


@pytest.mark.slow
def test_three_kills_of_a_worker_change_nothing(tmp_path):
    graph = RandomGraph("rmat", 20_000, 6, 5)
    stop = StoppingRule(tol=None, iterations=40)
    kills = []
    state = tmp_path / "state.json"
    with open_cluster("local", 4) as client:
        # Sums over what a checkpoint holds round as they do here where it is taken as often.
        undisturbed = distributed_pagerank(
            client, graph, tmp_path / "undisturbed", stop=stop, checkpoint_every=4
        )
        over = threading.Event()

        def kill():
            """One worker, four iterations after the last, wherever the run then is."""
            seen = -1
            while not over.wait(0.05) and len(kills) < 3:
                reached = json.loads(state.read_text())["iteration"] if state.exists() else -9
                if reached < seen + 4:
                    continue
                seen = reached
                pids = sorted(client.run(os.getpid).values())
                os.kill(pids[len(kills) % len(pids)], signal.SIGKILL)
                kills.append(reached)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            ours = distributed_pagerank(client, graph, tmp_path, stop=stop, checkpoint_every=4)
        finally:
            over.set()
            killer.join()
    assert len(kills) == 3
    assert ours.changes == undisturbed.changes
    assert (ours.values == undisturbed.values).all()
    alone = compute_pagerank(graph, tol=None, iterations=40)
    assert np.abs(ours.values - alone.values).sum() < 1e-12


def test_workers_that_die_in_every_attempt_stop_the_run(in_process, tmp_path, monkeypatch):
    def dies(*arguments):
        raise CommClosedError("the worker is gone")

    monkeypatch.setattr(partitions, "write_piece", dies)
    with pytest.raises(RunStopped, match=f"workers died {distributed.MOST_FAILURES} times in one"):
        distributed_pagerank(in_process, RandomGraph("erdos", 10, 1), tmp_path)


def test_a_cluster_without_workers_stops_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "SECONDS_FOR_A_WORKER", 0.1)
    graph, stop = RandomGraph("erdos", 10, 1), StoppingRule(None, 30)

    def callback(number, change):
        client.retire_workers(list(client.scheduler_info()["workers"]))

    with (
        Client(n_workers=1, processes=False, dashboard_address=":0") as client,
        pytest.raises(RunStopped, match="no worker is left; ranks so far are kept"),
    ):
        distributed_pagerank(client, graph, tmp_path, stop=stop, callback=callback)


def test_jobs_that_wait_in_a_queue_are_waited_for(monkeypatch):
    def never(*of_all, **how):
        raise TimeoutError

    forecasts = [WorkerForecast(1, coming=True), WorkerForecast(1, reason="three jobs died")]
    monkeypatch.setattr(distributed, "wait", never)
    monkeypatch.setattr(distributed, "forecast_workers", lambda client: forecasts.pop(0))
    client = MagicMock()
    client.wait_for_workers = never
    with pytest.raises(RunStopped, match="three jobs died; ranks so far are kept"):
        distributed._gather(client, [])
    assert not forecasts


def test_bad_input_is_one_line(in_process, tmp_path):
    graph = RandomGraph("erdos", 10, 1)
    with pytest.raises(InputError, match="alpha must lie strictly between 0 and 1"):
        distributed_pagerank(in_process, graph, tmp_path, alpha=1.5)
    with pytest.raises(InputError, match="personalise must name nodes of the graph, got -1"):
        distributed_pagerank(in_process, graph, tmp_path, personalise={-1: 1.0})


def test_a_folder_that_a_worker_does_not_see_is_refused(four_workers, tmp_path, monkeypatch):
    blind = SimpleNamespace(path=SimpleNamespace(isfile=lambda path: False))  # goes to workers
    monkeypatch.setattr("pipelines.run.cluster.os", blind)
    with pytest.raises(InputError, match=r"must be a folder that all workers reach.*4 of 4"):
        distributed_pagerank(four_workers, RandomGraph("erdos", 10, 1), tmp_path)
    assert not list(tmp_path.iterdir())


def test_bounds_balance_edges_and_nodes():
    n_in = np.zeros(64, np.int64)
    n_in[0] = 64_000
    assert partitions.balanced_bounds(n_in, 6400, 2)[1] == 100
    bounds = partitions.balanced_bounds(np.full(64, 1000), 6400, 4)
    assert bounds == (0, 1600, 3200, 4800, 6400)
    assert partitions.balanced_bounds(np.array([5, 0, 0]), 3, 5)[-1] == 3
