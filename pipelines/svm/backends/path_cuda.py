"""``--solver path`` on a GPU: all C, all splits and many gammas in one launch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pipelines.data.fits import Fit
from pipelines.svm.backends.base import Work
from pipelines.svm.backends.path import PathBackend
from pipelines.svm.cuda.path import fit_path_cuda, solve_path_cuda


class PathCudaBackend(PathBackend):
    """``PathBackend`` on a GPU, which the problems of a task share."""

    device = "gpu"
    shares_gammas = True
    fit_path = staticmethod(fit_path_cuda)

    def solve(self, work: Work) -> Iterable[Fit]:
        """See ``PathBackend.solve``; nothing ends before the launch, so nothing is reported."""
        fits = solve_path_cuda(
            work.X,
            work.y,
            work.gammas,
            work.Cs,
            [work.splits[number] for number in work.numbers],
            **(vars(work.settings) | {"memory_bytes": None}),  # what is free
            return_decisions=work.decisions,
        )
        return (replace(fit, split=work.numbers[fit.split]) for fit in fits)


BACKEND = PathCudaBackend()
