"""``--solver path`` on a CPU: all C and all splits of a gamma for the price of a few fits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from pipelines.run_folder.names import FAILED, NOT_CONVERGED, OK
from pipelines.svm.backends.base import OUT_OF_MEMORY, Backend, CellFit, Work
from pipelines.svm.cpu.fit import FittedPath, fit_path
from pipelines.svm.cpu.path import cross_validate_path
from pipelines.svm.multiclass import class_values
from pipelines.svm.search import Settings
from pipelines.svm.solutions import PathResult

ONE_CLASS = f"{FAILED}: the training rows are of one class"


class PathBackend(Backend):
    """The path solver; see ``docs/path-solver.md``."""

    shares_C = True
    fit_path: Callable[..., FittedPath] = staticmethod(fit_path)

    def __init__(self) -> None:
        # A task uses every thread it is given: two at once would only be in each other's way.
        self._one_at_a_time = threading.Lock()
        self._key: tuple[Any, ...] = ()
        self._cache: dict[str, Any] = {}

    def fit_cells(self, work: Work) -> None:
        """See ``Backend.fit_cells``; distances are kept from one gamma to the next."""
        left = dict.fromkeys(product(range(len(work.gammas)), work.numbers))

        def fitted(result: PathResult, g: int, split: int, place: int | None = None) -> None:
            if np.ptp(work.y[work.splits[split][0]]) == 0:
                fits = [CellFit(status=ONE_CLASS)] * len(work.Cs)
            else:
                fits = _fits(result, g, split if place is None else place, work.settings)
            del left[g, split]
            work.on_split(g, split, fits)

        try:
            with self._one_at_a_time:
                self.search(work, fitted)
        except MemoryError:
            for g, split in left:
                work.on_split(g, split, [CellFit(status=OUT_OF_MEMORY)] * len(work.Cs))

    def search(self, work: Work, on_fold: Callable[..., None]) -> None:
        """Cross-validate the cells; tasks on the same rows, splits and kernel share a cache.

        Parameters
        ----------
        on_fold : function of a result, the numbers of a gamma and of a split, and the split's
            place in the result where that is another, called as soon as its cells are known
        """
        arrays = [work.X, *(rows for split in work.splits for rows in split)]
        key = work.settings.kernel, *map(id, arrays)
        if key != self._key:  # other rows, splits or kernel; what it stands for is kept alive
            self._key, self._cache = key, {"of": arrays}
        cross_validate_path(
            work.X,
            work.y,
            work.gammas,
            work.Cs,
            work.splits,
            **vars(work.settings),
            kept=self._cache,
            only=work.numbers,
            on_fold=on_fold,
            on_progress=work.report,
            return_decisions=work.decisions,
            sample_weight=work.sample_weight,
        )

    def fit_parts(
        self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with self._one_at_a_time:
            self._key, self._cache = (), {}  # the fit needs the memory
            found = self.fit_path(X, y, C, gamma, **vars(settings))
        return found.support, np.ascontiguousarray(found.dual_coef.T), found.intercept


def _fits(result: PathResult, g: int, split: int, settings: Settings) -> list[CellFit]:
    """Return the cells of a gamma on a split, for every C."""
    n_classes, found = len(result.classes), []
    for c in range(len(result.Cs)):
        place, values = (g, c, split), None
        if result.decisions is not None:
            values = result.decisions[g][split][c]
            # The values of two classes speak for the second, as those of SVC.
            if not settings.pair_values or n_classes == 2:
                values = class_values(values, n_classes, settings.decision)
        found.append(
            CellFit(
                result.classes[result.predictions[g][split][c]],
                values,
                int(result.n_support[place]),
                int(result.n_iterations[place]),
                float(result.fit_seconds[place]),
                float(result.score_seconds[place]),
                NOT_CONVERGED if result.status[place] else OK,
            )
        )
    return found


BACKEND = PathBackend()
