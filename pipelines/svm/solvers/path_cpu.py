"""``--solver path`` on a CPU: all C and all folds of a gamma for the price of a few fits."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.placement import Fold
from pipelines.select.scoring import ScoringFailed
from pipelines.svm.cpu.fit import FittedPath, fit_path
from pipelines.svm.cpu.path import cross_validate_path
from pipelines.svm.multiclass import class_values
from pipelines.svm.path_result import PathResult
from pipelines.svm.solvers.base import (
    NOT_CONVERGED,
    OK,
    OUT_OF_MEMORY,
    Cell,
    Cells,
    Settings,
    Solver,
    Watch,
    scoring_failed,
)

if TYPE_CHECKING:
    from pipelines.svm.path_svc import PathSVC

ONE_CLASS = "failed: the training rows are of one class"


class PathSolver(Solver):
    """The path solver; see ``docs/path-solver.md``."""

    shares_c = True
    shares_folds = True
    cross_validate: Callable[..., PathResult] = staticmethod(cross_validate_path)

    def __init__(self) -> None:
        # A unit uses every thread it is given: two at once would only be in each other's way.
        self._one_at_a_time = threading.Lock()
        self._key: tuple[Any, ...] = ()
        self._kept: dict[str, Any] = {}

    def fit_cells(
        self,
        X: np.ndarray,
        y: np.ndarray,
        folds: Sequence[Fold],
        cells: Cells,
        settings: Settings,
        watch: Watch = Watch(),  # noqa: B008  it cannot change
    ) -> list[Cell]:
        """See ``Solver.fit_cells``; distances are kept from one gamma to the next."""
        found: dict[tuple[int, int], list[Cell]] = {}

        def on_fold(result: PathResult, g: int, fold: int, place: int | None = None) -> None:
            train, validation = folds[fold]
            if np.ptp(y[train]) == 0:
                found[g, fold] = [Cell(status=ONE_CLASS)] * len(cells.Cs)
            else:
                place = fold if place is None else place
                found[g, fold] = _cells(result, g, place, y[validation], settings)
            watch.on_fold(g, fold, found[g, fold])

        scoring = settings.scoring
        try:
            self.search(
                X, y, folds, cells, settings, on_fold, watch.told,
                return_predictions=scoring is not None,
                return_decisions=scoring is not None and scoring.needs_decisions,
            )  # fmt: skip
        except MemoryError:
            return [Cell(status=OUT_OF_MEMORY)] * cells.n_cells
        places = product(range(len(cells.gammas)), cells.folds)
        return [cell for place in places for cell in found[place]]

    def search(
        self,
        X: np.ndarray,
        y: np.ndarray,
        folds: Sequence[Fold],
        cells: Cells,
        settings: Settings,
        on_fold: Callable[..., None] | None = None,
        told: Callable[[float], None] | None = None,
        **more: Any,
    ) -> PathResult:
        """``cross_validate`` of some cells, one call at a time.

        Parameters
        ----------
        on_fold : function of a result, the numbers of a gamma and of a fold, and the fold's place
            in the result where that is another, called as soon as its cells are known
        told : function of the share that is done
        more : what ``cross_validate`` takes besides
        """
        with self._one_at_a_time:
            return self.cross_validate(
                X, y, cells.gammas, cells.Cs, folds, **problem_options(settings),
                **of_worker(settings), kept=self._kept_for(X, folds, settings), only=cells.folds,
                on_fold=on_fold, told=told, **more,
            )  # fmt: skip

    def _kept_for(self, X: np.ndarray, folds: Sequence[Fold], settings: Settings) -> dict[str, Any]:
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
        # Here, as scikit-learn takes longer to import than most searches: without it they can do.
        from sklearn.exceptions import ConvergenceWarning

        from pipelines.svm.path_svc import PathSVC

        svc = PathSVC(C=C, gamma=gamma, **problem_options(settings), **of_worker(settings))
        with self._one_at_a_time, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # as SklearnSolver
            self._key, self._kept = (), {}  # the fit needs the memory
            return svc.fit(X, y)

    def fit_parts(
        self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See ``Solver.fit_parts``."""
        with self._one_at_a_time:
            self._key, self._kept = (), {}
            found = self._fit_path(X, y, C, gamma, settings)
        return found.support, np.ascontiguousarray(found.dual_coef.T), found.intercept

    def _fit_path(
        self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings
    ) -> FittedPath:
        return fit_path(X, y, C, gamma, **problem_options(settings), **of_worker(settings))

    def parts(self, fitted: PathSVC, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See ``Solver.parts``."""
        machine = fitted.machine_
        return fitted.support_, machine.coefficients, machine.intercepts


def problem_options(settings: Settings) -> dict[str, Any]:
    """What is solved, as the path solver's functions and ``PathSVC`` take it."""
    return {"decision": settings.decision, **settings.svc}


def of_worker(settings: Settings) -> dict[str, Any]:
    """What these may use of a CPU's worker."""
    return {"n_threads": settings.n_threads, "memory_bytes": settings.memory_bytes}


def _cells(
    result: PathResult, g: int, fold: int, truth: np.ndarray, settings: Settings
) -> list[Cell]:
    """The cells of a fold, for every C; ``truth`` are the codes of its validation rows."""
    cells = []
    for c in range(len(result.Cs)):
        started, place = perf_counter(), (g, c, fold)
        try:
            score = _score(result, *place, truth, settings)
        except ScoringFailed as error:
            cells.append(scoring_failed(settings, error))
            continue
        cell = Cell(
            int(result.n_errors[place]), int(result.n_support[place]),
            int(result.n_iterations[place]), float(result.fit_seconds[place]),
            float(result.score_seconds[place]) + perf_counter() - started,
            NOT_CONVERGED if result.status[place] else OK, score,
        )  # fmt: skip
        cells.append(cell)
    return cells


def _score(
    result: PathResult, g: int, c: int, fold: int, truth: np.ndarray, settings: Settings
) -> float | None:
    if settings.scoring is None or result.predictions is None:
        return None
    decisions = None
    if result.decisions is not None:
        decisions = class_values(
            result.decisions[g][fold][c], len(result.classes), settings.decision
        )
    return settings.scoring.score(truth, result.classes[result.predictions[g][fold][c]], decisions)


SOLVER = PathSolver()
