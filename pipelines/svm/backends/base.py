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
PRODUCTS = "products"  # the key in a placement under which a backend keeps products of all rows


@dataclass(frozen=True, eq=False)
class Work:
    """Cells for a backend to fit: every gamma and C on some splits.

    Attributes
    ----------
    X : array of shape (n_samples, n_features) on the backend's device, scaled
    y : int32 array of shape (n_samples,) on the host, class codes
    splits : sequence of (training rows, rows to predict)
        All splits of the search.
    numbers : sequence of int
        Which of the splits to fit on.
    gammas, Cs : sequence of float
        ``Cs`` ascending.
    settings : Settings
    decisions : bool
        Whether to predict decision values as well.
    sample_weight : float array of shape (n_samples,) or None
        Factors of C; only the path backend on a CPU accepts them.
    placement : Placement
        Where a backend keeps the data that further work on the same rows can share.
    key : hashable
        Identifies these rows and splits in ``placement``.
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
    """A solver of kernel SVMs; it knows arrays, and nothing of Dask.

    Attributes
    ----------
    device : {"cpu", "gpu"}
        Where its arrays must lie.
    shares_C : bool
        Whether all C on all splits of a gamma are fitted together in less time than one by one.
    shares_gammas : bool
        Whether several gammas are fitted together in less time than one by one.
    """

    device = "cpu"
    shares_C = False
    shares_gammas = False

    @abstractmethod
    def fit_cells(self, work: Work) -> Iterator[Fit | Progress]:
        """Fit cells and predict their validation rows.

        Yields
        ------
        Fit or Progress
            Each fit as soon as it is ready, and progress in between. Candidates are numbered
            gamma by gamma, and C by C within a gamma; splits as in ``work``. The predictions are
            ``predict``, class codes, and, with ``work.decisions``, ``decision_function``, in the
            form of ``SVC.decision_function`` or, with ``Settings.pair_values``, a column for each
            pair.
        """

    @abstractmethod
    def fit_parts(
        self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Fit one model on all rows; return its numbers in the form of ``KernelMachine``.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), on the backend's device, scaled
        y : int array of shape (n_samples,)
            Class codes.
        C, gamma : float
        settings : Settings

        Returns
        -------
        support : int array of shape (n_support,), rows of ``X``
        coefficients : float64 array of shape (n_support, n_problems)
        intercepts : float64 array of shape (n_problems,)
        """


class OneByOne(Backend):
    """A backend that fits one cell after the other, each by an estimator.

    A subclass has to provide ``fit``, ``summarize`` and ``parts``.
    """

    def fit_cells(self, work: Work) -> Iterator[Fit | Progress]:
        assert work.sample_weight is None
        cells = list(product(enumerate(work.gammas), work.numbers, enumerate(work.Cs)))
        for n_done, ((g, gamma), split, (c, C)) in enumerate(cells, 1):
            fit = Fit(g * len(work.Cs) + c, split)
            self._fit_cell(fit, work, C, gamma)
            yield fit
            yield Progress(n_done / len(cells))

    def _fit_cell(self, fit: Fit, work: Work, C: float, gamma: float) -> None:
        """Fit a cell and write its predictions, or why there are none, to ``fit``."""
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
        """The numbers of support vectors and iterations of a fit, and whether it converged."""

    @abstractmethod
    def parts(self, fitted: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers of a fit, as ``Backend.fit_parts`` returns them."""


def out_of_memory(error: MemoryError) -> str:
    """The message of a cell that ran out of memory, with the error's own words if it has any."""
    return f"{OUT_OF_MEMORY}: {error}" if str(error) else OUT_OF_MEMORY


def join_problems(
    pieces: Sequence[tuple[np.ndarray, np.ndarray, float]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Join binary problems, each (support rows, coefficients, intercept), over the union of their
    support vectors; see ``Backend.fit_parts``."""
    support = np.unique(np.concatenate([rows for rows, _, _ in pieces]))
    coefficients = np.zeros((len(support), len(pieces)))
    for column, (rows, values, _) in enumerate(pieces):
        coefficients[np.searchsorted(support, rows), column] = values
    return support, coefficients, np.array([intercept for _, _, intercept in pieces])
