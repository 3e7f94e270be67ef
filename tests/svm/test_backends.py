"""One contract for every backend; one that cannot run here is skipped by name."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import ShuffleSplit, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from cluster_setup.on_this_machine.devices import visible_gpus
from pipelines.data.fits import Fit, Predictions, Progress
from pipelines.data.placement import Fold, to_device
from pipelines.data.scaling import Scaling
from pipelines.errors import InputError
from pipelines.svm.backends import BACKENDS, load_backend, resolve_backend
from pipelines.svm.backends.base import OUT_OF_MEMORY, Backend, Work
from pipelines.svm.kernel import RBF
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.settings import Settings

X, y = load_digits(return_X_y=True)
X, y = ((X - 8) / 4.6)[:600].astype(np.float32), y[:600].astype(np.int32)
CS, GAMMA, DEFAULTS = (0.1, 10.0, 1000.0), 0.01, Settings()


@pytest.fixture(
    params=[(name, device) for name in BACKENDS for device in BACKENDS[name]], ids="-".join
)
def backend(request: pytest.FixtureRequest) -> Backend:
    name, device = request.param
    if device == "gpu" and not visible_gpus():
        pytest.skip(f"--solver {name} --device gpu needs a GPU, and NVML sees none here")
    needs = BACKENDS[name][device].needs
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"--solver {name} --device {device} needs {needs}, which is not installed")
    return load_backend(name, device)


def fits_of(
    backend: Backend,
    X: np.ndarray,
    y: np.ndarray,
    folds: list[Fold],
    Cs: tuple[float, ...] = CS,
    settings: Settings = DEFAULTS,
    **more: Any,
) -> list[Fit]:
    """The fits of one gamma, split by split."""
    device_X, numbers = to_device(X, backend.device), range(len(folds))
    work = Work(device_X, y, folds, numbers, [GAMMA], Cs, settings, **more)
    fits = [item for item in backend.fit_cells(work) if isinstance(item, Fit)]
    return sorted(fits, key=lambda fit: (fit.split, fit.candidate))


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
@pytest.mark.parametrize(
    ("n_classes", "splitter", "decisions"),
    [
        pytest.param(2, StratifiedKFold(3), True, marks=pytest.mark.slow),
        (10, StratifiedKFold(3), True),
        pytest.param(10, ShuffleSplit(2, random_state=0), False, marks=pytest.mark.slow),
    ],
    ids=["two", "folds", "shuffled"],
)
def test_cells_are_those_of_scikit_learn(
    backend: Backend, decision: str, n_classes: int, splitter: Any, decisions: bool
) -> None:
    rows = np.flatnonzero(y < n_classes)
    some_X, some_y = X[rows], y[rows]
    folds = list(splitter.split(some_X, some_y))
    settings = Settings(decision, device=backend.device)
    cells = fits_of(backend, some_X, some_y, folds, settings=settings, decisions=decisions)
    assert len(cells) == len(folds) * len(CS)
    for index, cell in enumerate(cells):
        train, validation = folds[index // len(CS)]
        svc = SVC(C=CS[index % len(CS)], gamma=GAMMA)
        fitted = OneVsRestClassifier(svc) if decision == "ovr" else svc
        fitted.fit(some_X[train], some_y[train])
        assert isinstance(cell.predict, Predictions)
        differ = cell.predict("predict") != fitted.predict(some_X[validation])
        assert np.count_nonzero(differ) <= 1
        assert cell.error is None
        assert cell.converged
        assert cell.n_support
        assert cell.fit_seconds
        assert cell.score_seconds
        assert ("decision_function" in cell.predict.by_method) == decisions
        if decisions:
            values = cell.predict("decision_function")
            expected = fitted.decision_function(some_X[validation])
            assert values.shape == expected.shape
            # A pair's value about 0 may go the other way and be a vote for another class.
            assert np.mean(np.abs(values - expected) < 0.02) > 0.99
    assert sum(cell.n_iterations or 0 for cell in cells) > 0


def test_a_split_is_handed_over_as_soon_as_it_is_done(backend: Backend) -> None:
    folds = list(StratifiedKFold(3).split(X, y))
    device_X, settings = to_device(X, backend.device), Settings(device=backend.device)
    items = list(backend.fit_cells(Work(device_X, y, folds, [0, 2], [GAMMA], CS, settings)))
    fits = [(item.split, item.candidate) for item in items if isinstance(item, Fit)]
    assert sorted(fits) == [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1), (2, 2)]
    fractions = [item.fraction for item in items if isinstance(item, Progress)]
    assert fractions == sorted(fractions)
    if backend.device == "cpu":
        assert fractions[-1] == 1


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("decision", ["ovo", "ovr"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_fit_in_numbers_predicts_as_the_cell_does(
    backend: Backend, decision: str, n_classes: int, class_weight: str | None
) -> None:
    rows = np.flatnonzero(y < n_classes)
    some_X, some_y, settings = X[rows], y[rows], Settings(decision, class_weight=class_weight)
    device_X, every = to_device(some_X, backend.device), np.arange(len(rows))
    (cell,) = fits_of(backend, some_X, some_y, [(every, every)], (10.0,), settings)
    support, coefficients, intercepts = backend.fit_parts(device_X, some_y, 10.0, GAMMA, settings)
    machine = KernelMachine(
        some_X[support],
        coefficients,
        intercepts,
        RBF,
        GAMMA,
        Scaling("none").fit(some_X),
        np.unique(some_y),
        decision,
    )
    assert cell.predict is not None
    assert np.count_nonzero(machine.predict(some_X) != cell.predict("predict", "test")) <= 1


def test_a_fit_that_is_cut_short_says_so(backend: Backend) -> None:
    folds = list(StratifiedKFold(3).split(X, y))[:1]
    (cell,) = fits_of(backend, X, y, folds, (1000.0,), Settings(max_iter=2))
    assert not cell.converged
    assert cell.predict is not None
    backend.fit_parts(
        to_device(X, backend.device), y, 1000.0, GAMMA, Settings(max_iter=2)
    )  # without a warning


def test_a_fit_without_memory_says_so(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*arguments: object, **options: object) -> None:
        raise MemoryError("std::bad_alloc")

    step = "solve" if hasattr(backend, "solve") else "fit"
    monkeypatch.setattr(backend, step, exhausted)
    folds = list(StratifiedKFold(3).split(X, y))[:1]
    (cell,) = fits_of(backend, X, y, folds, (1.0,))
    assert cell.error == f"{OUT_OF_MEMORY}: std::bad_alloc"
    assert cell.predict is None


def test_a_training_part_of_one_class_fails(backend: Backend) -> None:
    rows = np.flatnonzero(y == 3)
    folds = [(rows, np.arange(50)), (np.arange(100, 300), np.arange(50))]
    try:
        one, two = fits_of(backend, X, y, folds, (1.0,))
    except ValueError:  # the task then fails as a whole
        return
    assert one.error
    assert two.error is None


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
