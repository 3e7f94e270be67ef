"""``--solver path`` on a GPU: all C and all splits of many gammas at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipelines.data.fits import Fit, Progress
from pipelines.svm.backends.base import Work
from pipelines.svm.backends.path import PathBackend
from pipelines.svm.cuda.path import fit_path_cuda, solve_path_cuda


class PathCudaBackend(PathBackend):
    """``PathBackend`` on a GPU, which solves all binary problems of a task side by side."""

    device = "gpu"
    shares_gammas = True
    fit_path = staticmethod(fit_path_cuda)

    def solve(self, work: Work) -> Iterator[Fit | Progress]:
        """See ``PathBackend.solve``."""
        if work.settings.n_landmarks:
            yield from self.solve_on_landmarks(work)
            return
        for item in solve_path_cuda(
            work.X,
            work.y,
            work.gammas,
            work.Cs,
            [work.splits[number] for number in work.numbers],
            **(vars(work.settings) | {"memory_bytes": None}),  # all that is free
            return_decisions=work.decisions,
        ):
            if isinstance(item, Fit):
                item = replace(item, split=work.numbers[item.split])
            yield item


BACKEND = PathCudaBackend()
