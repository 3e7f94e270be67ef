"""The contract of backends: what a search relies on, whatever solver fits the SVMs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import ShuffleSplit, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from pipelines.data.fits import Fit, Predictions, Progress
from pipelines.data.placement import Fold, to_device
from pipelines.data.scaling import Scaling
from pipelines.svm.backends.base import Backend, Work
from pipelines.svm.kernel import RBF
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.settings import Settings

X, y = load_digits(return_X_y=True)
X, y = ((X - 8) / 4.6)[:600].astype(np.float32), y[:600].astype(np.int32)
CS, GAMMA, DEFAULTS = (0.1, 10.0, 1000.0), 0.01, Settings()


class BackendContract:
    """Tests of a backend; a subclass defines the fixture ``backend``.

    Its cells are those of scikit-learn's ``SVC``: on 600 handwritten digits, at most one
    prediction of a split differs. A fit that stopped at ``max_iter`` says that it did not
    converge, a training part of one class fails by itself, and what ``fit_parts`` returns predicts
    as the cell did.
    """

    @pytest.fixture
    def backend(self) -> Backend:
        """The backend to be tested."""
        raise NotImplementedError("define the fixture backend in the subclass")

    @pytest.mark.parametrize("decision", ["ovo", "ovr"])
    @pytest.mark.parametrize(
        ("n_classes", "splitter", "decisions"),
        [
            (2, StratifiedKFold(3), True),
            (10, StratifiedKFold(3), True),
            (10, ShuffleSplit(2, random_state=0), False),
        ],
        ids=["two", "folds", "shuffled"],
    )
    def test_cells_are_those_of_scikit_learn(
        self, backend: Backend, decision: str, n_classes: int, splitter: Any, decisions: bool
    ) -> None:
        rows = np.flatnonzero(y < n_classes)
        folds = list(splitter.split(X[rows], y[rows]))
        settings = Settings(decision, device=backend.device)
        cells = cells_of(backend, X[rows], y[rows], folds, CS, settings, decisions=decisions)
        assert len(cells) == len(folds) * len(CS)
        for index, cell in enumerate(cells):
            train, validation = folds[index // len(CS)]
            svc = SVC(C=CS[index % len(CS)], gamma=GAMMA)
            reference = OneVsRestClassifier(svc) if decision == "ovr" else svc
            reference.fit(X[rows][train], y[rows][train])
            assert isinstance(cell.predict, Predictions)
            differ = cell.predict("predict") != reference.predict(X[rows][validation])
            assert np.count_nonzero(differ) <= 1
            assert cell.error is None
            assert cell.converged
            assert cell.n_support
            assert cell.fit_seconds
            assert cell.score_seconds
            assert ("decision_function" in cell.predict.by_method) == decisions
            if decisions:
                values = cell.predict("decision_function")
                expected = reference.decision_function(X[rows][validation])
                assert values.shape == expected.shape
                # A pair's value about 0 may go the other way and be a vote for another class.
                assert np.mean(np.abs(values - expected) < 0.02) > 0.99
        assert sum(cell.n_iterations or 0 for cell in cells) > 0

    def test_a_split_is_handed_over_as_soon_as_it_is_done(self, backend: Backend) -> None:
        folds = list(StratifiedKFold(3).split(X, y))
        device_X, settings = to_device(X, backend.device), Settings(device=backend.device)
        work = Work(device_X, y, folds, [0, 2], [GAMMA], CS, settings)
        events = list(backend.fit_cells(work))
        fits = [(event.split, event.candidate) for event in events if isinstance(event, Fit)]
        assert sorted(fits) == [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1), (2, 2)]
        fractions = [event.fraction for event in events if isinstance(event, Progress)]
        assert fractions == sorted(fractions)
        if backend.device == "cpu":
            assert fractions[-1] == 1

    @pytest.mark.parametrize("n_classes", [2, 10])
    @pytest.mark.parametrize("decision", ["ovo", "ovr"])
    @pytest.mark.parametrize("class_weight", [None, "balanced"])
    def test_a_fit_in_numbers_predicts_as_the_cell_does(
        self, backend: Backend, decision: str, n_classes: int, class_weight: str | None
    ) -> None:
        rows = np.flatnonzero(y < n_classes)
        class_X, class_y = X[rows], y[rows]
        settings = Settings(decision, class_weight=class_weight)
        device_X, every_row = to_device(class_X, backend.device), np.arange(len(rows))
        (cell,) = cells_of(backend, class_X, class_y, [(every_row, every_row)], (10.0,), settings)
        parts = backend.fit_parts(device_X, class_y, 10.0, GAMMA, settings)
        support, coefficients, intercepts = parts
        machine = KernelMachine(
            class_X[support],
            coefficients,
            intercepts,
            RBF,
            GAMMA,
            Scaling("none").fit(class_X),
            np.unique(class_y),
            decision,
        )
        assert cell.predict is not None
        assert np.count_nonzero(machine.predict(class_X) != cell.predict("predict", "test")) <= 1

    def test_a_fit_that_is_cut_short_says_so(self, backend: Backend) -> None:
        folds = list(StratifiedKFold(3).split(X, y))[:1]
        settings = Settings(max_iter=2)
        (cell,) = cells_of(backend, X, y, folds, (1000.0,), settings)
        assert not cell.converged
        assert cell.predict is not None
        device_X = to_device(X, backend.device)
        backend.fit_parts(device_X, y, 1000.0, GAMMA, settings)  # without a warning

    def test_a_training_part_of_one_class_fails(self, backend: Backend) -> None:
        rows = np.flatnonzero(y == 3)
        folds = [(rows, np.arange(50)), (np.arange(100, 300), np.arange(50))]
        try:
            cell_of_one_class, cell = cells_of(backend, X, y, folds, (1.0,))
        except ValueError:  # the task then fails as a whole
            return
        assert cell_of_one_class.error
        assert cell.error is None


def cells_of(
    backend: Backend,
    X: np.ndarray,
    y: np.ndarray,
    folds: list[Fold],
    Cs: Sequence[float] = CS,
    settings: Settings = DEFAULTS,
    **work_options: Any,
) -> list[Fit]:
    """The fits of one gamma, split by split, and by C within each."""
    device_X, numbers = to_device(X, backend.device), range(len(folds))
    work = Work(device_X, y, folds, numbers, [GAMMA], Cs, settings, **work_options)
    fits = [event for event in backend.fit_cells(work) if isinstance(event, Fit)]
    return sorted(fits, key=lambda fit: (fit.split, fit.candidate))
