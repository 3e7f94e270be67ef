from __future__ import annotations

import sys
import types
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import LocalCluster

from cluster_setup import ClusterOptions, open_cluster, resolve_kind
from cluster_setup.kinds import cuda
from cluster_setup.on_this_machine import devices
from pipelines.errors import InputError
from pipelines.run.cluster import opened

Refusal = Callable[..., str]


def gpus(monkeypatch: pytest.MonkeyPatch, names: list[str], installed: bool) -> None:
    monkeypatch.setattr(devices, "visible_gpus", lambda: names)
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


def test_cuda_without_a_gpu(monkeypatch: pytest.MonkeyPatch, refusal: Refusal) -> None:
    gpus(monkeypatch, [], installed=True)
    assert refusal("cuda").startswith("--cluster cuda needs a GPU, but NVML sees none here; use")


def test_cuda_without_dask_cuda(monkeypatch: pytest.MonkeyPatch, refusal: Refusal) -> None:
    gpus(monkeypatch, ["H200"], installed=False)
    assert "needs dask-cuda, which is not installed here; run " in refusal("cuda")


def test_cuda_with_more_workers_than_gpus(
    monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    gpus(monkeypatch, ["H200"], installed=True)
    assert "--workers must be at most 1 with --cluster cuda" in refusal("cuda", workers=2)


DRIVER = "driver {} or newer, found {}"
CARD = "compute capability {} or newer, found {}"


@pytest.mark.parametrize(
    ("package", "driver", "capability", "said"),
    [
        ("cupy-cuda13x", "535.183.01", "9.0", DRIVER.format(580, "535.183.01")),
        ("cupy-cuda13x", "580.65.06", "10.0", None),
        ("cupy-cuda13x", "580.65.06", "7.0", CARD.format(7.5, 7.0)),  # a Volta
        ("cupy-cuda12x", "535.183.01", "7.0", None),
        ("cupy-cuda12x", "470.1", "7.0", DRIVER.format(525, "470.1")),
        ("cupy-cuda12x", "535.183.01", "6.1", CARD.format(7.0, 6.1)),
    ],
)
def test_a_driver_and_a_gpu_too_old_are_named_beside_what_is_needed(
    monkeypatch: pytest.MonkeyPatch,
    refusal: Refusal,
    tmp_path: Path,
    package: str,
    driver: str,
    capability: str,
    said: str | None,
) -> None:
    monkeypatch.setattr(cuda, "is_installed", lambda: True)
    monkeypatch.setattr(devices, "_has_nvml", lambda: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    answers = {
        "Init": None,
        "Shutdown": None,
        "SystemGetDriverVersion": driver,
        "DeviceGetCount": 1,
        "DeviceGetHandleByIndex": 0,
        "DeviceGetName": "a card",
        "DeviceGetUUID": "GPU-a",
        "DeviceGetCudaComputeCapability": capability.split("."),
    }
    nvml = {f"nvml{name}": lambda *_, answer=answer: answer for name, answer in answers.items()}
    # Dask has imported its own.
    monkeypatch.setitem(sys.modules, "pynvml", types.SimpleNamespace(**nvml))

    def version(name: str) -> str:
        if name != package:
            raise PackageNotFoundError
        return "14.2.0"

    monkeypatch.setattr(devices, "version", version)
    asked = ClusterOptions("threads", device="gpu")
    if said is None:
        assert devices.cuda_needs() is None
        with opened(asked, tmp_path, False) as cluster:
            assert cluster.device == "gpu"
        return
    assert f"{said}; update the driver" in refusal("cuda")
    with pytest.raises(InputError, match=f"{said}, at .*; update the driver"):
        opened(asked, tmp_path, False).__enter__()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What dask-cuda is asked for, which is not there."""
    gpus(monkeypatch, ["H200", "H200"], installed=True)
    asked: dict[str, Any] = {}

    class LocalCUDACluster(LocalCluster):
        def __init__(self, **options: object) -> None:
            asked.update(options)
            super().__init__(n_workers=0, processes=False, dashboard_address="127.0.0.1:0")

    module = types.ModuleType("dask_cuda")
    module.LocalCUDACluster = LocalCUDACluster  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dask_cuda", module)
    return asked


def test_cuda_asks_for_one_worker_a_gpu_and_no_spilling(asked: dict[str, Any]) -> None:
    with open_cluster("cuda") as client:
        assert client.status == "running"
    assert asked["threads_per_worker"] == 1
    assert asked["device_memory_limit"] is None
    assert asked["host"] == "127.0.0.1"
    assert asked["protocol"] == "tls://"
    assert asked["security"].require_encryption
    assert not any(name.startswith("rmm") for name in asked)


def test_dasks_settings_ask_for_ucx(asked: dict[str, Any]) -> None:
    settings = {"distributed.comm.default-scheme": "ucx"}
    with dask.config.set(settings), open_cluster("cuda", tls=False):
        pass
    assert asked["protocol"] == "ucx://"


@pytest.mark.parametrize("torch", ["13.0", None, "not installed"])
def test_one_pool_serves_all_that_are_installed_for_cuda(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, torch: str | None
) -> None:
    module = None if torch == "not installed" else types.SimpleNamespace(cuda=torch)
    monkeypatch.setitem(sys.modules, "torch.version", module)
    with open_cluster("cuda", rmm_pool="0.8"):
        pass
    assert {name: value for name, value in asked.items() if name.startswith("rmm")} == {
        "rmm_pool_size": "0.8",
        "rmm_track_allocations": True,
        "rmm_allocator_external_lib_list": ["cupy", "torch"] if torch == "13.0" else ["cupy"],
    }
