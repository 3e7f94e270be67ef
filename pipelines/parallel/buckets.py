"""A gradient that is added up over ranks while the backward pass still computes the rest of it."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

from pipelines.parallel.flat import FlatModel
from pipelines.parallel.process_group.group import ProcessGroup, ProcessGroupError

BYTES = 4  # of a number
# Bytes at which a bucket ends, of the first one and of others: those of torch's DDP.
FIRST, EACH = 2**20, 25 * 2**20


class Buckets:
    """A model's shared vector in slices, the last one first: that is the order of a backward pass.

    The sum of a slice begins once all its weights have their gradient, or after the backward pass
    where one gets none; that of the first weights, the loss and the statistics always does then.
    All ranks begin the same sums in one order, whatever the order of their gradients.

    A gradient can come twice, as from ``torch.utils.checkpoint`` with ``use_reentrant``. So all
    sums of the first step begin after it, and those of later ones, too, where it shows that on any
    rank a gradient would have come to a sum that had begun.
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
        self._overlap_end = ends[-1]  # where the slices end whose sums may begin in a backward pass
        self._members = [
            {n for n, offset in enumerate(offsets[:-1]) if start <= offset < end}
            for start, end in zip(starts, ends, strict=False)
        ]
        self._missing = list[set[int]]()  # weights of each that have no gradient yet
        self._next = 0  # slice whose sum is to begin
        self._overlaps: bool | None = None  # not known before the first step
        self._is_late = False
        hook = partial(Buckets._hook, weakref.proxy(self))  # no circle that would keep the network
        for bucket, members in enumerate(self._members):
            for n in members:
                if parameters[n].requires_grad:
                    parameters[n].register_post_accumulate_grad_hook(partial(hook, bucket, n))

    def begin(self) -> None:
        """Have sums begin in the backward pass that follows; ``end`` is to follow that."""
        self._next, self._missing = 0, [set(members) for members in self._members]

    def _hook(self, bucket: int, n: int, parameter: Any) -> None:
        if not self._missing:  # a step of this rank alone
            return
        if bucket < self._next:
            self._is_late = True
            if self._overlaps:
                self._group.abort()  # the next process group sees it in its first step
                raise ProcessGroupError("a gradient came twice in a backward pass, as never before")
        self._missing[bucket].discard(n)
        while self._next < len(self._sums) and not self._missing[self._next]:
            if self._overlaps:
                self._group.begin_sum(self._sums[self._next])
            self._next += 1

    def end(self, first: int = 0) -> None:
        """Add up what is left, from a place of the vector on, and wait for all sums."""
        for part in self._sums[self._next if self._overlaps else 0 :]:
            self._group.begin_sum(part)
        self._group.sum(self._model.shared[first : self._overlap_end])
        self._missing = []
        if self._overlaps is None and self._sums:
            n_late = self._model.shared.new_tensor(float(self._is_late))
            self._group.sum(n_late)
            self._overlaps = not n_late.item()


def cuts(offsets: Sequence[int]) -> list[int]:
    """Where buckets begin, from the end of a vector; none where it is small.

    Parameters
    ----------
    places : where each parameter begins, and the last ends
    """
    starts, end = list[int](), offsets[-1]
    for offset in offsets[-2:0:-1]:
        if BYTES * (end - offset) >= (EACH if starts else FIRST):
            starts.append(offset)
            end = offset
    return starts
