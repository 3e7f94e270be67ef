from __future__ import annotations

import contextlib
import socket
import types
from collections.abc import Iterator

import pytest
from distributed import Client, LocalCluster

from cluster_setup import KINDS, ClusterError, address, cuda, open_cluster, resolve_kind
from cluster_setup.workers import describe_workers, how_to_watch


def refusal(kind: str, workers: int | None = None) -> str:
    with pytest.raises(ClusterError) as caught, open_cluster(kind, workers):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


def gpus(monkeypatch: pytest.MonkeyPatch, names: list[str], installed: bool) -> None:
    monkeypatch.setattr(cuda, "visible_gpus", lambda: names)
    monkeypatch.setattr(cuda, "is_installed", lambda: installed)


@pytest.mark.parametrize(
    ("names", "installed", "kind"),
    [([], True, "local"), (["H200"], False, "local"), (["H200"], True, "cuda")],
)
def test_auto_takes_the_gpus_where_they_can_be_used(
    monkeypatch: pytest.MonkeyPatch, names: list[str], installed: bool, kind: str
) -> None:
    gpus(monkeypatch, names, installed)
    assert resolve_kind("auto") == kind


def test_a_kind_is_a_name_in_the_table_or_an_address() -> None:
    assert [resolve_kind(kind) for kind in KINDS] == list(KINDS)
    assert resolve_kind("tls://node1:8786") == "tls://node1:8786"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("locla", "got 'locla'; did you mean local?"),
        ("node1:8786", "for instance tcp://127.0.0.1:8786"),
        ("slurm", "slurm is not in this version"),
    ],
)
def test_an_unknown_kind_is_refused(kind: str, words: str) -> None:
    assert words in refusal(kind)


def test_cuda_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, [], installed=True)
    assert refusal("cuda").startswith("--cluster cuda needs a GPU, but NVML sees none here; use")


def test_cuda_without_dask_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, ["H200"], installed=False)
    assert "needs dask-cuda, which is not installed here; run pip install" in refusal("cuda")


def test_cuda_with_more_workers_than_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, ["H200"], installed=True)
    assert "--workers must be at most 1 with --cluster cuda" in refusal("cuda", workers=2)


def test_cuda_asks_for_one_worker_a_gpu_and_no_spilling(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, ["H200", "H200"], installed=True)
    asked = {}

    @contextlib.contextmanager
    def local_cuda_cluster(**options: object) -> Iterator[LocalCluster]:
        asked.update(options)
        with LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster:
            yield cluster

    module = types.ModuleType("dask_cuda")
    module.LocalCUDACluster = local_cuda_cluster  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "dask_cuda", module)
    with open_cluster("cuda") as client:
        assert client.status == "running"
    assert asked["threads_per_worker"] == 1
    assert asked["device_memory_limit"] is None
    assert asked["host"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        (None, ["A", "B", "C"]),
        ("", []),
        ("2,0", ["C", "A"]),
        ("1,7,0", ["B"]),
        ("GPU-bb", ["B"]),
        ("-1", []),
        ("MIG-1234", ["MIG slice"]),
    ],
)
def test_visible_gpus_are_cudas(visible: str | None, names: list[str]) -> None:
    found = cuda._restrict(["A", "B", "C"], ["GPU-aa1", "GPU-bb2", "GPU-cc3"], visible)
    assert found == names


def test_no_scheduler_at_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    words = refusal(f"tcp://127.0.0.1:{port}")
    assert f"got tcp://127.0.0.1:{port}:" in words
    assert "refused; start one with 'dask scheduler'" in words
    assert "missing port number" in refusal("tcp://nowhere")


def test_a_scheduler_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "SECONDS_FOR_WORKERS", 0.5)
    with LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster:
        words = refusal(cluster.scheduler_address)
    assert "must have 1 worker(s), has 0" in words


def test_a_running_scheduler_is_used_and_left_running(one_worker: Client) -> None:
    at = one_worker.scheduler.address
    with open_cluster(at) as client:
        assert client.submit(sum, (1, 2)).result() == 3
    assert one_worker.submit(sum, (3, 4)).result() == 7


def test_workers_describe_themselves(four_workers: Client) -> None:
    workers = describe_workers(four_workers)
    assert len({worker["pid"] for worker in workers}) == 4
    assert {worker["dask"] for worker in workers} == {"2026.7.1"}
    assert all(worker["address"].startswith("tcp://127.0.0.1:") for worker in workers)


def test_only_loopback_is_listened_on(one_worker: Client) -> None:
    assert one_worker.scheduler.address.startswith("tcp://127.0.0.1:")
    server = one_worker.cluster.scheduler.http_server
    sockets = server._sockets.values()
    assert {listening.getsockname()[0] for listening in sockets} == {"127.0.0.1"}


def test_the_way_to_the_dashboard_is_said(
    one_worker: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    assert how_to_watch(one_worker) == [f"dashboard  {one_worker.dashboard_link}"]
    monkeypatch.setenv("SSH_CONNECTION", "1.2.3.4 5 6.7.8.9 22")
    line = how_to_watch(one_worker)[1]
    port = one_worker.dashboard_link.split(":")[2].split("/")[0]
    assert f"ssh -N -L {port}:127.0.0.1:{port} " in line
    assert line.endswith(f"http://localhost:{port}/status")
