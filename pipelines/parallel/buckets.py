"""Sum a gradient over ranks in buckets, while the backward pass still computes the rest of it."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

from pipelines.parallel.flat import FlatModel
from pipelines.parallel.process_group.group import ProcessGroup, ProcessGroupError

BYTES = 4  # of a number
# Bytes at which the first bucket ends, and each later one: the defaults of torch's DDP. The first
# is small so that communication begins early in the backward pass.
FIRST, EACH = 2**20, 25 * 2**20


class Buckets:
    """The buckets of a model's shared vector, from its end on: the order of a backward pass.

    The sum of a bucket begins once all its weights have their gradient, or after the backward pass
    if one of them gets none. The slice of the first weights, the loss and the statistics is always
    summed after the pass. All ranks begin the same sums in the same order, whatever the order of
    their gradients: collectives that differ in order between ranks would never end.

    A gradient can arrive twice in a pass, as from ``torch.utils.checkpoint`` with
    ``use_reentrant``. So all sums of the first step begin after the pass. If on any rank a gradient
    arrived for a bucket whose sum would have begun, the sums of later steps do the same.

    Parameters
    ----------
    model : FlatModel
        The model whose ``shared`` vector is summed; a hook is registered on each weight.
    group : ProcessGroup
        The ranks that add up their gradients.
    """

    def __init__(self, model: FlatModel, group: ProcessGroup) -> None:
        self._model, self._group = model, group
        parameters = list(model.network.parameters())
        n_before = len(model.shared) - model.n_weights
        offsets = list(
            itertools.accumulate([parameter.numel() for parameter in parameters], initial=n_before)
        )
        starts = cuts(offsets) if group.n_ranks > 1 else []
        ends = [*starts[::-1], len(model.shared)][::-1]
        self._sums = [model.shared[start:end] for start, end in zip(starts, ends, strict=False)]
        # What lies before this is summed by ``end``, when the backward pass is done.
        self._overlap_end = ends[-1]
        self._members = [
            {n for n, offset in enumerate(offsets[:-1]) if start <= offset < end}
            for start, end in zip(starts, ends, strict=False)
        ]
        self._missing = list[set[int]]()  # of each bucket, the weights that have no gradient yet
        self._next = 0  # the bucket whose sum begins next
        self._overlaps: bool | None = None  # unknown until the first step has ended
        self._is_late = False
        # A strong reference would be a cycle through the network, which would stay in memory.
        hook = partial(Buckets._hook, weakref.proxy(self))
        for bucket, members in enumerate(self._members):
            for n in members:
                if parameters[n].requires_grad:
                    parameters[n].register_post_accumulate_grad_hook(partial(hook, bucket, n))

    def begin(self) -> None:
        """Let sums begin in the next backward pass; ``end`` must be called after it."""
        self._next, self._missing = 0, [set(members) for members in self._members]

    def _hook(self, bucket: int, n: int, parameter: Any) -> None:
        if not self._missing:  # ``begin`` was not called: a step with this rank's own gradient
            return
        if bucket < self._next:
            self._is_late = True
            if self._overlaps:
                self._group.abort()  # the next process group finds this out in its first step
                raise ProcessGroupError("a gradient came twice in a backward pass, as never before")
        self._missing[bucket].discard(n)
        while self._next < len(self._sums) and not self._missing[self._next]:
            if self._overlaps:
                self._group.begin_sum(self._sums[self._next])
            self._next += 1

    def end(self, first: int = 0) -> None:
        """Sum the slices that remain, and wait for all sums.

        Parameters
        ----------
        first : int, default 0
            Where in the shared vector the sum begins; past the statistics if they are not shared.
        """
        for part in self._sums[self._next if self._overlaps else 0 :]:
            self._group.begin_sum(part)
        self._group.sum(self._model.shared[first : self._overlap_end])
        self._missing = []
        if self._overlaps is None and self._sums:
            n_late = self._model.shared.new_tensor(float(self._is_late))
            self._group.sum(n_late)
            self._overlaps = not n_late.item()


def cuts(offsets: Sequence[int]) -> list[int]:
    """Where the buckets begin, from the end of a vector on; empty if the vector is small.

    Parameters
    ----------
    offsets : sequence of int
        Where each parameter begins, and where the last one ends.
    """
    starts, end = list[int](), offsets[-1]
    for offset in offsets[-2:0:-1]:
        if BYTES * (end - offset) >= (EACH if starts else FIRST):
            starts.append(offset)
            end = offset
    return starts
