"""``SVC`` itself, where the path solver would take longer to begin than that takes to fit."""

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
    """``SVC``, and the path solver for what is left once that has taken too long.

    What takes long is not known before: some rows need a million iterations at a large C. Those
    are counted, not seconds, so that the same fits are made by the same solver each time.

    Parameters
    ----------
    seconds : of a core, that the path solver takes to begin
    """

    shares_C = True  # tasks are such as the path solver takes

    def __init__(self, seconds: float) -> None:
        self.seconds_left = seconds

    def fit_cells(self, work: Work) -> Iterator[Fit | Progress]:
        """See ``Backend.fit_cells``; small C come first, which are the easiest."""
        from sklearn import config_context

        cells = list(product(enumerate(work.Cs), enumerate(work.gammas), work.numbers))
        done = set[tuple[int, int]]()
        for (c, C), (g, gamma), split in cells:
            fit = Fit(g * len(work.Cs) + c, split, implementation=IMPLEMENTATION, reason=REASON)
            if self.seconds_left > 0:
                # The rows were checked before, and so were the parameters.
                with config_context(assume_finite=True, skip_parameter_validation=True):
                    self._fit_cell(fit, work, C, gamma)
            if self.seconds_left <= 0:
                break
            done.add((fit.candidate, split))
            yield fit
            yield Progress(len(done) / len(cells))
        if len(done) == len(cells):
            return
        from pipelines.svm.backends.path import BACKEND as PATH  # numba, too

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
        """See ``Backend.fit``; a fit that has no iterations left is not converged."""
        n_classes = len(np.unique(y))
        of_pairs = settings.decision == "ovo" or n_classes == 2
        n_problems = n_classes * (n_classes - 1) // 2 if of_pairs else n_classes
        n_rows = 2 * len(y) // n_classes if of_pairs else len(y)
        step_seconds = iteration_seconds(n_rows)
        limit = max(1, int(self.seconds_left / step_seconds / max(1, n_problems)))  # of a problem
        fitted = super().fit(X, y, C, gamma, replace(settings, max_iter=limit))
        _, n_iterations, converged = self.summarize(fitted)
        self.seconds_left = self.seconds_left - step_seconds * n_iterations if converged else 0.0
        return fitted
