"""``--solver path`` on a GPU: all C, all splits and many gammas in one launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from pipelines.data.placement import Fold as Split
from pipelines.svm.backends.base import Cells, Settings
from pipelines.svm.backends.path import PathBackend
from pipelines.svm.cuda.fit import fit_path_cuda
from pipelines.svm.cuda.path import cross_validate_path_cuda
from pipelines.svm.path_result import PathResult


class PathCudaBackend(PathBackend):
    """``PathBackend`` on a GPU, which the problems of a task share."""

    device = "gpu"
    shares_gammas = True
    cross_validate = staticmethod(cross_validate_path_cuda)
    fit_path = staticmethod(fit_path_cuda)

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
                X, y, cells.gammas, cells.Cs, some, **self.options(settings), **more
            )
        for g, (place, split) in product(range(len(cells.gammas)), enumerate(cells.splits)):
            on_fold(result, g, split, place)
        return result

    def options(self, settings: Settings) -> dict[str, Any]:
        return {"decision": settings.decision, **settings.svc}


BACKEND = PathCudaBackend()
