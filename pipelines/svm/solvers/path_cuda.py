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
from pipelines.svm.solvers.path_cpu import PathSolver, problem_options


class PathCudaSolver(PathSolver):
    """As ``PathSolver``; the problems of a unit share the GPU."""

    device = "gpu"
    shares_gammas = True
    cross_validate = staticmethod(cross_validate_path_cuda)

    def search(
        self,
        X: Any,
        y: np.ndarray,
        folds: Sequence[Fold],
        cells: Cells,
        settings: Settings,
        on_fold: Callable[..., None] | None = None,
        told: Callable[[float], None] | None = None,
        **more: Any,
    ) -> PathResult:
        """See ``PathSolver.search``; nothing ends before the launch does, so nothing is told."""
        some = [folds[fold] for fold in cells.folds]
        with self._one_at_a_time:
            result = self.cross_validate(
                X, y, cells.gammas, cells.Cs, some, **problem_options(settings), **more
            )
        for g, (place, fold) in product(range(len(cells.gammas)), enumerate(cells.folds)):
            if on_fold is not None:
                on_fold(result, g, fold, place)
        return result

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
