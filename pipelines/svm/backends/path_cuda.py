"""``--solver path`` on a GPU: all C, all splits and many gammas in one launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from pipelines.data.placement import Fold as Split
from pipelines.data.placement import to_host
from pipelines.svm.backends.base import Cells, Settings
from pipelines.svm.backends.path import PathBackend, problem_options
from pipelines.svm.cpu.fit import FittedPath
from pipelines.svm.cuda.fit import fit_path_cuda
from pipelines.svm.cuda.path import cross_validate_path_cuda
from pipelines.svm.path_result import PathResult


class PathCudaBackend(PathBackend):
    """``PathBackend`` on a GPU, which the problems of a task share."""

    device = "gpu"
    shares_gammas = True
    cross_validate = staticmethod(cross_validate_path_cuda)

    def search(
        self,
        X: Any,
        y: np.ndarray,
        splits: Sequence[Split],
        cells: Cells,
        settings: Settings,
        on_fold: Callable[..., None],
        report: Callable[[float], None],
        **more: Any,
    ) -> PathResult:
        """See ``PathBackend.search``; nothing ends before the launch, so nothing is reported."""
        some = [splits[split] for split in cells.splits]
        with self._one_at_a_time:
            result = self.cross_validate(
                X, y, cells.gammas, cells.Cs, some, **problem_options(settings), **more
            )
        for g, (place, split) in product(range(len(cells.gammas)), enumerate(cells.splits)):
            on_fold(result, g, split, place)
        return result

    def fit(self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings) -> Any:
        """See ``Backend.fit``; a ``PathSVC`` that lives on the host."""
        from pipelines.svm.path_svc import PathSVC

        with self._one_at_a_time:
            found = self._fit_path(X, y, C, gamma, settings)
        return PathSVC(C=C, gamma=gamma, **problem_options(settings)).adopt(found, to_host(X))

    def _fit_path(
        self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings
    ) -> FittedPath:
        return fit_path_cuda(X, y, C, gamma, **problem_options(settings))


BACKEND = PathCudaBackend()
