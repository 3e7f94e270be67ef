"""``--solver path`` on a GPU: all C, all splits and many gammas in one launch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from pipelines.svm.backends.base import Work
from pipelines.svm.backends.path import PathBackend
from pipelines.svm.cuda.path import cross_validate_path_cuda, fit_path_cuda


class PathCudaBackend(PathBackend):
    """``PathBackend`` on a GPU, which the problems of a task share."""

    device = "gpu"
    shares_gammas = True
    fit_path = staticmethod(fit_path_cuda)

    def search(self, work: Work, on_fold: Callable[..., None]) -> None:
        """See ``PathBackend.search``; nothing ends before the launch, so nothing is reported."""
        result = cross_validate_path_cuda(
            work.X,
            work.y,
            work.gammas,
            work.Cs,
            [work.splits[one] for one in work.numbers],
            **(vars(work.settings) | {"memory_bytes": None}),  # what is free
            return_decisions=work.decisions,
        )
        for g, (place, split) in product(range(len(work.gammas)), enumerate(work.numbers)):
            on_fold(result, g, split, place)


BACKEND = PathCudaBackend()
