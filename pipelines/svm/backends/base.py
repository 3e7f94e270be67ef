"""The interface of a backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np

from pipelines.data.placement import Fold as Split
from pipelines.data.placement import to_device, to_host
from pipelines.run_folder.names import FAILED, NOT_CONVERGED, OK
from pipelines.svm.search import Settings

OUT_OF_MEMORY = f"{FAILED}: out of memory"


@dataclass(frozen=True)
class CellFit:
    """A candidate fitted on a split, with its predictions; None where the fit failed.

    Attributes
    ----------
    predictions : int array of shape (n_asked,), class codes of the rows that were asked about
    decisions : float array of shape (n_asked, ...), where they were wanted; in the form of
        ``SVC.decision_function``, or a column for each pair with ``Settings.pair_values``
    """

    predictions: np.ndarray | None = None
    decisions: np.ndarray | None = None
    n_support: int | None = None
    n_iterations: int | None = None
    fit_seconds: float | None = None
    score_seconds: float | None = None
    status: str = OK


def ignore(*_: Any) -> None:
    """Do nothing: the default of what is called with progress."""


@dataclass(frozen=True, eq=False)
class Work:
    """Cells to fit, those of every gamma and C on some splits, and what of them.

    Attributes
    ----------
    X : array of shape (n_samples, n_features) on the backend's device, scaled
    y : int32 array of shape (n_samples,) on the host, class codes
    splits : sequence of (training rows, rows to predict), all there are
    numbers : of the splits to fit on
    Cs : ascending
    on_split : called with the number of a gamma, the number of a split, and the fits of
        every C, as soon as these are done
    decisions : whether decision values are wanted
    report : called with the fraction of the work that is done
    sample_weight : float array of shape (n_samples,), factors of C; the path backend on a
        CPU alone takes it
    """

    X: Any
    y: np.ndarray
    splits: Sequence[Split]
    numbers: Sequence[int]
    gammas: Sequence[float]
    Cs: Sequence[float]
    settings: Settings
    on_split: Callable[[int, int, list[CellFit]], None]
    decisions: bool = False
    report: Callable[[float], None] = ignore
    sample_weight: np.ndarray | None = None


class Backend(ABC):
    """A way to fit kernel SVMs.

    Attributes
    ----------
    device : {"cpu", "gpu"}
        Where the arrays it takes must lie.
    shares_C : bool
        Whether it fits all C on all splits of one gamma for less than their sum.
    shares_gammas : bool
        Whether it fits several gammas at once in less time than one after the other.
    """

    device = "cpu"
    shares_C = False
    shares_gammas = False

    @abstractmethod
    def fit_cells(self, work: Work) -> None:
        """Fit cells, predict, and call ``work.on_split`` for every gamma and split."""

    @abstractmethod
    def fit_parts(
        self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Fit one model on all rows, and return it as numbers, in the form of ``KernelMachine``.

        Returns
        -------
        support : int array of shape (n_support,), rows of ``X``
        coefficients : float64 array of shape (n_support, n_problems)
        intercepts : float64 array of shape (n_problems,)
        """


class OneByOne(Backend):
    """A backend that fits one cell after the other, by an estimator."""

    def fit_cells(self, work: Work) -> None:
        assert work.sample_weight is None
        n_cells = len(work.gammas) * len(work.numbers) * len(work.Cs)
        shares = iter(np.arange(1, n_cells + 1) / n_cells)
        for (g, gamma), split in product(enumerate(work.gammas), work.numbers):
            fits = []
            for C in work.Cs:
                fits.append(self._fit_cell(work, C, gamma, split))
                work.report(next(shares))
            work.on_split(g, split, fits)

    def _fit_cell(self, work: Work, C: float, gamma: float, split: int) -> CellFit:
        train, asked = work.splits[split]
        try:
            X_train = work.X[to_device(train, self.device)]
            X_asked = work.X[to_device(asked, self.device)]
            started = perf_counter()
            fitted = self.fit(X_train, work.y[train], C, gamma, work.settings)
            between = perf_counter()
            predicted = to_host(fitted.predict(X_asked))
            values = to_host(fitted.decision_function(X_asked)) if work.decisions else None
            ended = perf_counter()
        except MemoryError:
            return CellFit(status=OUT_OF_MEMORY)
        except ValueError as error:
            return CellFit(status=f"{FAILED}: {error}")
        n_support, n_iterations, converged = self.summarize(fitted)
        return CellFit(
            predicted,
            values,
            n_support,
            n_iterations,
            between - started,
            ended - between,
            OK if converged else NOT_CONVERGED,
        )

    def fit_parts(
        self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.parts(self.fit(X, y, C, gamma, settings))

    @abstractmethod
    def fit(self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings) -> Any:
        """Fit one model on all rows of ``X``; ``y`` may hold any labels.

        Returns
        -------
        estimator with ``classes_``, ``predict``, and ``decision_function`` in the form of
        ``SVC.decision_function``
        """

    @abstractmethod
    def summarize(self, fitted: Any) -> tuple[int, int, bool]:
        """Return support vectors, iterations, and whether it converged, of what ``fit`` gave."""

    @abstractmethod
    def parts(self, fitted: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what ``fit`` gave as numbers; see ``Backend.fit_parts``."""


def join_problems(
    pieces: Sequence[tuple[np.ndarray, np.ndarray, float]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Join binary problems, (support rows, coefficients, intercept), on common support vectors;
    see ``Backend.fit_parts``."""
    support = np.unique(np.concatenate([rows for rows, _, _ in pieces]))
    coefficients = np.zeros((len(support), len(pieces)))
    for column, (rows, values, _) in enumerate(pieces):
        coefficients[np.searchsorted(support, rows), column] = values
    return support, coefficients, np.array([intercept for _, _, intercept in pieces])
