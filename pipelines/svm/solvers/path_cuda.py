"""``--solver path`` on a GPU: all C, all folds and many gammas in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipelines.data.placement import Fold, to_host
from pipelines.svm.cuda.fit import fit_path_cuda
from pipelines.svm.cuda.path import cross_validate_path_cuda
from pipelines.svm.path_svc import PathSVC
from pipelines.svm.solvers.base import Settings
from pipelines.svm.solvers.path_cpu import PathSolver, problem_options


class PathCudaSolver(PathSolver):
    """As ``PathSolver``; the problems of a unit share the GPU."""

    device = "gpu"
    shares_gammas = True
    cross_validate = staticmethod(cross_validate_path_cuda)

    def _options(self, X: Any, folds: Sequence[Fold], settings: Settings) -> dict[str, Any]:
        return problem_options(settings)

    def fit(self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings) -> Any:
        """See ``Solver.fit``; a ``PathSVC`` that lives on the host."""
        options = problem_options(settings)
        with self._one_at_a_time:
            found = fit_path_cuda(X, y, C, gamma, **options)
        return PathSVC(C=C, gamma=gamma, **options).adopt(found, to_host(X))


SOLVER = PathCudaSolver()
