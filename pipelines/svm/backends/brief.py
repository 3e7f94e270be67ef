"""``SVC`` itself, for searches that it finishes before the path solver is loaded or compiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from pipelines.data.fits import Fit, Progress
from pipelines.svm.backends.base import Work
from pipelines.svm.backends.sklearn import SklearnBackend
from pipelines.svm.cpu.first_use import iteration_seconds
from pipelines.svm.settings import Settings

IMPLEMENTATION, REASON = "scikit-learn", "the path solver takes longer to begin"


class BriefBackend(SklearnBackend):
    """``SVC`` first, then the path solver for the remaining cells if ``SVC`` takes too long.

    How long a fit takes is not known beforehand: some data need a million iterations at a large C.
    Iterations are counted, not seconds, so that a repeated run has every fit made by the same
    solver.

    Parameters
    ----------
    seconds : float
        CPU seconds that the path solver would take to start.
    """

    shares_C = True  # its tasks are cut like those of the path solver, which may continue them

    def __init__(self, seconds: float) -> None:
        self.seconds_left = seconds

    def fit_cells(self, work: Work) -> Iterator[Fit | Progress]:
        """See ``Backend.fit_cells``; the smallest C come first, as they are the easiest."""
        from sklearn import config_context

        cells = list(product(enumerate(work.Cs), enumerate(work.gammas), work.numbers))
        done = set[tuple[int, int]]()
        for (c, C), (g, gamma), split in cells:
            fit = Fit(g * len(work.Cs) + c, split, implementation=IMPLEMENTATION, reason=REASON)
            if self.seconds_left > 0:
                # Rows and parameters have been checked already.
                with config_context(assume_finite=True, skip_parameter_validation=True):
                    self._fit_cell(fit, work, C, gamma)
            if self.seconds_left <= 0:
                break
            done.add((fit.candidate, split))
            yield fit
            yield Progress(len(done) / len(cells))
        if len(done) == len(cells):
            return
        from pipelines.svm.backends.path import BACKEND as PATH  # imports numba as well

        for item in PATH.fit_cells(work):
            if not isinstance(item, Fit) or (item.candidate, item.split) not in done:
                yield item

    def fit_parts(
        self, X: np.ndarray, y: np.ndarray, C: float, gamma: float, settings: Settings
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        parts = super().fit_parts(X, y, C, gamma, settings)
        if self.seconds_left > 0:
            return parts
        from pipelines.svm.backends.path import BACKEND as PATH

        return PATH.fit_parts(X, y, C, gamma, settings)

    def fit(self, X: np.ndarray, y: np.ndarray, C: float, gamma: float, settings: Settings) -> Any:
        """See ``OneByOne.fit``; a fit that uses up the remaining iterations has not converged."""
        n_classes = len(np.unique(y))
        of_pairs = settings.decision == "ovo" or n_classes == 2
        n_problems = n_classes * (n_classes - 1) // 2 if of_pairs else n_classes
        n_rows = 2 * len(y) // n_classes if of_pairs else len(y)
        step_seconds = iteration_seconds(n_rows)
        limit = max(1, int(self.seconds_left / step_seconds / max(1, n_problems)))  # per problem
        fitted = super().fit(X, y, C, gamma, replace(settings, max_iter=limit))
        _, n_iterations, converged = self.summarize(fitted)
        self.seconds_left = self.seconds_left - step_seconds * n_iterations if converged else 0.0
        return fitted
