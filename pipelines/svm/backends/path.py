"""``--solver path`` on a CPU: all C and all splits of a gamma in one walk along C."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from pipelines.data.fits import Fit, Predictions, Progress
from pipelines.svm.backends.base import PRODUCTS, Backend, Work, out_of_memory
from pipelines.svm.cpu import first_use
from pipelines.svm.cpu.fit import FittedPath, fit_path
from pipelines.svm.multiclass import class_values
from pipelines.svm.settings import Settings

ONE_CLASS = "the training rows are of one class"


class PathBackend(Backend):
    """The path solver; see ``docs/path-solver.md``."""

    shares_C = True
    # may_be_brief would make the model depend on what its process has loaded and compiled.
    fit_path: Callable[..., FittedPath] = staticmethod(partial(fit_path, may_be_brief=False))

    def __init__(self) -> None:
        # A task uses all its threads: two tasks at once would only slow each other down.
        self._one_at_a_time = threading.Lock()

    def fit_cells(self, work: Work) -> Iterator[Fit | Progress]:
        """See ``Backend.fit_cells``; products of the rows are kept from one gamma to the next."""
        cells = product(work.numbers, range(len(work.gammas) * len(work.Cs)))
        missing = dict.fromkeys(cells)
        one_class = {n for n in work.numbers if np.ptp(work.y[work.splits[n][0]]) == 0}
        n_classes = len(np.unique(work.y))
        try:
            with self._one_at_a_time:  # also while a caller scores what is yielded
                for item in self.solve(work):
                    if isinstance(item, Fit):
                        del missing[item.split, item.candidate]
                        if item.split in one_class:
                            item = Fit(item.candidate, item.split, error=ONE_CLASS)
                        else:
                            item.predict = _in_form(item, work, n_classes)
                    yield item
        except MemoryError as error:
            reason = out_of_memory(error)
            for split, candidate in missing:
                yield Fit(candidate, split, error=reason)

    def solve(self, work: Work) -> Iterable[Fit | Progress]:
        """Solve the cells; tasks on the same rows, splits and kernel share a cache."""
        first_use.compile_here()
        if work.settings.n_landmarks:
            return self.solve_on_landmarks(work)
        from pipelines.svm.cpu.path import solve_path  # imports numba as well

        cache = work.placement.latest(PRODUCTS, (work.settings.kernel, work.key), dict)
        return solve_path(
            work.X,
            work.y,
            work.gammas,
            work.Cs,
            work.splits,
            **vars(work.settings),
            cache=cache,
            only=work.numbers,
            return_decisions=work.decisions,
            sample_weight=work.sample_weight,
        )

    def solve_on_landmarks(self, work: Work) -> Iterator[Fit | Progress]:
        """Solve the cells with an approximate kernel, on the device where the rows lie."""
        from pipelines.svm.landmarks.landmark_search import solve_landmarks

        yield from solve_landmarks(
            work.X,
            work.y,
            work.gammas,
            work.Cs,
            work.splits,
            work.settings,
            only=work.numbers,
            sample_weight=work.sample_weight,
            return_decisions=work.decisions,
        )

    def fit_parts(
        self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if settings.n_landmarks:
            from pipelines.svm.landmarks.landmark_search import fit_landmarks

            with self._one_at_a_time:
                machine = fit_landmarks(X, y, C, gamma, settings)
            return machine.support, machine.coefficients, machine.intercepts
        with self._one_at_a_time:
            fitted = self.fit_path(X, y, C, gamma, **vars(settings))
        return fitted.support, np.ascontiguousarray(fitted.dual_coef.T), fitted.intercept


def _in_form(fit: Fit, work: Work, n_classes: int) -> Predictions:
    """A fit's predictions in the form of ``Backend.fit_cells``, from the problems' values."""
    assert isinstance(fit.predict, Predictions)
    predictions = dict(fit.predict.by_method)
    if work.decisions:
        values, settings = predictions.pop("problem_values"), work.settings
        # With two classes, a positive value means the second, as in SVC.
        if not settings.pair_values or n_classes == 2:
            values = class_values(values, n_classes, settings.decision)
        predictions["decision_function"] = values
    return Predictions(predictions)


BACKEND = PathBackend()
