"""What this process holds of its GPU, by a stand-in for NVML."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from cluster_setup.on_this_machine import devices
from cluster_setup.on_this_machine.devices import gpu_memory_held

THIS = os.getpid()


def processes(*held: tuple[int, int | None]) -> list[Any]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in held]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Two GPUs; this process uses them by cupy."""
    stand_in = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=int,
        nvmlDeviceGetUUID="GPU-{}".format,
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=9000 + handle),
        nvmlDeviceGetComputeRunningProcesses=[
            processes((1, 7), (THIS, 300)),
            processes((THIS, 40), (THIS, 5)),
        ].__getitem__,
    )
    monkeypatch.setattr(devices, "_has_nvml", lambda: True)
    monkeypatch.setitem(sys.modules, "pynvml", stand_in)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return stand_in


@pytest.mark.parametrize(
    ("visible", "held"),
    [("0,1", 300), ("1,0", 45), ("GPU-1", 45), ("MIG-7", None), ("", None)],
)
def test_it_is_that_of_the_gpu_that_the_process_computes_on(
    nvml: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, visible: str, held: int | None
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_memory_held() == held


@pytest.mark.parametrize("listed", [[], processes((1, 7)), processes((THIS, None))])
def test_where_nvml_does_not_know_this_process_it_is_that_of_all(
    nvml: SimpleNamespace, listed: list[Any]
) -> None:
    nvml.nvmlDeviceGetComputeRunningProcesses = lambda handle: listed
    assert gpu_memory_held() == 9000


def test_a_process_that_uses_no_gpu_holds_none_of_its_memory(
    nvml: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert gpu_memory_held() is None
    on_gpu = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: True))
    monkeypatch.setitem(sys.modules, "torch", on_gpu)
    assert gpu_memory_held() == 300
    monkeypatch.setattr(devices, "_has_nvml", lambda: False)
    assert gpu_memory_held() is None
