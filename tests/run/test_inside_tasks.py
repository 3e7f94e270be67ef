"""Commands and searches within a task of a Dask cluster, on one of their own or on that."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from distributed import Client, LocalCluster, get_client

from cluster_setup import ClusterError
from pipelines.errors import InputError

pytest.importorskip("torch", reason="networks are torch's")

DIGITS: dict[str, Any] = {"dataset": "digits", "limit": 200}
SMALL: dict[str, dict[str, Any]] = {
    "svm_grid": {**DIGITS, "n_c": 2, "n_gamma": 2},
    "cross_validate": {**DIGITS, "estimator": ("knn",)},
    "nn_bagging": {**DIGITS, "n_bootstrap": 2, "n_tuning": 1},
    "pagerank": {"nodes": 300, "distributed": True},
    "data_parallel": {"points": 200, "epochs": 1, "ranks": (1,)},
}


@pytest.fixture(scope="module", params=["threads", "processes"])
def outer(request):
    """Two workers of one thread each: a task that waits for others has half of them."""
    how = {"processes": request.param == "processes", "dashboard_address": ":0"}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, **how) as cluster,
        Client(cluster) as client,
    ):
        yield client


def run(command, folder, cluster):
    options = {"results": folder, "cluster": cluster, "quiet": True, "dashboard": "off"}
    result = import_module(f"pipelines.{command}").run(**options, **SMALL[command])
    return str(result.record["status"])


def run_as_task(outer, *how):
    return outer.submit(run, *how, pure=False).result(timeout=120)


def has_processes(outer):
    return not outer.scheduler.address.startswith("inproc")


@pytest.mark.parametrize("command", SMALL)
def test_a_command_within_a_task_has_threads_of_its_own(command, outer, tmp_path):
    if command == "data_parallel":
        with pytest.raises(InputError, match="must use worker processes"):
            run_as_task(outer, command, str(tmp_path / "run"), "threads")
    else:
        assert run_as_task(outer, command, str(tmp_path / "run"), "threads") == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("command", SMALL)
def test_a_command_within_a_task_has_processes_of_its_own_where_it_may(command, outer, tmp_path):
    if has_processes(outer):
        with pytest.raises(ClusterError, match=r"may start no others.*address of that worker's"):
            run_as_task(outer, command, str(tmp_path / "run"), "local")
    else:
        assert run_as_task(outer, command, str(tmp_path / "run"), "local") == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("outer", ["processes"], indirect=True)  # only they have an address
@pytest.mark.parametrize("command", SMALL)
def test_a_command_within_a_task_takes_the_workers_of_its_own_cluster(command, outer, tmp_path):
    tasks = [
        outer.submit(run, command, str(tmp_path / f"run-{i}"), outer.scheduler.address, pure=False)
        for i in range(2)  # on every worker, so that no thread is left but by who waits
    ]
    assert outer.gather(tasks) == ["finished", "finished"]


def search(on_own_cluster):
    from sklearn.datasets import load_iris
    from sklearn.neighbors import KNeighborsClassifier

    from cluster_setup import open_cluster
    from pipelines.search.grid_search import GridSearch

    X, y = load_iris(return_X_y=True)
    candidates = KNeighborsClassifier(), {"n_neighbors": [1, 3]}
    if on_own_cluster:
        return float(GridSearch(*candidates, client=get_client()).fit(X, y).best_score_)
    with open_cluster("threads", 2) as client:
        return float(GridSearch(*candidates, client=client).fit(X, y).best_score_)


@pytest.mark.parametrize("on_own_cluster", [True, False])
def test_a_search_within_a_task(on_own_cluster, outer):
    tasks = [outer.submit(search, on_own_cluster, pure=False) for _ in range(2)]
    assert outer.gather(tasks) == [pytest.approx(search(False))] * 2
