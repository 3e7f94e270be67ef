"""``--solver path`` on a CPU: all C and all folds of a gamma for the price of a few fits."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipelines.data.placement import Fold
from pipelines.svm.path.path import PathResult, cross_validate_path
from pipelines.svm.path_svc import PathSVC
from pipelines.svm.solvers.base import NOT_CONVERGED, OK, OUT_OF_MEMORY, Cell, Settings

ONE_CLASS = "failed: the training rows are of one class"


class PathSolver:
    """The path solver; see ``docs/path-solver.md``."""

    device = "cpu"
    shares_c = True
    shares_folds = True

    def __init__(self) -> None:
        # A unit uses every thread it is given: two at once would only be in each other's way.
        self._one_at_a_time = threading.Lock()
        self._key: tuple[Any, ...] = ()
        self._kept: dict[str, np.ndarray] = {}

    def fit_cells(
        self,
        X: np.ndarray,
        y: np.ndarray,
        gamma: float,
        Cs: Sequence[float],
        folds: Sequence[Fold],
        settings: Settings,
    ) -> list[Cell]:
        """See ``Solver.fit_cells``; distances are kept from one gamma to the next."""
        try:
            with self._one_at_a_time:
                result = self._validate(X, y, gamma, Cs, folds, settings)
        except MemoryError:
            return [Cell(status=OUT_OF_MEMORY)] * (len(folds) * len(Cs))
        return [
            Cell(status=ONE_CLASS) if np.ptp(y[train]) == 0 else _cell(result, c, fold)
            for fold, (train, _) in enumerate(folds)
            for c in range(len(Cs))
        ]

    def _validate(
        self,
        X: np.ndarray,
        y: np.ndarray,
        gamma: float,
        Cs: Sequence[float],
        folds: Sequence[Fold],
        settings: Settings,
    ) -> PathResult:
        return cross_validate_path(
            X,
            y,
            gamma,
            Cs,
            folds,
            decision=settings.decision,
            tol=settings.tol,
            max_iter=settings.max_iter,
            n_threads=settings.n_threads,
            memory_bytes=settings.memory_bytes,
            class_weight=settings.class_weight,
            kernel=settings.kernel.name,
            degree=settings.kernel.degree,
            coef0=settings.kernel.coef0,
            kept=self._kept_for(X, folds, settings),
        )

    def _kept_for(
        self, X: np.ndarray, folds: Sequence[Fold], settings: Settings
    ) -> dict[str, np.ndarray]:
        """What units on the same rows, folds and kernel share; that of earlier ones is dropped."""
        key = (X, *(rows for fold in folds for rows in fold), settings.kernel.name)
        same = len(key) == len(self._key) and all(
            a is b for a, b in zip(key[:-1], self._key[:-1], strict=True)
        )
        if not same or key[-1] != self._key[-1]:
            self._key, self._kept = key, {}
        return self._kept

    def fit(self, X: np.ndarray, y: np.ndarray, C: float, gamma: float, settings: Settings) -> Any:
        """See ``Solver.fit``; a ``PathSVC``."""
        with self._one_at_a_time:
            self._key, self._kept = (), {}  # the fit needs the memory
            return PathSVC(
                C=C,
                gamma=gamma,
                kernel=settings.kernel.name,
                degree=settings.kernel.degree,
                coef0=settings.kernel.coef0,
                decision=settings.decision,
                class_weight=settings.class_weight,
                tol=settings.tol,
                max_iter=settings.max_iter,
                n_threads=settings.n_threads,
                memory_bytes=settings.memory_bytes,
            ).fit(X, y)

    def parts(self, fitted: PathSVC, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See ``Solver.parts``."""
        machine = fitted.machine_
        return fitted.support_, machine.coefficients, machine.intercepts


def _cell(result: PathResult, c: int, fold: int) -> Cell:
    place = (0, c, fold)
    return Cell(
        n_errors=int(result.n_errors[place]),
        n_support=int(result.n_support[place]),
        n_iterations=int(result.n_iterations[place]),
        fit_seconds=float(result.fit_seconds[place]),
        score_seconds=float(result.score_seconds[place]),
        status=NOT_CONVERGED if result.status[place] else OK,
    )


SOLVER = PathSolver()
