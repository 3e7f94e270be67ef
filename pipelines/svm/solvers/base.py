"""What every solver takes and gives: the seam a new solver fits into."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np

from pipelines.data.placement import Fold, to_device, to_host
from pipelines.select.scoring import Scoring, ScoringFailed
from pipelines.svm.kernel import RBF, Kernel

OK = "ok"
NOT_CONVERGED = "not converged"
OUT_OF_MEMORY = "failed: out of memory"


@dataclass(frozen=True)
class Settings:
    """What all fits of a run have in common.

    Attributes
    ----------
    decision : {"ovo", "ovr"}
        One-vs-one or one-vs-rest.
    tol : float
        LIBSVM's tolerance of the stopping criterion.
    max_iter : int
        Most iterations of one binary problem at one C; -1 for LIBSVM's limit with the
        path solver, for none with the others.
    class_weight : None, "balanced" or dict of class to factor of C
    n_threads : int
        Threads a solver may use on a CPU worker.
    memory_bytes : int
        What a solver may hold of kernel matrices; beyond it, it works in blocks.
    device : {"cpu", "gpu"}
        Where a worker computes.
    scoring : Scoring or None
        What a cell's score is; None for accuracy, which its errors say already.
    """

    decision: str = "ovo"
    tol: float = 1e-3
    max_iter: int = -1
    kernel: Kernel = RBF
    class_weight: dict[Any, float] | str | None = None
    n_threads: int = 1
    memory_bytes: int = 4 << 30
    device: str = "cpu"
    scoring: Scoring | None = None

    @property
    def svc(self) -> dict[str, Any]:
        """What a class like ``sklearn.svm.SVC`` takes besides C and gamma."""
        return {
            "kernel": self.kernel.name,
            "degree": self.kernel.degree,
            "coef0": self.kernel.coef0,
            "class_weight": self.class_weight,
            "tol": self.tol,
            "max_iter": self.max_iter,
        }


@dataclass(frozen=True)
class Cell:
    """What a candidate did on a fold; None where the fit failed.

    ``score`` is None too where accuracy is the scoring.
    """

    n_errors: int | None = None
    n_support: int | None = None
    n_iterations: int | None = None
    fit_seconds: float | None = None
    score_seconds: float | None = None
    status: str = OK
    score: float | None = None


@dataclass(frozen=True)
class Cells:
    """Which cells a call of ``Solver.fit_cells`` is to fit: every gamma and C on every fold.

    Attributes
    ----------
    Cs : tuple of float, ascending
    folds : tuple of int, numbers of folds
    """

    gammas: tuple[float, ...]
    Cs: tuple[float, ...]
    folds: tuple[int, ...]

    @property
    def n_cells(self) -> int:
        return len(self.gammas) * len(self.Cs) * len(self.folds)


@dataclass(frozen=True)
class Watch:
    """Who is told how far a call of ``Solver.fit_cells`` is; by default nobody.

    Attributes
    ----------
    told : function of the share of the work that is done
    on_fold : function of the number of a gamma, the number of a fold, and their cells
    """

    told: Callable[[float], None] = lambda share: None
    on_fold: Callable[[int, int, list[Cell]], None] = lambda g, fold, cells: None


def scoring_failed(settings: Settings, error: ScoringFailed) -> Cell:
    """The cell of a fold that was fitted but cannot be scored."""
    assert settings.scoring is not None
    return Cell(status=f"failed: scoring {settings.scoring.name}: {error}")


class Solver(ABC):
    """A way to fit kernel SVMs.

    Attributes
    ----------
    device : {"cpu", "gpu"}
        Where the arrays it takes must lie.
    shares_c, shares_folds : bool
        Whether it fits all C, all folds, of one gamma for less than their sum.
    shares_gammas : bool
        Whether it fits several gammas at once in less time than one after the other.
    """

    device = "cpu"
    shares_c = False
    shares_folds = False
    shares_gammas = False

    def fit_cells(
        self,
        X: Any,
        y: np.ndarray,
        folds: Sequence[Fold],
        cells: Cells,
        settings: Settings,
        watch: Watch = Watch(),
    ) -> list[Cell]:
        """Fit and score cells; one after the other by default.

        Parameters
        ----------
        X : array of shape (n_samples, n_features) on ``device``, scaled
        y : int32 array of shape (n_samples,) on the host, class codes
        folds : sequence of (training rows, validation rows), all there are

        Returns
        -------
        list of Cell
            Of every gamma, fold by fold, in the order of C.
        """
        found: list[Cell] = []
        for (g, gamma), fold in product(enumerate(cells.gammas), cells.folds):
            for C in cells.Cs:
                found.append(self._fit_cell(X, y, C, gamma, folds[fold], settings))
                watch.told(len(found) / cells.n_cells)
            watch.on_fold(g, fold, found[-len(cells.Cs) :])
        return found

    def _fit_cell(
        self, X: Any, y: np.ndarray, C: float, gamma: float, fold: Fold, settings: Settings
    ) -> Cell:
        train, validation = fold
        try:
            X_train = X[to_device(train, self.device)]
            X_validation = X[to_device(validation, self.device)]
            started = perf_counter()
            fitted = self.fit(X_train, y[train], C, gamma, settings)
            between = perf_counter()
            predicted = fitted.predict(X_validation)
            score = _score(fitted, X_validation, y[validation], predicted, settings)
            ended = perf_counter()
        except MemoryError:
            return Cell(status=OUT_OF_MEMORY)
        except ScoringFailed as error:
            return scoring_failed(settings, error)
        n_support, n_iterations, converged = self.summarise(fitted)
        return Cell(
            int(np.sum(predicted != y[validation])),
            n_support,
            n_iterations,
            between - started,
            ended - between,
            OK if converged else NOT_CONVERGED,
            score,
        )

    @abstractmethod
    def fit(self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings) -> Any:
        """One fit on all rows of ``X``; ``y`` may hold any labels.

        Returns
        -------
        estimator with ``classes_``, ``predict``, and ``decision_function`` in the form of
        ``SVC.decision_function``
        """

    def fit_parts(
        self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One fit of class codes, as ``parts`` gives it."""
        return self.parts(self.fit(X, y, C, gamma, settings), X)

    def summarise(self, fitted: Any) -> tuple[int, int, bool]:
        """Support vectors, iterations, and whether it converged, of what ``fit`` gave.

        Not asked of a solver with a ``fit_cells`` of its own.
        """
        raise NotImplementedError

    @abstractmethod
    def parts(self, fitted: Any, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers of what ``fit`` gave, in the form of ``KernelMachine``.

        Returns
        -------
        support : int array of shape (n_support,), rows of ``X``
        coefficients : float64 array of shape (n_support, n_problems)
        intercepts : float64 array of shape (n_problems,)
        """


def _score(
    fitted: Any, X: Any, truth: np.ndarray, predicted: np.ndarray, settings: Settings
) -> float | None:
    scoring = settings.scoring
    if scoring is None:
        return None
    decisions = to_host(fitted.decision_function(X)) if scoring.needs_decisions else None
    return scoring.score(truth, predicted, decisions)


def join_problems(
    pieces: Sequence[tuple[np.ndarray, np.ndarray, float]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Binary problems, each (support rows, coefficients, intercept), on common support vectors.

    Returns
    -------
    As ``Solver.parts``.
    """
    support = np.unique(np.concatenate([rows for rows, _, _ in pieces]))
    coefficients = np.zeros((len(support), len(pieces)))
    for column, (rows, values, _) in enumerate(pieces):
        coefficients[np.searchsorted(support, rows), column] = values
    return support, coefficients, np.array([intercept for _, _, intercept in pieces])
