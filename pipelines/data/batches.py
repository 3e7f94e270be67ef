"""Shuffled batches of rows in memory, for one rank or many.

torch's ``DataLoader``, which takes row by row, was 18 times slower on bytes in memory
(``benchmarks/results/2026-11-22-batches-mnist.md``), and a thread that gathers batches ahead more
than halved what is left. What an epoch shows when is a function of the seed and the epoch alone,
with any number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch

__all__ = ["Batches", "Columns", "RankBatch", "rank_slice"]

Columns = dict[str, "torch.Tensor"]
MIN_ROWS = 2  # rows of a rank's batch


@dataclass(frozen=True, eq=False)
class RankBatch:
    """A rank's rows of one union batch.

    Attributes
    ----------
    columns : tensors by name, of shape (n, ...); n may be 0 at the end of an epoch
    rows : int64 tensor of shape (n,)
        Their numbers.
    n_union : int
        Rows of all ranks together.
    position : int
        Rows of the epoch that all ranks have seen after this batch.
    """

    columns: Columns
    rows: torch.Tensor
    n_union: int
    position: int


class Batches:
    """An iterator of batches; each ``for`` goes to the end of the epoch it is in.

    Parameters
    ----------
    columns : arrays or tensors by name, whose first axis is the row
        They keep their dtype: the bytes of an image stay bytes until they are on the device.
    batch_size : int
        Rows of a rank's batch; the union batch of all ranks has ``n_ranks`` times as many. A last
        one that would leave a rank a single row or none joins the one before: of one row there is
        no variance, which batch normalisation divides by.
    seed : int
        Each epoch has an order of its own, each equally likely.
    map : function of the columns of a batch, optional
        What a row becomes must not depend on the rows beside it. It runs on the device.
    rank, n_ranks : int
        Which part of each union batch is given.
    epoch, position : int
        Where to begin, as another that had this seed and any number of ranks stood there; then
        where it stands.
    device : str
        torch's name of where batches go: ``cpu``, ``cuda``.
    on_host : bool
        Whether rows stay in host memory and only batches are copied to the device, each while
        the device works on the one before; else all rows are, once.

    Raises
    ------
    InputError
        There is no column, or columns differ in length.
    """

    def __init__(
        self,
        columns: Mapping[str, Any],
        *,
        batch_size: int = 128,
        seed: int = 0,
        map: Callable[[Columns], Columns] | None = None,
        rank: int = 0,
        n_ranks: int = 1,
        epoch: int = 0,
        position: int = 0,
        device: str = "cpu",
        on_host: bool = False,
    ) -> None:
        import torch

        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            raise InputError(
                f"{opt('columns')} must be arrays of one length, at least 1, got {lengths}; give "
                "each row a value in every column"
            )
        # torch shares an array's memory, but for one that is read-only, which it copies.
        self._columns: Columns = {
            name: torch.as_tensor(
                column
                if isinstance(column, torch.Tensor)
                else np.require(column, requirements=["C", "W"]),
                device="cpu" if on_host else device,
            )
            for name, column in columns.items()
        }
        self.n_rows = next(iter(lengths.values()))
        self._map, self._seed, self._device = map, seed, device
        self._copies = torch.cuda.Stream(device) if on_host and device != "cpu" else None
        self._batch_size, self._rank, self._n_ranks = batch_size, rank, n_ranks
        self.epoch, self.position = epoch, position

    def __iter__(self) -> Iterator[RankBatch]:
        import torch

        batches = self._gather_batches()
        next_batch = next(batches, None)
        while (batch := next_batch) is not None:
            if self._copies is not None:
                torch.cuda.current_stream(self._device).wait_stream(self._copies)
            next_batch = next(batches, None)  # its copy goes on while the device works on this one
            self.position = batch.position
            yield batch if self._map is None else replace(batch, columns=self._map(batch.columns))
        self.epoch, self.position = self.epoch + 1, 0

    def _gather_batches(self) -> Iterator[RankBatch]:
        for rows, n_union, last in self._parts():
            columns = {name: self._gather(column, rows) for name, column in self._columns.items()}
            yield RankBatch(columns, rows, n_union, last)

    def _order(self) -> np.ndarray:
        """The rows in the order of this epoch."""
        seed = np.random.SeedSequence([self._seed, self.epoch])
        return np.random.default_rng(seed).permutation(self.n_rows)

    def _parts(self) -> Iterator[tuple[torch.Tensor, int, int]]:
        """Yield this rank's rows of each union batch, its length, and the position after it."""
        import torch

        order = torch.from_numpy(self._order())
        order = order.to(next(iter(self._columns.values())).device)
        in_union = self._batch_size * self._n_ranks
        bounds = [*range(self.position, self.n_rows, in_union), self.n_rows]
        min_rows = min(MIN_ROWS, self._batch_size)
        if len(bounds) > 2 and bounds[-1] - bounds[-2] < min_rows * self._n_ranks:
            del bounds[-2]
        for first, last in pairwise(bounds):
            n_union = last - first
            # All ranks, but where there is no batch before to join.
            n_sharing = min(self._n_ranks, max(1, n_union // min_rows))
            is_sharing = self._rank < n_sharing
            part = rank_slice(n_union, self._rank, n_sharing) if is_sharing else slice(0)
            yield order[first:last][part], n_union, last

    def _gather(self, column: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        if self._copies is None:
            return column.index_select(0, rows)
        import torch

        # torch keeps pinned memory and gives it again once the copies from it have ended.
        pinned = torch.empty((len(rows), *column.shape[1:]), dtype=column.dtype, pin_memory=True)
        return self._to_device(torch.index_select(column, 0, rows, out=pinned))

    def _to_device(self, pinned: torch.Tensor) -> torch.Tensor:
        """Copy rows of the host while the device is at work."""
        if self._copies is None:
            return pinned
        import torch

        # The memory may be that of a batch on which the device is still at work.
        self._copies.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._copies):
            return pinned.to(self._device, non_blocking=True)


def rank_slice(n_rows: int, rank: int, n_ranks: int) -> slice:
    """Return the rows of a union batch that are a rank's: parts differ by one row at the most."""
    return slice(n_rows * rank // n_ranks, n_rows * (rank + 1) // n_ranks)
