"""PageRank on workers of a real cluster, some of which die."""

from __future__ import annotations

import json
import os
import signal
import threading
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from distributed.comm import CommClosedError

from cluster_setup import open_cluster
from pipelines.errors import InputError
from pipelines.graph import compute_pagerank, worker_partitions
from pipelines.graph.distributed import _compute, distributed_pagerank
from pipelines.graph.files import open_edges, trim_memory
from pipelines.graph.iteration import RandomSurfer, Stop
from pipelines.graph.partitions import Partitioning
from pipelines.graph.random_graphs import RandomGraph
from pipelines.graph.tasks import Partition
from pipelines.graph.worker_partitions import MOST_FAILURES, WorkerPartitions, workers_of
from pipelines.run.errors import RunStopped


def test_a_random_graph_on_four_workers(four_workers, tmp_path):
    graph = RandomGraph("rmat", 50_000, 6, 2)
    called: list[int] = []
    ours = distributed_pagerank(
        four_workers, graph, tmp_path, callback=lambda number, change: called.append(number)
    )
    alone = compute_pagerank(graph)
    assert ours.n_partitions == 4
    assert ours.n_edges == 300_000
    assert ours.iterated.converged
    assert len(ours.iterated.changes) == len(alone.iterated.changes)
    assert called == list(range(1, len(called) + 1))
    assert np.abs(ours.iterated.ranks - alone.values).sum() < 1e-9


@pytest.mark.slow
def test_a_file_with_names_and_personal_vectors(four_workers, tmp_path):
    source, target = RandomGraph("erdos", 3000, 5, 7).block(0)
    weight = np.random.default_rng(0).random(len(source))
    path = tmp_path / "edges.csv"
    frame = pd.DataFrame({"a": source, "b": target, "w": weight})
    frame["a"], frame["b"] = "page " + frame["a"].astype(str), "page " + frame["b"].astype(str)
    frame.to_csv(path, index=False)
    vectors = pd.DataFrame({"x": {"page 1": 1.0}, "y": {"page 2": 1.0, "page 3": 2.0}}).fillna(0)
    ours = distributed_pagerank(
        four_workers, open_edges(path, weight="w"), tmp_path / "work", personalise=vectors,
        dangling="personalised", stop=Stop(1e-9), part_bytes=20_000, n_partitions=3,
    )  # fmt: skip
    alone = compute_pagerank(
        path, weight="w", personalise=vectors, dangling="personalised", tol=1e-9
    )
    assert ours.vectors == ["x", "y"]
    assert list(ours.nodes) == list(alone.nodes)
    assert np.abs(ours.iterated.ranks - alone.values).sum() < 1e-12


@pytest.mark.slow
def test_partitions_are_written_once_and_ranks_go_on(four_workers, tmp_path):
    graph = RandomGraph("erdos", 4000, 5, 7)
    first = distributed_pagerank(four_workers, graph, tmp_path, stop=Stop(1e-9, 6))
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/source.npy")}
    assert not first.iterated.converged
    called: list[int] = []
    both = distributed_pagerank(
        four_workers, graph, tmp_path, stop=Stop(1e-9),
        callback=lambda number, change: called.append(number),
    )  # fmt: skip
    assert called[0] == 7
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert np.abs(both.iterated.ranks - compute_pagerank(graph, tol=1e-9).values).sum() < 1e-12
    # Another alpha begins anew, on the same partitions.
    other = distributed_pagerank(four_workers, graph, tmp_path, alpha=0.5)
    assert np.abs(other.iterated.ranks - compute_pagerank(graph, alpha=0.5).values).sum() < 1e-8
    assert {path: path.stat().st_mtime_ns for path in written} == written


