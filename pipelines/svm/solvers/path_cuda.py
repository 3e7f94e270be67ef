"""``--solver path`` on a GPU: all C, all folds and many gammas in one launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from pipelines.data.placement import Fold, to_host
from pipelines.svm.cpu.fit import FittedPath
from pipelines.svm.cuda.fit import fit_path_cuda
from pipelines.svm.cuda.path import cross_validate_path_cuda
from pipelines.svm.path_result import PathResult
from pipelines.svm.solvers.base import Cells, Settings
from pipelines.svm.solvers.path_cpu import PathSolver, problem_options, wanted


class PathCudaSolver(PathSolver):
    """As ``PathSolver``; the problems of a unit share the GPU."""

    device = "gpu"
    shares_gammas = True
    cross_validate = staticmethod(cross_validate_path_cuda)

    def _options(self, X: Any, folds: Sequence[Fold], settings: Settings) -> dict[str, Any]:
        return problem_options(settings)

    def _search_by_fold(
        self,
        X: Any,
        y: np.ndarray,
        folds: Sequence[Fold],
        cells: Cells,
        settings: Settings,
        on_fold: Callable[[PathResult, int, int, int], None],
        told: Callable[[float], None],
    ) -> None:
        """All at once: nothing ends before the launch does."""
        some = [folds[fold] for fold in cells.folds]
        result = self.search(X, y, some, cells, settings, **wanted(settings))
        for g, (place, fold) in product(range(len(cells.gammas)), enumerate(cells.folds)):
            on_fold(result, g, fold, place)

    def fit(self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings) -> Any:
        """See ``Solver.fit``; a ``PathSVC`` that lives on the host."""
        from pipelines.svm.path_svc import PathSVC

        with self._one_at_a_time:
            found = self._fit_path(X, y, C, gamma, settings)
        return PathSVC(C=C, gamma=gamma, **problem_options(settings)).adopt(found, to_host(X))

    def _fit_path(
        self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings
    ) -> FittedPath:
        return fit_path_cuda(X, y, C, gamma, **problem_options(settings))


SOLVER = PathCudaSolver()
