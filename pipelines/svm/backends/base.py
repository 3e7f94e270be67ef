"""The interface of a backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np

from pipelines.data.fits import Fit, Predictions, Progress
from pipelines.data.placement import Fold as Split
from pipelines.data.placement import Placement, to_device, to_host
from pipelines.svm.settings import Settings

OUT_OF_MEMORY = "out of memory"
PRODUCTS = "products"  # of all rows: the kind of what a backend keeps in a placement


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
    decisions : whether decision values are wanted
    sample_weight : float array of shape (n_samples,), factors of C; the path backend on a
        CPU alone takes it
    placement : of the rows, where a backend keeps what further work on them shares
    key : names these rows and splits in ``placement``
    """

    X: Any
    y: np.ndarray
    splits: Sequence[Split]
    numbers: Sequence[int]
    gammas: Sequence[float]
    Cs: Sequence[float]
    settings: Settings
    decisions: bool = False
    sample_weight: np.ndarray | None = None
    placement: Placement = field(default_factory=Placement)
    key: Hashable = ()


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
    def fit_cells(self, work: Work) -> Iterator[Fit | Progress]:
        """Fit cells and predict; yield each fit as soon as it is known, and between them progress.

        Candidates are numbered gamma by gamma, and C by C within each; splits as in ``work``.
        Predictions of all rows asked about are ``predict``, class codes, and where they are
        wanted ``decision_function``, in the form of ``SVC.decision_function``, or a column for
        each pair with ``Settings.pair_values``.
        """

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

    def fit_cells(self, work: Work) -> Iterator[Fit | Progress]:
        assert work.sample_weight is None
        cells = list(product(enumerate(work.gammas), work.numbers, enumerate(work.Cs)))
        for n_done, ((g, gamma), split, (c, C)) in enumerate(cells, 1):
            fit = Fit(g * len(work.Cs) + c, split)
            self._fit_cell(fit, work, C, gamma)
            yield fit
            yield Progress(n_done / len(cells))

    def _fit_cell(self, fit: Fit, work: Work, C: float, gamma: float) -> None:
        """Fit a cell; write to ``fit``."""
        train, validation = work.splits[fit.split]
        try:
            X_train = work.X[to_device(train, self.device)]
            X_validation = work.X[to_device(validation, self.device)]
            started = perf_counter()
            fitted = self.fit(X_train, work.y[train], C, gamma, work.settings)
            fit_end = perf_counter()
            predictions = {"predict": to_host(fitted.predict(X_validation))}
            if work.decisions:
                predictions["decision_function"] = to_host(fitted.decision_function(X_validation))
            ended = perf_counter()
        except MemoryError as error:
            fit.error = out_of_memory(error)
            return
        except ValueError as error:
            fit.error = str(error)
            return
        fit.predict = Predictions(predictions)
        fit.fit_seconds, fit.score_seconds = fit_end - started, ended - fit_end
        fit.n_support, fit.n_iterations, fit.converged = self.summarize(fitted)

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


def out_of_memory(error: MemoryError) -> str:
    """Why a cell has no fit, in the error's own words if it has any."""
    return f"{OUT_OF_MEMORY}: {error}" if str(error) else OUT_OF_MEMORY


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