@pytest.mark.slow
def test_a_changed_file_is_written_anew(four_workers, tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("1 2\n2 3\n3 1\n")
    distributed_pagerank(four_workers, open_edges(path), tmp_path / "work", n_partitions=2)
    path.write_text("1 2\n2 3\n3 1\n4 1\n")
    ours = distributed_pagerank(four_workers, open_edges(path), tmp_path / "work", n_partitions=2)
    assert list(ours.nodes) == [1, 2, 3, 4]


@pytest.mark.slow
def test_twelve_kills_of_a_worker_change_nothing(tmp_path):
    graph = RandomGraph("rmat", 20_000, 6, 5)
    stop = Stop(tol=None, iterations=60)
    kills: list[int] = []
    state = tmp_path / "state.json"
    with open_cluster("local", 4) as client:
        # Sums over what a checkpoint holds round as they do here where it is taken as often.
        undisturbed = distributed_pagerank(
            client, graph, tmp_path / "undisturbed", stop=stop, checkpoint_every=4, n_partitions=4
        )
        over = threading.Event()

        def kill() -> None:
            """One worker, four iterations after the last, wherever the run then is."""
            seen = -1
            while not over.wait(0.05) and len(kills) < 12:
                reached = _iteration(state)
                if reached is None or reached < seen + 4:
                    continue
                seen = reached
                pids = sorted(client.run(os.getpid).values())
                os.kill(pids[len(kills) % len(pids)], signal.SIGKILL)
                kills.append(reached)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            ours = distributed_pagerank(
                client, graph, tmp_path, stop=stop, checkpoint_every=4, n_partitions=4
            )
        finally:
            over.set()
            killer.join()
    assert len(kills) == 12
    assert ours.iterated.changes == undisturbed.iterated.changes
    assert (ours.iterated.ranks == undisturbed.iterated.ranks).all()
    alone = compute_pagerank(graph, tol=None, iterations=60)
    assert np.abs(ours.iterated.ranks - alone.values).sum() < 1e-12


@pytest.fixture
def pausing():
    """Workers as a cluster that is not ours may have them: they pause when memory is short."""
    with (
        dask.config.set({"distributed.worker.memory.pause": 0.8}),
        LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
def test_a_partition_stays_with_its_worker_while_that_is_paused(pausing, tmp_path):
    graph, stop = RandomGraph("rmat", 20_000, 6, 5), Stop(tol=None, iterations=8)
    undisturbed = distributed_pagerank(
        pausing, graph, tmp_path / "undisturbed", stop=stop, checkpoint_every=4
    )
    paused = sorted(workers_of(pausing))[1]
    resume = threading.Timer(3, pausing.run, (_pause_above, 0.8), {"workers": [paused]})
    loaded: dict[int, list[int]] = {}

    def callback(number: int, change: float) -> None:
        loaded[number] = list(pausing.run(_n_loaded).values())
        if number == 4:
            pausing.run(_pause_above, 1e-9, workers=[paused])
            while _status(pausing, paused) != "paused":
                pass
            resume.start()

    try:
        ours = distributed_pagerank(
            pausing, graph, tmp_path, stop=stop, checkpoint_every=4, callback=callback
        )
    finally:
        resume.join()
    assert loaded[1] == loaded[8] == [1, 1, 1, 1]
    assert (ours.iterated.ranks == undisturbed.iterated.ranks).all()


@pytest.mark.slow
def test_a_worker_that_stays_paused_ends_the_run_in_words(pausing, tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.graph.worker_partitions.SECONDS_PAUSED", 2)
    paused = sorted(workers_of(pausing))[1]

    def callback(number: int, change: float) -> None:
        if number == 4:
            pausing.run(_pause_above, 1e-9, workers=[paused])

    try:
        with pytest.raises(RunStopped, match=rf"worker {paused} has been paused for 2 s"):
            distributed_pagerank(
                pausing, RandomGraph("rmat", 20_000, 6, 5), tmp_path, checkpoint_every=4,
                stop=Stop(tol=None, iterations=8), callback=callback,
            )  # fmt: skip
    finally:
        pausing.run(_pause_above, 0.8, workers=[paused])


def test_a_partition_that_could_not_be_loaded_is_loaded_again(monkeypatch):
    """Its worker lives: the one that died came back under the same address."""
    loads: list[SimpleNamespace] = []

    class Cluster:
        def wait_for_workers(self, n: int, timeout: float) -> None:
            pass

        def submit(self, function: Any, *arguments: Any, **how: Any) -> Any:
            loads.append(SimpleNamespace(status="finished"))
            return loads[-1]

    def submit(self: Any, *iterations: Any) -> str:
        if len(loads) == 2:
            loads[1].status = "error"
            raise TimeoutError("load")
        return "totals"

    monkeypatch.setattr(worker_partitions, "workers_of", lambda client: {"a": {}})
    monkeypatch.setattr(WorkerPartitions, "_submit", submit)
    client: Any = Cluster()
    partitions = WorkerPartitions(client, Partitioning("", (0, 1, 2)), RandomSurfer(2))
    assert partitions.iterate(0, 1, None, np.float64) == "totals"
    assert len(loads) == 3


def test_memory_that_was_used_and_is_free_is_given_back():
    small = [np.ones(1000) for _ in range(30_000)]  # 240 MB that the C library may keep
    keep = [small[i] for i in range(0, 30_000, 1000)]
    before = _resident()
    with trim_memory():
        del small
    assert _resident() < before - 150e6
    assert len(keep) == 30


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"checkpoint_every": 0}, "checkpoint_every must be at least 1, got 0"),
        ({"n_partitions": 0}, "n_partitions must be at least 1, got 0"),
        ({"alpha": 1.5}, "alpha must lie strictly between 0 and 1, got 1.5"),
        ({"personalise": {-1: 1.0}}, "personalise must name nodes of the graph, got -1"),
    ],
)
def test_bad_input_is_one_line(four_workers, tmp_path, parameters, message):
    with pytest.raises(InputError, match=message):
        distributed_pagerank(four_workers, RandomGraph("erdos", 10, 1), tmp_path, **parameters)


def test_what_is_wrong_with_a_file_reaches_the_caller(four_workers, tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("a,b,w\n1,2,-3\n")
    with pytest.raises(InputError, match="weight must be finite and at least 0, got -3"):
        distributed_pagerank(four_workers, open_edges(path, weight="w"), tmp_path / "work")


def test_a_folder_that_a_worker_does_not_see_is_refused(four_workers, tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.run.cluster._is_file", lambda path: False)  # goes to workers
    with pytest.raises(InputError, match=r"must be a folder that all workers reach.*4 of 4"):
        distributed_pagerank(four_workers, RandomGraph("erdos", 10, 1), tmp_path)
    assert not list(tmp_path.iterdir())


def _n_loaded(dask_worker: Any) -> int:
    return sum(isinstance(one, Partition) for one in dask_worker.data.values())


def _pause_above(fraction: float, dask_worker: Any) -> None:
    dask_worker.memory_manager.memory_pause_fraction = fraction


def _status(client: Client, worker: str) -> str:
    return workers_of(client)[worker]["status"]


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _iteration(state: Path) -> int | None:
    return json.loads(state.read_text())["iteration"] if state.exists() else None


def test_workers_that_die_in_every_attempt_stop_the_run():
    class Dying:
        attempts = 0

        def compute(self, collection: Any) -> Any:
            Dying.attempts += 1
            failed: Future[Any] = Future()
            failed.set_exception(CommClosedError("the worker is gone"))
            return failed

    with pytest.raises(RunStopped, match=f"workers died {MOST_FAILURES} times in one step: the wo"):
        _compute(Dying(), None)  # type: ignore[arg-type]
    assert Dying.attempts == MOST_FAILURES
