"""Every backend keeps the contract; one that cannot run here is skipped by name."""

from __future__ import annotations

import importlib.util

import pytest
from sklearn.model_selection import StratifiedKFold

from cluster_setup.on_this_machine.devices import visible_gpus
from pipelines.errors import InputError
from pipelines.svm.backends import BACKENDS, load_backend, resolve_backend
from pipelines.svm.backends.base import OUT_OF_MEMORY
from pipelines.testing import BackendContract
from pipelines.testing.backends import X, cells_of, y


@pytest.fixture(
    params=[(name, device) for name in BACKENDS for device in BACKENDS[name]], ids="-".join
)
def backend(request):
    name, device = request.param
    if device == "gpu" and not visible_gpus():
        pytest.skip(f"--solver {name} --device gpu needs a GPU, and NVML sees none here")
    needs = BACKENDS[name][device].needs
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"--solver {name} --device {device} needs {needs}, which is not installed")
    return load_backend(name, device)


class TestBackends(BackendContract):
    @pytest.fixture
    def backend(self, backend):
        return backend


def test_a_fit_without_memory_says_so(backend, monkeypatch):
    def exhausted(*arguments, **options):
        raise MemoryError("std::bad_alloc")

    step = "solve" if hasattr(backend, "solve") else "fit"
    monkeypatch.setattr(backend, step, exhausted)
    folds = list(StratifiedKFold(3).split(X, y))[:1]
    (cell,) = cells_of(backend, X, y, folds, (1.0,))
    assert cell.error == f"{OUT_OF_MEMORY}: std::bad_alloc"
    assert cell.predict is None


def test_auto_is_the_backend_of_the_device() -> None:
    assert resolve_backend("auto", "cpu") == "path"


@pytest.mark.parametrize(
    ("name", "device", "words"),
    [
        ("sklaern", "cpu", "^solver must be auto or one of .* got 'sklaern'; did you mean"),
        (
            "sklearn",
            "gpu",
            "solver='sklearn' computes on the CPU, the workers here on the GPU; use device='cpu'",
        ),
    ],
)
def test_a_backend_that_cannot_be_had_is_refused(name: str, device: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        resolve_backend(name, device)


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"cuml, which is not installed here; run .*\[gpu\]"):
        resolve_backend("cuml", "gpu")
