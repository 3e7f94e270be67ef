"""Networks that are trained together: the memory they are planned with."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pipelines.nn.fit import DATA_SHARE, GIB, memory_of
from pipelines.nn.settings import Training


def test_a_gpu_is_planned_with_by_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by what it has: here others hold three quarters of it."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (20 * GIB, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 5 * GIB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 3 * GIB)
    on_gpu = Training(device="gpu")
    assert memory_of(on_gpu) == int(DATA_SHARE * 22 * GIB)
    assert memory_of(replace(on_gpu, memory_bytes=GIB)) == GIB
    assert memory_of(Training()) is None
