from __future__ import annotations

import pytest

from cluster_setup.on_this_machine.devices import available_cores, visible_gpus
from tests.cluster_setup.nvml_stand_in import Card


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        (None, ["A", "B1", "B2", "C"]),
        ("", []),
        ("2,0", ["C", "A"]),
        ("0,7,2", ["A"]),
        ("0,0", ["A"]),
        ("1", ["B1", "B2"]),
        ("GPU-cc", ["C"]),
        ("GPU-bb", ["B1", "B2"]),
        ("MIG-b2", ["B2"]),
        ("MIG-GPU-bb2/8/0", ["B2"]),
        ("MIG-1234", []),
        ("-1", []),
        ("NoDevFiles", []),
    ],
)
def test_visible_gpus_are_cudas(
    machine,
    monkeypatch,
    visible,
    names,
):
    parts = [Card("B1", "MIG-b1"), Card("B2", "MIG-b2")]
    machine(Card("A", "GPU-aa1"), Card("B", "GPU-bb2", slices=parts), Card("C", "GPU-cc3"))
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.name for gpu in visible_gpus()] == names


def test_a_gpu_whose_slices_are_still_to_be_made_is_none(machine):
    class Sliced(list):
        def __bool__(self):
            return True

    machine(Card("A", "GPU-a", slices=Sliced()), Card("B", "GPU-b", slices=[]))
    assert [gpu.name for gpu in visible_gpus()] == ["B"]


def test_a_job_uses_the_cores_it_asked_for(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    for name in ("SLURM_CPUS_PER_TASK", "NSLOTS", "NCPUS"):
        monkeypatch.delenv(name, raising=False)
    assert available_cores() == 8
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert available_cores() == 3
