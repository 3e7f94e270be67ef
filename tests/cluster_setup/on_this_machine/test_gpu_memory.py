"""What this process holds of its GPU, by a stand-in for NVML."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from cluster_setup.on_this_machine import devices
from cluster_setup.on_this_machine.devices import gpu_memory_held
from tests.cluster_setup.nvml_stand_in import Card

THIS = os.getpid()


@pytest.fixture(autouse=True)
def cards(monkeypatch, machine):
    """Three GPUs, one of them sliced; this process uses them by cupy."""
    part = Card("C1", "MIG-7", used=70, processes=((1, 7), (THIS, 11)))
    cards = [
        Card("A", "GPU-0", used=9000, processes=((1, 7), (THIS, 300))),
        Card("B", "GPU-1", used=9001, processes=((THIS, 40), (THIS, 5))),
        Card("C", "GPU-2", used=9002, slices=[part]),
    ]
    machine(*cards)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    return cards


@pytest.mark.parametrize(
    ("visible", "held"),
    [("0,1", 300), ("1,0", 45), ("GPU-1", 45), ("MIG-7", 11), ("2", 11), ("", None)],
)
def test_it_is_that_of_the_gpu_that_the_process_computes_on(monkeypatch, visible, held):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_memory_held() == held


@pytest.mark.parametrize("listed", [(), ((1, 7),), ((THIS, None),)])
def test_where_nvml_does_not_know_this_process_it_is_that_of_all(cards, listed):
    cards[0].processes = listed
    assert gpu_memory_held() == 9000


def test_a_process_that_uses_no_gpu_holds_none_of_its_memory(
    monkeypatch,
):
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert gpu_memory_held() is None
    on_gpu = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: True))
    monkeypatch.setitem(sys.modules, "torch", on_gpu)
    assert gpu_memory_held() == 300
    monkeypatch.setattr(devices, "_has_nvml", lambda: False)
    assert gpu_memory_held() is None
