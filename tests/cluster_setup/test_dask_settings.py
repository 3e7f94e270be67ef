from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dask
import pytest

from cluster_setup import open_cluster
from cluster_setup.dask_settings import SETTINGS, as_environment


def test_a_worker_neither_spills_nor_pauses(one_worker):
    def fractions(dask_worker):
        manager = dask_worker.memory_manager
        return (
            manager.memory_target_fraction,
            manager.memory_spill_fraction,
            manager.memory_pause_fraction,
        )

    assert list(one_worker.run(fractions).values()) == [(False, False, False)]


PROGRAM = """
import os
from cluster_setup import open_cluster

if __name__ == "__main__":
    with open_cluster("local", 1) as client:
        print(*client.run(os.getenv, "MALLOC_TRIM_THRESHOLD_").values())
"""


def test_a_worker_keeps_freed_memory_for_the_next_step(tmp_path):
    """In a process of its own: workers that others start with Dask leave the variable in theirs."""
    (tmp_path / "program.py").write_text(PROGRAM)
    unset = {name: value for name, value in os.environ.items() if name != "MALLOC_TRIM_THRESHOLD_"}
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    words = subprocess.check_output(
        [sys.executable, "program.py"], cwd=tmp_path, env=unset | {"PYTHONPATH": path}, text=True
    )
    assert words == "None\n"


@pytest.mark.parametrize("order", [None, "FASTEST_FIRST"])
def test_gpus_have_nvidias_numbers_in_this_process_and_in_workers(monkeypatch, order):
    def cuda_order():
        return os.environ.get("CUDA_DEVICE_ORDER")

    monkeypatch.setenv("CUDA_DEVICE_ORDER", order or "PCI_BUS_ID")
    if order is None:
        monkeypatch.delenv("CUDA_DEVICE_ORDER")
    with open_cluster("local", 1) as client:
        assert [cuda_order(), *client.run(cuda_order).values()] == [order or "PCI_BUS_ID"] * 2


def test_settings_as_dask_reads_them():
    config = dask.config.collect_env(as_environment(SETTINGS))
    read = {name: dask.config.get(name, config=config) for name in SETTINGS}
    assert read == SETTINGS
