from __future__ import annotations

import pytest

from cluster_setup.on_this_machine.devices import _restrict, available_cores


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
    found = _restrict(["A", "B", "C"], ["GPU-aa1", "GPU-bb2", "GPU-cc3"], visible)
    assert found == names


def test_a_job_uses_the_cores_it_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    for name in ("SLURM_CPUS_PER_TASK", "NSLOTS", "NCPUS"):
        monkeypatch.delenv(name, raising=False)
    assert available_cores() == 8
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert available_cores() == 3
