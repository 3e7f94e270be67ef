from __future__ import annotations

import logging
import os
import socket
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.error import HTTPError
from urllib.request import urlopen

import dask
import pytest
from distributed import Client, LocalCluster
from distributed.client import AllExit

from cluster_setup import KINDS, ClusterError, address, cuda, open_cluster, resolve_kind
from cluster_setup.local import available_cores
from cluster_setup.security import in_folder
from cluster_setup.settings import SETTINGS, as_environment
from cluster_setup.workers import describe_workers, how_to_watch, threads_per_task


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
        ("tls://host:99999", "a port of at most 65535, got 'tls://host:99999'"),
        ("slrum", "got 'slrum'; did you mean slurm?"),
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

    class LocalCUDACluster(LocalCluster):
        def __init__(self, **options: object) -> None:
            asked.update(options)
            super().__init__(n_workers=0, processes=False, dashboard_address="127.0.0.1:0")

    module = types.ModuleType("dask_cuda")
    module.LocalCUDACluster = LocalCUDACluster  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "dask_cuda", module)
    with open_cluster("cuda") as client:
        assert client.status == "running"
    assert asked["threads_per_worker"] == 1
    assert asked["device_memory_limit"] is None
    assert asked["host"] == "127.0.0.1"
    assert asked["protocol"] == "tls://"
    assert asked["security"].require_encryption


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"profile": "sulis"}, "--profile is for --cluster slurm, pbs, sge, mpi, srun, got"),
        ({"adaptive": (1, 2)}, "--adaptive is for --cluster slurm, pbs, sge, got --cluster local"),
        ({"adaptive": (3, 2)}, "--adaptive must be two numbers, 1 or more, the smaller first"),
        ({"adaptive": (1, 2), "workers": 2}, "--workers and --adaptive exclude each other"),
        ({"workers": 0}, "--workers must be at least 1, got 0"),
    ],
)
def test_options_that_cannot_be(options: dict, words: str) -> None:
    with pytest.raises(ClusterError) as caught, open_cluster("local", **options):
        pass
    assert words in str(caught.value)


def test_auto_with_a_profile_is_its_queue() -> None:
    assert resolve_kind("auto", "apocrita") == "sge"


@pytest.mark.skipif(
    find_spec("dask_jobqueue") is None, reason="no queues: dask-jobqueue is not installed"
)
@pytest.mark.parametrize("kind", ["slurm", "pbs", "sge"])
def test_a_queue_whose_commands_are_not_here(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("PATH", "")
    words = refusal(kind)
    assert words.startswith(f"--cluster {kind} needs the command ")
    assert words.endswith("which is not here; start on a login node, or use --cluster local")


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
    assert "with a port of at most 65535" in refusal("tcp://nowhere")


def test_a_scheduler_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "SECONDS_FOR_WORKERS", 0.5)
    with LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster:
        words = refusal(cluster.scheduler_address)
    assert "must have 1 worker(s), has 0" in words


@pytest.mark.parametrize("protocol", ["tcp://", "tls://"])
def test_a_running_scheduler_is_used_and_left_running(tmp_path: Path, protocol: str) -> None:
    with in_folder(tmp_path) as keys:
        tls = keys.get_tls_config_for_role("client")
        setting = "distributed.comm.tls"
        own = {
            f"{setting}.ca-file": tls["ca_file"],
            f"{setting}.client.cert": tls["cert"],
            f"{setting}.client.key": tls["key"],
        }
        with (
            LocalCluster(
                n_workers=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", protocol=protocol,
                security=keys if protocol == "tls://" else None,
            ) as cluster,
            # What a user of a scheduler with TLS has in Dask's own configuration.
            dask.config.set(own if protocol == "tls://" else {}),
        ):  # fmt: skip
            for numbers in ((1, 2), (3, 4)):
                with open_cluster(cluster.scheduler_address) as client:
                    assert client.submit(sum, numbers).result() == sum(numbers)


def test_workers_that_die_while_they_are_asked_are_asked_again() -> None:
    answers = [OSError("the worker died"), {}, {"tcp://127.0.0.1:1": {"host": "h"}}]
    client = Mock()
    client.run.side_effect = answers
    assert describe_workers(client) == [{"address": "tcp://127.0.0.1:1", "host": "h"}]
    client.run.side_effect = None
    client.run.return_value = {}  # no worker is no worker with a GPU
    with pytest.raises(ClusterError, match="none answered"):
        describe_workers(client)


def test_what_dask_leaves_after_ctrl_c_is_no_line(
    one_worker: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)  # Dask has silenced this handler, too
    log = logging.getLogger("asyncio")
    for error in (AllExit(), ValueError("worth a line")):
        log.error("never retrieved", exc_info=error)
    (record,) = caplog.records
    assert "worth a line" in str(record.exc_info)


def test_workers_describe_themselves(four_workers: Client) -> None:
    workers = describe_workers(four_workers)
    assert len({worker["pid"] for worker in workers}) == 4
    assert {worker["dask"] for worker in workers} == {"2026.7.1"}
    assert all(worker["address"].startswith("tls://127.0.0.1:") for worker in workers)


def test_only_loopback_is_listened_on(one_worker: Client) -> None:
    assert one_worker.scheduler.address.startswith("tls://127.0.0.1:")
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


@pytest.mark.parametrize(("jobs", "threads"), [((None, None), 4), (("7", "8"), 8)])
def test_jobs_on_one_host_have_cores_of_their_own(jobs: tuple, threads: int) -> None:
    workers = [{"host": "node1", "job": job, "cores": 8, "threads": 1} for job in jobs]
    assert threads_per_task(workers) == threads


def test_a_job_uses_the_cores_it_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(8), raising=False)
    for name in ("SLURM_CPUS_PER_TASK", "NSLOTS", "NCPUS"):
        monkeypatch.delenv(name, raising=False)
    assert available_cores() == 8
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert available_cores() == 3


def test_the_dashboard_listens_where_it_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open_cluster("local", 1, dashboard=str(port)) as client:
        assert client.dashboard_link == f"http://127.0.0.1:{port}/status"
        assert urlopen(client.dashboard_link).status == 200


def test_no_dashboard_is_none() -> None:
    with open_cluster("local", 1, dashboard="off") as client:
        for page in ("status", "info/main/workers.html", "json/counts.json"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(client.dashboard_link.replace("status", page))


def test_a_dashboard_that_is_no_port_is_refused() -> None:
    with (
        pytest.raises(ClusterError, match="--dashboard must be a port, host:port or off, got"),
        open_cluster("local", dashboard="on"),
    ):
        pass


def test_a_worker_neither_spills_nor_pauses(one_worker: Client) -> None:
    def fractions(dask_worker: Any) -> tuple:
        manager = dask_worker.memory_manager
        return (
            manager.memory_target_fraction,
            manager.memory_spill_fraction,
            manager.memory_pause_fraction,
        )

    assert list(one_worker.run(fractions).values()) == [(False, False, False)]


def test_settings_as_dask_reads_them() -> None:
    told = dask.config.collect_env(as_environment(SETTINGS))
    read = {name: dask.config.get(name, config=told) for name in SETTINGS}
    assert read == SETTINGS
